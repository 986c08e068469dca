"""Mistakes in schemes that read the nodes of trees by learned scalars or vectors."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
steps up and steps down exchanged
  TreePath.kind  position/test_tree_path.py::test_terms_of_another_implementation
  - (-1, 1)
  + (1, -1)
steps counted from the key to the query
  NodePairs.terms  position/test_tree_path.py::test_terms_of_another_implementation
  - self.kind(q_context.positions[:, :, None], k_context.positions[:, None, :])
  + self.kind(k_context.positions[:, None, :], q_context.positions[:, :, None])
many steps up that take the scalars of fewer steps up and many down
  TreePath.kind  position/test_tree_path.py::test_steps_by_loops
  - down.clamp(max=self.depth)
  + down
levels of a tree in place of steps
  TreePath.kind  position/test_tree_path.py::test_steps_by_hand
  - (distance + sign * deeper) // 2
  + deeper.abs()
distances in the tree cut off at the depth, which is half of the way
  TreeDistance.kind  position/test_tree_distance.py::test_distances_by_loops
  - distance.clamp(max=2 * self.depth)
  + distance.clamp(max=self.depth)
the difference of levels in place of the distance in the tree
  TreeDistance.kind  position/test_tree_distance.py::test_distances_by_hand
  - self.tree.distance(query, key)
  + (self.tree.level(query) - self.tree.level(key)).abs()
scalars of pairs of nodes added before the scaling
  NodePairs.bias  position/test_tree_distance.py::test_terms_of_another_implementation
  - terms.to(q.dtype)
  + terms.to(q.dtype) * q.shape[-1] ** -0.5
scalars of the decoder in the attention between decoder and encoder
  NodePairs.terms  position/test_tree_distance.py::test_encoder_decoder_and_cross_attention_have_their_own_scalars
  - (_DECODER if k_context.causal else _CROSS)
  + _DECODER
scalars of encoder and decoder exchanged
  NodePairs.terms  position/test_tree_distance.py::test_encoder_decoder_and_cross_attention_have_their_own_scalars
  - self.scalars[part]
  + self.scalars[(_DECODER, _ENCODER, _CROSS)[part]]
scalars of pairs of nodes that are the same in all heads
  NodePairs.terms  position/test_tree_distance.py::test_terms_of_another_implementation
  - self.scalars[part]
  + self.scalars[part][:1].expand(self.shape.heads, -1)
scalars of pairs of nodes that start as normal draws
  NodePairs.__init__  position/test_tree_distance.py::test_encoder_decoder_and_cross_attention_have_their_own_scalars
  - 0.02 * start
  + start
deep nodes that share the last vector of the table
  TreeLearned.row  position/test_tree_learned.py::test_rows_by_loops
  - self.tree.ancestor(heap, (self.tree.level(heap) - self.depth).clamp(min=0)) - 1
  + heap.clamp(max=len(self.table)) - 1
deep nodes that have the vector of the ancestor above the deepest one in the table
  TreeLearned.row  position/test_tree_learned.py::test_rows_by_hand
  - (self.tree.level(heap) - self.depth).clamp(min=0)
  + (self.tree.level(heap) - self.depth + 1).clamp(min=0)
a vector for each level in place of each node
  TreeLearned.row  position/test_tree_learned.py::test_rows_by_hand
  - self.tree.ancestor(heap, (self.tree.level(heap) - self.depth).clamp(min=0)) - 1
  + self.tree.level(heap).clamp(max=self.depth)
vectors of nodes that start longer than those of `learned`
  TreeLearned.__init__  position/test_tree_learned.py::test_vectors_start_as_those_of_learned
  - table * 0.5**0.5
  + table
""")

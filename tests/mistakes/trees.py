"""Mistakes in trees: their structure, the tasks on them, and users' own trees."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
a source linearised in the order of its target
  Task.sample_counted  tasks/test_tree_copy.py::test_target_is_rederived
  - line = self._linear(source, self.source_order or self.order)
  + line = self._linear(source, self.order)
a run evaluated on sources in an order that it was not trained on
  misfit  structure/test_linearisation.py::test_runs_are_not_asked_about_another_linearisation
  - "task or order", [plan.task, plan.linearisation or ""], [trained.task, trained.order or ""]
  + "task or order", [plan.task, plan.order or ""], [trained.task, (trained.order or "").split("-")[-1]]
a rotation that swaps only the root's children
  TreeRotate.target  tasks/test_tree_rotate.py::test_target_is_rederived
  - trees.mirror if self.rotation == "mirror" else trees.reverse_root
  + trees.reverse_root
of three or more children, only the first or second can be the deep one
  _depths_below  tasks/test_tree_copy.py::test_shapes_of_more_branches_follow_the_sampler
  - index = branching - 1 - ((word & np.uint64(0xFFFFFFFF)) % np.uint64(branching)).astype(np.int64)
  + index = 1 - (word & np.uint64(1)).astype(np.int64)
a second draw that does not replace the first
  _depths_below  tasks/test_tree_copy.py::test_shapes_follow_the_sampler
  - np.where(first < depth - 1, first, second)
  + np.where(first < depth - 1, first, first)
binarised with the number of earlier siblings off by one
  binarise  tasks/test_tree_copy.py::test_target_is_rederived
  - binary[on] = ((2 * binary[on] + 1) << child) - 1
  + binary[on] = ((2 * binary[on] + 1) << (child + 1)) - 1
a truncated subtree that gets children
  TreeOps.closing  tasks/test_unfolding.py::test_targets_unfold_in_their_order
  - return np.where(op == TRUNCATE, pointer, -1)
  + return np.full_like(op, -1)
a factor of a product that is read from the line
  columns  structure/test_structure.py::test_what_a_structure_is_read_from
  - match is not None
  + match is not None and not isinstance(factor, Seq)
a forest whose trees are not in the order of the dataset
  ForestRotate._linear  tasks/test_forests.py::test_target_is_rederived
  - number = row * (int(tree.max(initial=0)) + 1) + tree
  + number = row
a quadtree whose quarters are read column by column
  _squares  tasks/test_quadtree_expand.py::test_target_is_rederived
  - top |= (quarter >> 1) << step
  - left |= (quarter & 1) << step
  + left |= (quarter >> 1) << step
  + top |= (quarter & 1) << step
paths that count the branches from the other side
  TreeQuery._addresses  tasks/test_tree_query.py::test_target_is_rederived
  - self._first_operator + 5 + branch
  + self._first_operator + 4 + k - branch
the subtree in place of the label of its root
  TreeQuery.target  tasks/test_tree_query.py::test_target_is_rederived
  - (source.op == SUBTREE)[row]
  + (source.op <= NODE)[row]
post-order as the reverse of pre-order
  post_order  tasks/test_tree_convert.py::test_target_is_rederived
  - mirror(heap, branching)
  + heap
equal trees of a source in two splits
  together  tasks/test_tree_corpus.py::test_equal_trees_are_in_one_split_and_near_copies_with_their_document
  - np.array([split_of[d] for d in digests])
  + division
the vocabulary of a source counted over documents that are held out
  corpus  tasks/test_tree_corpus.py::test_labels_are_counted_in_training_documents_only
  - division == SPLITS.index("train")
  + division >= 0
masks that hide the root and unknown labels too
  maskable  tasks/test_trees.py::test_unknown_labels_are_never_hidden
  - below if anonymous else below & (label != 0)
  + np.ones_like(below)
the path of a query counted from the node up to the root
  _query  tasks/test_trees.py::test_queries_are_rederived
  - tree.ancestor(whole.position[node][of], steps[of] - 1 - step)
  + tree.ancestor(whole.position[node][of], step)
anonymous names equal in all trees
  TreeRows.symbols  tasks/test_trees.py::test_anonymous_labels_keep_only_which_labels_are_equal
  - rng.child(self.stream[rows], 'names')[:, None]
  + rng.child(self.stream[rows * 0], 'names')[:, None]
a right rotation of a tree, and not of the subtrees of its new root
  rotate_right  tasks/test_tree_rotate.py::test_other_forms_are_rederived
  - np.full_like(top, _TURNS)
  + np.full_like(top, _STAYS)
""")

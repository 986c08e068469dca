r"""Tree distance: a learned scalar for each distance in the tree, one set for each head, added to the logits.

Source: Ying et al. 2021, arXiv:2106.05234 (Graphormer), section 3.1.2, equation 6, on trees. Head $h$ adds
$b_h[d(i, j)]$ to the logit of query $i$ and key $j$, after the scaling by $1/\sqrt{K}$. The distance $d$ is the length
of the shortest path, which in a tree has the steps up to the common ancestor and down again. It is computed from heap
indices, without the edges. The layers share the scalars, which start at 0.02 times a normal draw, as in the authors'
release.

Deviations:

- Distances up to $2 n$ have a scalar of their own, with $n$ the size (`max_size`, the depth of the deepest tree in
  training). All larger distances share the last. The release has 512 scalars, and one for pairs without a path, which
  trees do not have.
- The source is an encoder. Here the term also acts in the decoder and in the attention between decoder and encoder,
  each with scalars of its own, because every scheme acts there.
- Only the spatial encoding is here. The centrality encoding adds a vector for the degree of a node, which is not known
  in a decoder before the children are written. The edge encoding needs features of edges, which these trees do not
  have. There is no virtual node. SOS is read as the root.

The two children of a node have the same distances to all other nodes outside of their subtrees. The scheme cannot tell
left from right.

Shapes: as in `_node_pairs.py`.
"""

from __future__ import annotations

from torch import Tensor

from ape_cli.position._node_pairs import NodePairs


class TreeDistance(NodePairs):
    """A learned scalar for each head and distance in the tree, added to the logits."""

    synonyms = ("graphormer", "spatial-encoding")
    source = "Ying et al. 2021, arXiv:2106.05234, section 3.1.2, equation 6"
    beyond = "larger distances share the last scalar"

    def kinds(self) -> int:
        """One for each distance up to that of two nodes of the greatest depth."""
        return 2 * self.depth + 1

    def kind(self, query: Tensor, key: Tensor) -> Tensor:
        """The distance, or the largest one that has a scalar. int64, broadcast -> int64"""
        distance: Tensor = self.tree.distance(query, key)
        return distance.clamp(max=2 * self.depth)

r"""Tree path: a learned scalar for each combination of steps up and down in the tree, added to the logits.

Source: the tree relative attention of Kim et al. 2021, arXiv:2003.13848, in the additive form of the release of
Chirkova and Troshin 2021, arXiv:2010.07987. Head $h$ adds $b_h[u, d]$ to the logit of query $i$ and key $j$, after the
scaling by $1/\sqrt{K}$. Going from $i$ to $j$ takes $u$ steps up to their common ancestor and $d$ down from there.

Which published form it is: Kim et al. multiply the logits by the scalar. Chirkova and Troshin add it, as here. The
release of Peng et al. 2022 (doi:10.18653/v1/2022.emnlp-main.210) is built on theirs and keeps this term as a baseline.
The method of Peng et al. itself is different: it adds products of vectors that are made from child numbers and numbers
of siblings along the path from the root.

Deviations:

- $u$ and $d$ have scalars of their own up to $n$ each, with $n$ the size (`max_size`, the depth of the deepest tree in
  training). Larger numbers count as $n$. The source has scalars for the most frequent pairs $(u, d)$ in its training
  data, and one for all others.
- The layers share the scalars, which start at 0.02 times a normal draw, as in `t5`. In the source each layer has its
  own, which start at normal draws.
- In the sources, the term acts on keys before the query, or in an encoder. Here it acts in the encoder, in the decoder,
  and in the attention between them, each with scalars of its own. SOS is read as the root.

$u + d$ is the distance, so this includes `tree-distance`. Which child a step leads to is not read.

Shapes: as in `_node_pairs.py`.
"""

from __future__ import annotations

from torch import Tensor

from ape_cli.position._node_pairs import NodePairs


class TreePath(NodePairs):
    """A learned scalar for each head and combination of steps up and down in the tree, added to the logits."""

    synonyms = ("tree-relative-attention", "up-down")
    source = "Kim et al. 2021, arXiv:2003.13848; additive: Chirkova and Troshin 2021, arXiv:2010.07987"
    beyond = "more steps up or down count as the most that have a scalar"

    def kinds(self) -> int:
        """One for each number of steps up and down, each from 0 to the greatest depth."""
        return (self.depth + 1) ** 2

    def kind(self, query: Tensor, key: Tensor) -> Tensor:
        """u (n + 1) + d, with u steps up and d steps down, at most n each. int64, broadcast -> int64"""
        distance: Tensor = self.tree.distance(query, key)
        deeper = self.tree.level(key) - self.tree.level(query)
        up, down = ((distance + sign * deeper) // 2 for sign in (-1, 1))
        return up.clamp(max=self.depth) * (self.depth + 1) + down.clamp(max=self.depth)

r"""WIRE: queries and keys are rotated by learned functions of the spectrum of the source's tree.

Source: Reid et al. 2025, arXiv:2509.22259, Alg. 1 and Eq. (2). Channel pair $(2c, 2c+1)$ of head $h$ is rotated by
$\omega_{h,c} · r_i$ before the scaling by $1/\sqrt{K}$, with learned frequencies $\omega \in \mathbb{R}^m$ and features
$r_i \in \mathbb{R}^m$ of node $i$ in an undirected graph. So a score depends on $r_i - r_j$. The graph has the nodes of
the source, and an edge between a node and its parent if both are present. `features` are:

- `laplacian`: entry $i$ of the $m$ lowest eigenvectors of $L = D - A$ that are not constant and do not vanish at the
  root. They have length 1, and signs such that the entry of the root is positive.
- `eigenvectors`: entry $i$ of the $m$ lowest eigenvectors that are not constant. Their signs, and the basis of a
  repeated eigenvalue, are random, with a digest of the tree as the seed.
- `random-walk`: $(P^{2k})_{ii}$ for $k = 1 … m$ with $P = D^{-1} A$, the probability of being back after $2k$ steps
  of a random walk (appendix A.7, Eq. 15). Odd powers, which the source has too, are left out because they are 0 in a
  tree.

An eigenvector is defined only up to its sign, and up to a rotation if its eigenvalue is repeated. The source leaves
both to the eigensolver, or treats them as augmentation (section 3.2), as its release does, which draws signs at random
in training. The entries then depend on the order of the nodes, which is not part of the graph. `laplacian` avoids
this: it projects the indicator vector of the root onto each eigenspace and scales the result to length 1, which needs
neither a sign nor a basis. It keeps nearly all that an invariant feature can keep: in trees of `tree-copy` (53 nodes on
average), eight features distinguish as many nodes as symmetry allows (34), to within 0.3%. Nodes that a symmetry of the
tree exchanges, such as two leaves of one parent, have the same features in `laplacian` and `random-walk`.
`eigenvectors` tells them apart, but not which of them is the left one.

The paper's Alg. 1 counts the constant eigenvector among the $m$; it has no effect on scores and is left out here. $L$
is that of the paper and of most configurations of the release, whose default is $D^{-1/2} L D^{-1/2}$. Features
that a small tree does not have are 0.

Deviations: the paper has no decoder. The target's tree is not known while it is written, so a node of the target has
the features of the source's node with the same heap index, and 0 if there is none. The scheme therefore acts only in
models with an encoder. SOS is read as the root. The layers share the frequencies, which the paper allows (section 3.1).
They start from a normal distribution with standard deviation 10; the paper tunes the scale for each task (appendix
A.4), and the release starts at 0 by default. The paper uses 8 or 16 features; 8 is best in three of four tasks (table
10).

Features are computed on the CPU, in float64, without a gradient.

Shapes: B batch, H heads, M target tokens, N source tokens, n nodes of a tree, m features, K channels of a head. Angles
are in radians.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ape_cli.core.errors import UsageError, pick
from ape_cli.data.position_plan import PositionPlan
from ape_cli.position import Context, FastScheme, Shape, Side
from ape_cli.position._rotation import Rotations, rotate_pairs
from ape_cli.structure import Tree

_SCALE = 10.0
_KINDS = ("laplacian", "eigenvectors", "random-walk")
# Eigenvalues closer than this count as equal, and shorter projections of a unit vector as 0. In trees of the tasks,
# different eigenvalues are at least 1e-5 apart.
_NONE = 1e-8
F64: TypeAlias = NDArray[np.float64]


class Wire(FastScheme):
    """Rotation of channel pairs by learned functions of a node's spectral features.

    Arguments: `features`, which ones; `count`, their number. Raises `UsageError` for other features, and for a count
    below 1.
    """

    structures = ("tree(k)",)
    unique = False
    needs_encoder = "it reads the tree of the source, which a decoder does not know before it is complete"
    option_help: ClassVar[dict[str, str]] = {
        "features": "Features of a node: laplacian, eigenvectors or random-walk.",
        "count": "Number of features.",
    }
    synonyms = ("graph-rope", "wave-induced", "laplacian")
    source = "Reid et al. 2025, arXiv:2509.22259, Alg. 1"
    content_dependent = True
    variants = ({"features": "eigenvectors"}, {"features": "random-walk"})
    memory = "L D"

    def __init__(self, shape: Shape, features: str = "laplacian", count: int = 8) -> None:
        """Check the options, and draw the frequencies."""
        super().__init__(shape)
        self.features = pick("features", features, _KINDS)
        if count < 1:
            raise UsageError("bad count", got=count, allowed="1 or more", fix="the source uses 8 or 16")
        self.count = count
        drawn = torch.randn(shape.heads, shape.head_dim // 2, count, generator=shape.generator)
        self.frequencies = nn.Parameter(_SCALE * drawn)  # [H, K/2, m]

    def plan(self, positions: Tensor, shared_with: PositionPlan | None = None) -> PositionPlan:
        """The features of the source's tokens, whose padding has the position 0. int64 [B or 1, N] -> a plan

        Those of a target (`shared_with`) are looked up on any device.
        """
        return PositionPlan(tensors=() if shared_with else (self._features(positions, None),))

    def _features(self, positions: Tensor, mask: Tensor | None) -> Tensor:
        """The features of the source's tokens. int64 [B or 1, N], bool [B, N] or None -> float64 [B or 1, N, m]"""
        assert isinstance(self.structure, Tree)
        found: Tensor = features_of(positions, mask, self.features, self.count, self.structure.branching)
        return found

    def _prepared(self, context: Context, shared_with: Context | None) -> Context:
        """The context with the features of its tokens as its state, float64 [B or 1, N, m].

        Raises `UsageError` for a causal context without the context of a source.
        """
        if shared_with is not None:
            found = looked_up(context.positions, shared_with)
        elif not context.causal:
            planned = context.plan.tensors if context.plan else ()
            found = planned[0] if planned else self._features(context.positions, context.mask)
        else:
            what, fix = f"{self.name} does not know the source's tree", "`shared_with`: the context of the source"
            raise UsageError(what, got="a causal context alone", fix=fix)
        return replace(context, prepare=lambda *_: found)

    def rotations(self, context: Context, _: Context) -> Rotations:
        """The rotations by the angles [B or 1, H, N, K/2] of tokens, which all layers share."""
        return Rotations(torch.einsum("bnm,hcm->bhnc", context.state, self.frequencies.double()))

    def rotate_in_basis(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """Turn the vectors at each node. [B, H, N, K] -> the same"""
        return rotate_pairs(x, context.cached(context, self.rotations))


def looked_up(positions: Tensor, source: Context) -> Tensor:
    """The features of the source's nodes at some positions, 0 where it has none. int64 [B or 1, M] -> [B or 1, M, m]"""
    of = source.state  # [B or 1, N, m]
    same = positions.clamp(min=1)[:, :, None] == source.positions.clamp(min=1)[:, None]
    if source.mask is not None:
        same = same & source.mask[:, None]
    index = same.int().argmax(-1, keepdim=True)  # [B or 1, M, 1]
    rows = max(len(index), len(of))
    found = of.expand(rows, -1, -1).gather(1, index.expand(rows, -1, of.shape[-1]))
    return found * same.any(-1, keepdim=True)


@torch.library.custom_op("ape::tree_features", mutates_args=())
def features_of(positions: Tensor, mask: Tensor | None, kind: str, count: int, branching: int) -> Tensor:
    """The features of tokens in the tree of their own row. `mask`: bool [B, N], None if all are tokens.

    Position 0 is SOS, with the features of the root. Padding has features 0.
    int64 [B or 1, N] -> float64 [B or 1, N, m]
    """
    heap = positions.numpy(force=True)
    tokens = np.ones_like(heap, dtype=bool) if mask is None else mask.numpy(force=True)
    found = np.zeros((*np.broadcast_shapes(heap.shape, tokens.shape), count))
    for row, there, out in zip(np.broadcast_to(heap, tokens.shape), tokens, found, strict=True):
        nodes = np.unique(row[there & (row > 0)])
        if nodes.size:
            at = row[there].clip(1)
            place = np.searchsorted(nodes, at)
            out[there] = of_tree(nodes, kind, count, branching)[place] * (nodes[place] == at)[:, None]
    return torch.from_numpy(found).to(positions.device)


@features_of.register_fake
def _(positions: Tensor, mask: Tensor | None, kind: str, count: int, branching: int) -> Tensor:
    shape = positions.shape if mask is None else mask.shape
    return positions.new_empty(*shape, count, dtype=torch.float64)


def of_tree(heap: NDArray[np.int64], kind: str, count: int, branching: int) -> F64:
    """The features of the nodes of a tree, or of several. `heap`: indices in order, int64 [n] -> [n, m]"""
    above = Tree(branching).ancestor(heap, 1)  # 0 for the root
    place = np.searchsorted(heap, above)
    joined = heap[place] == above
    adjacent = np.zeros((heap.size, heap.size))
    adjacent[joined, place[joined]] = adjacent[place[joined], joined] = 1
    degree = adjacent.sum(1)
    if kind == "random-walk":
        # D^1/2 P D^-1/2, whose powers have the diagonals of those of P
        power = walk = adjacent / np.sqrt(np.outer(degree, degree).clip(1))
        columns = np.empty((heap.size, count))
        for k in range(count):
            columns[:, k] = (power**2).sum(1)
            power = power @ walk
    else:
        # NumPy's own solver would use all cores
        value, vector = (x.numpy() for x in torch.linalg.eigh(torch.from_numpy(np.diag(degree) - adjacent)))
        begins = np.flatnonzero(np.diff(value, prepend=-1) > _NONE)  # of each eigenspace, 0 first
        if kind == "laplacian":
            columns = _seen_from(vector, begins, ~joined)
        else:
            columns = _drawn(vector, begins, count, zlib.crc32(heap.tobytes()))
    found = np.zeros((heap.size, count))
    found[:, : columns.shape[1]] = columns[:, :count]
    return found


def _seen_from(vector: F64, begins: NDArray[np.int64], roots: NDArray[np.bool_]) -> F64:
    """The projections of the roots' indicator onto all eigenspaces but the first, scaled to length 1, without zeros.

    `vector`: eigenvectors as columns, [n, n]; `begins`: where each eigenspace begins -> [n, at most n - 1]
    """
    projected = np.add.reduceat(vector * vector[roots].sum(0), begins, axis=1)[:, 1:]
    length = np.linalg.norm(projected, axis=0)
    return projected[:, length > _NONE] / length[length > _NONE]


def _drawn(vector: F64, begins: NDArray[np.int64], count: int, seed: int) -> F64:
    """A random orthonormal basis of each eigenspace but the first, up to `count` vectors or a few more.

    It does not depend on the given basis. `vector` and `begins` are those of `_seen_from`. -> [n, at most n - 1]
    """
    draws = np.random.default_rng(seed)
    columns = vector[:, :0]
    for space in np.split(vector, begins[1:], axis=1)[1:]:
        if columns.shape[1] < count:
            within, lengths = np.linalg.qr(space @ (space.T @ draws.standard_normal(space.shape)))
            columns = np.hstack([columns, within * np.sign(lengths.diagonal())])
    return columns

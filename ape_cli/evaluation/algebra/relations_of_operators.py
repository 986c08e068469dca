"""Relations of encodings that turn queries and keys, along a sequence or by coordinates.

GRAPE-M is the multiplicative encoding of GRAPE (Zhang et al. 2025, arXiv:2512.07805): position n acts by the rotation
exp(n (t_1 L_1 + t_2 L_2 + ...)), where L_i = a b' - b a' turns the plane of the orthonormal vectors a and b. Its planes
are pairs of channels, or learned; they are orthogonal here, so that the L_i commute.

ComRoPE-AP is the axial partition of ComRoPE (Yu et al. 2025, arXiv:2506.03737): the rotation is exp(sum_i x_i A_i),
each A_i consists of skew-symmetric blocks, and each block of channels belongs to one axis, so that all A_i commute.

Shapes: B batch, H heads, N tokens, C axes, K channels of a head, G blocks, b channels of a block.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ape_cli.evaluation.algebra.relation import ConfiguredScheme, Relation, planes, put
from ape_cli.position import Context, Scheme, Shape, Side
from ape_cli.position._operators import random_orthogonal, skew, skew_of
from ape_cli.position._rotation import frequencies

_GRAPE = "Zhang et al. 2025, arXiv:2512.07805"
_FAR = 1e15  # steps in which xPos scores fall by zeta, in the limit without decay


class _Grape(Scheme):
    """GRAPE-M, computed by the exponential of a sum of generators of rank 2."""

    def __init__(self, shape: Shape, learned: bool = False) -> None:
        """Draw an angle for each plane, and the planes if they are `learned`."""
        super().__init__(shape)
        k = shape.head_dim
        self.angles = nn.Parameter(torch.rand(shape.heads, k // 2, generator=shape.generator, dtype=torch.float64))
        vectors = random_orthogonal((shape.heads, k, k), shape.generator) if learned else torch.eye(k).double()
        self.vectors = nn.Buffer(vectors.expand(shape.heads, k, k))  # a and b of each plane, side by side

    def generator(self) -> Tensor:
        """The sum of all t_i L_i. -> [H, K, K]"""
        a, b = self.vectors[..., ::2], self.vectors[..., 1::2]  # [H, K, K/2]
        generators = torch.einsum("hki,hli->hikl", b, a) - torch.einsum("hki,hli->hikl", a, b)  # a is turned towards b
        return torch.einsum("hi,hikl->hkl", self.angles, generators)

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """exp(n (t_1 L_1 + ...)) x. [B, H, N, K] -> the same"""
        operators = torch.linalg.matrix_exp(context.positions[:, None, :, None, None] * self.generator()[:, None])
        return (operators @ x[..., None])[..., 0]


class _ComRope(Scheme):
    """ComRoPE-AP with two blocks of channels for each axis, computed by matrix exponentials."""

    def __init__(self, shape: Shape) -> None:
        """Draw a generator for each block."""
        super().__init__(shape)
        self.count = 2 * shape.structure.width
        width = shape.head_dim // self.count
        free = torch.randn(self.count, shape.heads, width, width, generator=shape.generator, dtype=torch.float64)
        self.blocks = nn.Parameter(skew(free))  # [G, H, b, b]

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """exp(x_i A) of each block with its axis i. [B, H, N, K] -> the same"""
        axes = context.positions.double().repeat_interleave(2, dim=-1)  # [B, N, G]
        exponents = axes.permute(0, 2, 1)[:, :, None, :, None, None] * self.blocks[:, :, None]  # [B, G, H, N, b, b]
        parts = x.unflatten(-1, (self.count, -1)).permute(0, 3, 1, 2, 4)  # [B, G, H, N, b]
        turned = (torch.linalg.matrix_exp(exponents) @ parts[..., None])[..., 0]
        return turned.permute(0, 2, 3, 1, 4).flatten(-2)


def _generator(operators: Any) -> Tensor:
    """Half of the generator of operators, whose skew part is the whole. -> [H, K, K]"""
    return skew_of(operators.unit(), operators.planes()) / 2


def _set_generator(operators: Any, generator: Tensor) -> None:
    """Set the angles and the planes of operators to those of a generator, [H, K, K]."""
    angles, basis = planes(generator)
    put(operators.angles, angles)
    put(operators.basis, basis)


def _set_angles(operators: Any, angles: Tensor) -> None:
    """Set the angles of operators, with pairs of channels as planes."""
    put(operators.angles, angles)
    if operators.basis is not None:
        put(operators.basis, torch.zeros(()))


def _fixed(rope: Any) -> Tensor:
    """The fixed angles of a scheme: base^(-2i/K). -> [K/2]"""
    return frequencies(rope.shape.head_dim, rope.base)


def _of_a_part(special: Any, general: Any) -> None:
    """The frequencies of the channels that are turned, and 0 for the others."""
    put(general.angles, torch.zeros(()))
    general.angles.data[:, : special.turned // 2] = frequencies(special.turned, special.base)


def _halves(special: Any) -> Tensor:
    """The permutation that brings the channels i and i + K/2 side by side. -> [1, K, K]"""
    k = special.shape.head_dim
    order = torch.arange(k).view(2, -1).T.flatten()
    return torch.eye(k, dtype=torch.float64)[:, order][None]


def same(special: Any, general: Any) -> None:
    """All weights."""
    general.load_state_dict(special.state_dict())


def _ring(special: Any, general: Any) -> None:
    """The multiples of 2 pi / n as angles, and the same basis."""
    put(general.operators.angles, special.operators.unit())
    put(general.operators.basis, special.operators.basis)


def down_one_branch(tree: Any) -> tuple[Tensor, Tensor]:
    """Depths, and the nodes at these depths on the path that always takes the first branch."""
    depth = torch.tensor([[0, 1, 2, 3, 5, 8, 12, 20, 30]])
    return depth, tree.level_start(depth)


def _blocks_of_axes(special: Any, general: Any) -> None:
    """The blocks of each axis as the generator of its part."""
    for axis, part in enumerate(general.operators.parts):
        of_axis = special.blocks[2 * axis : 2 * axis + 2].transpose(0, 1)  # [H, 2, b, b]
        _set_generator(part, torch.stack([torch.block_diag(*blocks) for blocks in of_axis]))


def _frequencies_of_axes(special: Any, general: Any) -> None:
    """The frequencies of each axis as angles, in pairs of channels."""
    for share, part in zip(special.shares, general.operators.parts, strict=True):
        _set_angles(part, frequencies(share, special.base))


def _one_axis_each(special: Any, general: Any) -> None:
    """The frequencies of one axis for each pair, and 0 for the other axes."""
    put(general.frequencies, torch.zeros(()))
    at = 0
    for axis, share in enumerate(special.shares):
        general.frequencies.data[axis, :, at : at + share // 2] = frequencies(share, special.base)
        at += share // 2


def _axes_in_one_block(special: Any, general: Any) -> None:
    """The generator of each axis in the rows and columns of its channels."""
    put(general.free, torch.zeros(()))
    at = 0
    for axis, (share, part) in enumerate(zip(special.operators.shares, special.operators.parts, strict=True)):
        general.free.data[axis, :, at : at + share, at : at + share] = _generator(part)
        at += share


_GRID, _TREE = "grid(2)", "tree(2)"
_COMROPE = "Yu et al. 2025, arXiv:2506.03737"
_ROPE, _LEARNED = ConfiguredScheme("rope"), ConfiguredScheme("rope", {"learned": True})
_SEQ, _LIE = ConfiguredScheme("orthogonal-seq"), ConfiguredScheme("lie")
_OF_AXES = ConfiguredScheme("orthogonal-grid", structure=_GRID)
_OF_BRANCHES = ConfiguredScheme("orthogonal-tree", structure=_TREE)
_AXIAL, _MIXED = (ConfiguredScheme(name, structure=_GRID) for name in ("axial-rope", "mixed-rope"))
_PAIRS = ConfiguredScheme("GRAPE-M", formula=_Grape, source=_GRAPE)
_PLANES = ConfiguredScheme("GRAPE-M with learned planes", formula=lambda shape: _Grape(shape, True), source=_GRAPE)
_BLOCKS = ConfiguredScheme("ComRoPE-AP", structure=_GRID, formula=_ComRope, source=_COMROPE)
_RING = ConfiguredScheme("orthogonal", structure="cyclic(6)")
_LIE_ON_GRID = ConfiguredScheme("lie", structure=_GRID)
RELATIONS = [
    Relation(ConfiguredScheme("none"), _LEARNED, "zero angles", lambda _, rope: put(rope.angles, torch.zeros(()))),
    Relation(_ROPE, _LEARNED, "angles base^(-2i/K)", lambda rope, learned: put(learned.angles, _fixed(rope))),
    Relation(ConfiguredScheme("rope", {"partial": 0.5}), _LEARNED, "zero angles in the other channels", _of_a_part),
    Relation(
        ConfiguredScheme("rope", {"interleaved": False}),
        _ROPE,
        "channels i and i + K/2 as pairs, which the projections can form",
        basis=_halves,
    ),
    Relation(_ROPE, _SEQ, "angles base^(-2i/K), basis I", lambda rope, seq: _set_angles(seq.operators, _fixed(rope))),
    Relation(_LEARNED, _SEQ, "the same angles, basis I", lambda rope, seq: _set_angles(seq.operators, rope.angles)),
    Relation(
        _SEQ,
        _LEARNED,
        "the same angles; the projections absorb the basis (appendix A of the paper)",
        lambda seq, rope: put(rope.angles, seq.operators.angles),
        basis=lambda seq: seq.operators.planes(),
    ),
    Relation(_PAIRS, _LEARNED, "the same angles", lambda grape, rope: put(rope.angles, grape.angles)),
    Relation(
        _PLANES,
        _SEQ,
        "the angles and the planes of its generator",
        lambda grape, seq: _set_generator(seq.operators, grape.generator()),
    ),
    Relation(_ROPE, ConfiguredScheme("xpos", {"scale_base": _FAR}), "limit without decay", compared="behind"),
    Relation(_SEQ, ConfiguredScheme("orthogonal"), "the same weights", same),
    Relation(_OF_BRANCHES, ConfiguredScheme("orthogonal", structure=_TREE), "the same weights", same),
    Relation(_OF_AXES, ConfiguredScheme("orthogonal", structure=_GRID), "the same weights", same),
    Relation(_RING, _SEQ, "angles that are multiples of 2 pi / 6, same basis", _ring),
    Relation(
        _SEQ,
        _OF_BRANCHES,
        "its generator for one branch, at nodes along that branch",
        lambda seq, tree: put(tree.operators.free[0], _generator(seq.operators)),
        positions=down_one_branch,
    ),
    Relation(_BLOCKS, _OF_AXES, "one generator for each axis, with planes within the blocks", _blocks_of_axes),
    Relation(_AXIAL, _OF_AXES, "angles base^(-2i/share), basis I", _frequencies_of_axes),
    Relation(_AXIAL, _MIXED, "zero frequencies for all axes but one", _one_axis_each),
    Relation(
        _MIXED,
        ConfiguredScheme("lie", {"block": 2}, structure=_GRID),
        "the frequencies of each pair as its generators",
        lambda mixed, lie: put(
            lie.free, skew_of(mixed.frequencies.flatten(1)[..., None], torch.eye(2, dtype=torch.float64)) / 2
        ),
    ),
    Relation(_OF_AXES, _LIE_ON_GRID, "the generator of each axis, on its share of the channels", _axes_in_one_block),
    Relation(
        _LIE,
        _SEQ,
        "the angles and the planes of its generator",
        lambda lie, seq: _set_generator(seq.operators, skew(lie.free[0])),
    ),
    Relation(
        _LIE,
        _LEARNED,
        "its angles; the projections absorb the basis of its planes",
        lambda lie, rope: put(rope.angles, planes(skew(lie.free[0]))[0]),
        basis=lambda lie: torch.linalg.matrix_exp(skew(planes(skew(lie.free[0]))[1])),
    ),
    Relation(
        _SEQ,
        _LIE,
        "the generator with its angles and planes",
        lambda seq, lie: put(lie.free[0], _generator(seq.operators)),
    ),
]

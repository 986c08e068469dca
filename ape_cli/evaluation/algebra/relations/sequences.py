"""Relations of encodings that turn queries and keys along a sequence.

GRAPE-M is the multiplicative encoding of GRAPE (Zhang et al. 2025, arXiv:2512.07805): position n acts by the rotation
exp(n (t_1 L_1 + t_2 L_2 + ...)), where L_i = a b' - b a' turns the plane of the orthonormal vectors a and b. Its planes
are pairs of channels, or learned; they are orthogonal here, so that the L_i commute.

Shapes: H heads, N tokens, K channels of a head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ape_cli.evaluation.algebra.relations._relation import ConfiguredScheme, Relation, planes, put
from ape_cli.position import Context, Scheme, Shape, Side
from ape_cli.position._operators import random_orthogonal, skew_of
from ape_cli.position._rotation import frequencies
from ape_cli.structure import Structure, Tree

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
        each = torch.einsum("hki,hli->hikl", b, a) - torch.einsum("hki,hli->hikl", a, b)  # a is turned towards b
        return torch.einsum("hi,hikl->hkl", self.angles, each)

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """exp(n (t_1 L_1 + ...)) x. [B, H, N, K] -> the same"""
        operators = torch.linalg.matrix_exp(context.positions[:, None, :, None, None] * self.generator()[:, None])
        return (operators @ x[..., None])[..., 0]


def _learned_planes(shape: Shape) -> Scheme:
    """GRAPE-M with planes that are not pairs of channels."""
    return _Grape(shape, learned=True)


def _angles(special: Any, general: Any) -> None:
    """The angles of the special scheme: its own, or the fixed frequencies."""
    angles = getattr(special, "angles", None)
    put(general.angles, frequencies(special.shape.head_dim, special.base) if angles is None else angles)


def _no_angles(_: Any, general: Any) -> None:
    """All angles 0."""
    put(general.angles, torch.zeros(()))


def _of_a_part(special: Any, general: Any) -> None:
    """The frequencies of the channels that are turned, and 0 for the others."""
    _no_angles(special, general)
    general.angles.data[:, : special.turned // 2] = frequencies(special.turned, special.base)


def _in_channels(special: Any, general: Any) -> None:
    """The same angles, with pairs of channels as planes."""
    _angles(special, general.operators)
    put(general.operators.basis, torch.zeros(()))


def _in_planes(special: Any, general: Any) -> None:
    """The same generator: its angles, and a basis of its planes."""
    angles, basis = planes(special.generator())
    put(general.operators.angles, angles)
    put(general.operators.basis, basis)


def _of_operators(special: Any, general: Any) -> None:
    """The angles of the operators of the special scheme."""
    put(general.angles, special.operators.angles)


def _basis(special: Any) -> Tensor:
    """The basis of the planes of the special scheme. -> [H, K, K]"""
    basis: Tensor = special.operators.planes()
    return basis


def _halves(special: Any) -> Tensor:
    """The permutation that brings the channels i and i + K/2 side by side. -> [1, K, K]"""
    k = special.shape.head_dim
    order = torch.arange(k).view(2, -1).T.flatten()
    return torch.eye(k, dtype=torch.float64)[:, order][None]


def _same(special: Any, general: Any) -> None:
    """All weights."""
    general.load_state_dict(special.state_dict())


def _ring(special: Any, general: Any) -> None:
    """The multiples of 2 pi / n as angles, and the same basis."""
    put(general.operators.angles, special.operators.unit())
    put(general.operators.basis, special.operators.basis)


def _one_branch(special: Any, general: Any) -> None:
    """The generator of the sequence for the first branch of the tree."""
    general.operators.free.data[0] = skew_of(special.operators.unit(), special.operators.planes()) / 2


def _down_one_branch(tree: Structure) -> tuple[Tensor, Tensor]:
    """Depths, and the nodes at these depths on the path that always takes the first branch."""
    assert isinstance(tree, Tree)
    depth = torch.tensor([[0, 1, 2, 3, 5, 8, 12, 20, 30]])
    return depth, tree.level_start(depth)


def _nothing(_: Any, __: Any) -> None:
    """Nothing has to be set."""


_LEARNED = ConfiguredScheme("rope", {"learned": True})
_SEQ = ConfiguredScheme("orthogonal-seq")
RELATIONS = [
    Relation(ConfiguredScheme("none"), _LEARNED, "zero angles", _no_angles),
    Relation(ConfiguredScheme("rope"), _LEARNED, "angles base^(-2i/K)", _angles),
    Relation(ConfiguredScheme("rope", {"partial": 0.5}), _LEARNED, "zero angles in the other channels", _of_a_part),
    Relation(
        ConfiguredScheme("rope", {"interleaved": False}),
        ConfiguredScheme("rope"),
        "channels i and i + K/2 as pairs, which the projections can form",
        _nothing,
        basis=_halves,
    ),
    Relation(ConfiguredScheme("rope"), _SEQ, "angles base^(-2i/K), basis I", _in_channels),
    Relation(_LEARNED, _SEQ, "the same angles, basis I", _in_channels),
    Relation(
        _SEQ,
        _LEARNED,
        "the same angles; the projections absorb the basis (appendix A of the paper)",
        _of_operators,
        basis=_basis,
    ),
    Relation(ConfiguredScheme("GRAPE-M", formula=_Grape, source=_GRAPE), _LEARNED, "the same angles", _angles),
    Relation(
        ConfiguredScheme("GRAPE-M with learned planes", formula=_learned_planes, source=_GRAPE),
        _SEQ,
        "the angles and the planes of its generator",
        _in_planes,
    ),
    Relation(
        ConfiguredScheme("rope"),
        ConfiguredScheme("xpos", {"scale_base": _FAR}),
        "limit without decay",
        _nothing,
        "behind",
    ),
    Relation(_SEQ, ConfiguredScheme("orthogonal"), "the same weights", _same),
    Relation(
        ConfiguredScheme("orthogonal-tree", structure="tree(2)"),
        ConfiguredScheme("orthogonal", structure="tree(2)"),
        "the same weights",
        _same,
    ),
    Relation(
        ConfiguredScheme("orthogonal-grid", structure="grid(2)"),
        ConfiguredScheme("orthogonal", structure="grid(2)"),
        "the same weights",
        _same,
    ),
    Relation(
        ConfiguredScheme("orthogonal", structure="cyclic(6)"),
        _SEQ,
        "angles that are multiples of 2 pi / 6, same basis",
        _ring,
    ),
    Relation(
        _SEQ,
        ConfiguredScheme("orthogonal-tree", structure="tree(2)"),
        "its generator for one branch, at nodes along that branch",
        _one_branch,
        places=_down_one_branch,
    ),
]

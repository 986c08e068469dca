"""Relations of encodings that turn queries and keys by coordinates.

ComRoPE-AP is the axial partition of ComRoPE (Yu et al. 2025, arXiv:2506.03737): the rotation is exp(sum_i x_i A_i),
each A_i consists of skew-symmetric blocks, and each block of channels belongs to one axis, so that all A_i commute.

Shapes: B batch, H heads, N tokens, C axes, K channels of a head, G blocks, b channels of a block.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ape_cli.evaluation.algebra.relations._relation import ConfiguredScheme, Relation, planes, put
from ape_cli.position import Context, Scheme, Shape, Side
from ape_cli.position._operators import skew, skew_of
from ape_cli.position._rotation import frequencies

_GRID = "grid(2)"


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


def _blocks_of_axes(special: Any, general: Any) -> None:
    """The blocks of each axis as the generator of its part."""
    for axis, part in enumerate(general.operators.parts):
        of_axis = special.blocks[2 * axis : 2 * axis + 2].transpose(0, 1)  # [H, 2, b, b]
        generator = torch.stack([torch.block_diag(*blocks) for blocks in of_axis])
        angles, basis = planes(generator)
        put(part.angles, angles)
        put(part.basis, basis)


def _frequencies_of_axes(special: Any, general: Any) -> None:
    """The frequencies of each axis as angles, in pairs of channels."""
    for share, part in zip(special.shares, general.operators.parts, strict=True):
        put(part.angles, frequencies(share, special.base))
        if part.basis is not None:
            put(part.basis, torch.zeros(()))


def _one_axis_each(special: Any, general: Any) -> None:
    """The frequencies of one axis for each pair, and 0 for the other axes."""
    put(general.frequencies, torch.zeros(()))
    at = 0
    for axis, share in enumerate(special.shares):
        general.frequencies.data[axis, :, at : at + share // 2] = frequencies(share, special.base)
        at += share // 2


def _in_pairs(special: Any, general: Any) -> None:
    """A block of two channels for each pair, with its frequencies."""
    angles = special.frequencies.flatten(1)[..., None]  # [C, G, 1]
    put(general.free, skew_of(angles, torch.eye(2, dtype=angles.dtype)) / 2)


def _axes_in_one_block(special: Any, general: Any) -> None:
    """The generator of each axis in the rows and columns of its channels."""
    put(general.free, torch.zeros(()))
    at = 0
    for axis, (share, part) in enumerate(zip(special.operators.shares, special.operators.parts, strict=True)):
        generator = skew_of(part.unit(), part.planes()) / 2
        general.free.data[axis, :, at : at + share, at : at + share] = generator
        at += share


def _one_generator(special: Any, general: Any) -> None:
    """The angles and the planes of the generator."""
    angles, basis = planes(skew(special.free[0]))
    put(general.operators.angles, angles)
    put(general.operators.basis, basis)


def _one_block(special: Any, general: Any) -> None:
    """The generator of the angles and the planes."""
    put(general.free[0], skew_of(special.operators.unit(), special.operators.planes()) / 2)


def _angles_of_planes(special: Any, general: Any) -> None:
    """The angles of the generator."""
    put(general.angles, planes(skew(special.free[0]))[0])


def _basis_of_planes(special: Any) -> Tensor:
    """The basis of the planes of the generator. -> [H, K, K]"""
    return torch.linalg.matrix_exp(skew(planes(skew(special.free[0]))[1]))


_OF_AXES = ConfiguredScheme("orthogonal-grid", structure=_GRID)
_AXIAL = ConfiguredScheme("axial-rope", structure=_GRID)
_MIXED = ConfiguredScheme("mixed-rope", structure=_GRID)
RELATIONS = [
    Relation(
        ConfiguredScheme("ComRoPE-AP", structure=_GRID, formula=_ComRope, source="Yu et al. 2025, arXiv:2506.03737"),
        _OF_AXES,
        "one generator for each axis, with planes within the blocks",
        _blocks_of_axes,
    ),
    Relation(_AXIAL, _OF_AXES, "angles base^(-2i/share), basis I", _frequencies_of_axes),
    Relation(_AXIAL, _MIXED, "zero frequencies for all axes but one", _one_axis_each),
    Relation(
        _MIXED,
        ConfiguredScheme("lie", {"block": 2}, structure=_GRID),
        "the frequencies of each pair as its generators",
        _in_pairs,
    ),
    Relation(
        _OF_AXES,
        ConfiguredScheme("lie", structure=_GRID),
        "the generator of each axis, on its share of the channels",
        _axes_in_one_block,
    ),
    Relation(
        ConfiguredScheme("lie"),
        ConfiguredScheme("orthogonal-seq"),
        "the angles and the planes of its generator",
        _one_generator,
    ),
    Relation(
        ConfiguredScheme("lie"),
        ConfiguredScheme("rope", {"learned": True}),
        "its angles; the projections absorb the basis of its planes",
        _angles_of_planes,
        basis=_basis_of_planes,
    ),
    Relation(
        ConfiguredScheme("orthogonal-seq"),
        ConfiguredScheme("lie"),
        "the generator with its angles and planes",
        _one_block,
    ),
]

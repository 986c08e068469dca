"""The places of a structure that pictures show: all positions up to a size, their names, offsets and coordinates.

Positions are those that a scheme reads: sequences, rings and the axes of grids count from 1, and nodes of trees are
heap indices from 1. Products have the places of their factors, and the last factor varies fastest.

Shapes: N places, C factors of a product.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64
from ape_cli.structure import Cyclic, Grid, Structure, Tree, factors_of

MOST = 512  # places in a picture
_LIMITS = {"length": (1, 256), "depth": (0, 8), "side": (1, 64)}
# default sizes of a structure alone and in a product, so that a heat map has 30 to 40 rows
ALONE = {"length": 32, "depth": 4, "side": 6}
_IN_A_PRODUCT = {"length": 6, "depth": 2, "side": 3}
Floats = NDArray[np.float64]


def sizes_of(structure: Structure) -> list[str]:
    """The sizes that a structure has: some of `length`, `depth` and `side`. A ring has its order instead."""
    return list(dict.fromkeys(name for factor in factors_of(structure) if (name := _size_of(factor))))


def places(structure: Structure, requested: dict[str, int | None]) -> I64:
    """All places of a structure up to its sizes. -> int64 [N] or [N, C]

    `requested`: the sizes `length`, `depth` and `side`; None means the default. Trees are complete. Raises `UsageError`
    if a size is out of range, if the structure does not have a size that is given, or if there are too many places.
    """
    size_names, factors = sizes_of(structure), factors_of(structure)
    for name, value in requested.items():
        if value is None:
            continue
        low, high = _LIMITS[name]
        if name not in size_names:
            allowed = ", ".join(f"`{size}`" for size in size_names) or "none: a ring has its order"
            raise UsageError(f"{structure} has no {name}", got=f"`{name}={value}`", allowed=allowed, fix="leave it out")
        if not low <= value <= high:
            raise UsageError(f"bad `{name}`", got=value, allowed=f"{low} to {high}", fix="choose one of these")
    usual = ALONE if len(factors) == 1 and structure.width <= 2 else _IN_A_PRODUCT
    sizes = {name: usual[name] if requested.get(name) is None else requested[name] for name in size_names}
    axes = [axis for factor in factors for axis in _axes(factor, sizes)]
    if (total := math.prod(axis.stop - 1 for axis in axes)) > MOST:
        what = f"too many places for a picture: {structure} of this size"
        fix = " or ".join(f"a smaller `{name}`" for name in size_names) or "a smaller ring"
        raise UsageError(what, got=f"{total:,}", allowed=f"at most {MOST}", fix=fix)
    every = np.array(list(itertools.product(*axes)), dtype=np.int64)
    return every[:, 0] if structure.width == 1 else every


def names(at: I64) -> list[str]:
    """The name of each place: its position, or its coordinates with commas. int64 [N] or [N, C]"""
    return [",".join(map(str, np.atleast_1d(position).tolist())) for position in at]


def index_of(name: str, at: I64) -> int:
    """The index of the place with a name. at: int64 [N] or [N, C]. Raises `UsageError` if no place has it."""
    place_names = names(at)
    if name.replace(" ", "") not in place_names:
        allowed = f"{place_names[0]} to {place_names[-1]}, as far as the picture reaches"
        raise UsageError("no such place", got=f"`node={name}`", allowed=allowed, fix="name a place that is drawn")
    return place_names.index(name.replace(" ", ""))


def middle(structure: Structure, at: I64) -> int:
    """The index of a place from which the others are worth looking at. at: int64 [N] or [N, C]

    It is the middle one; in a tree, the first child of the root.
    """
    if isinstance(structure, Tree):
        return min(1, len(at) - 1)
    apart = np.asarray(structure.distance(at[:, None], at[None]))
    return int(apart.sum(1).argmin())


def apart(structure: Structure, at: I64) -> tuple[I64, str]:
    """How far each key (column) is from each query (row), and what this number is. -> int64 [N, N]

    On a line it is the offset, key - query. On a ring it is the offset modulo the order. Elsewhere it is the distance
    in steps, which has no direction.
    """
    if structure.width == 1 and not isinstance(structure, Tree):
        offset = at[None, :] - at[:, None]
        if isinstance(structure, Cyclic):
            return offset % structure.order, "offset on the ring, key - query"
        return offset, "offset, key - query"
    return np.asarray(structure.distance(at[:, None], at[None])), "distance in steps"


def coordinates(structure: Structure, at: I64) -> Floats | None:
    """Where each place is drawn: x to the right, y upwards. -> float64 [N, 2]

    A node of a tree is drawn above the middle of its descendants. A ring begins at the top and goes clockwise. A grid
    of two axes has its first axis as rows, from the top. Other structures have no drawing, and None is returned.
    """
    if isinstance(structure, Tree):
        level = structure.level(at)
        x = (at - structure.level_start(level) + 0.5) / structure.branching**level
        return np.stack([x * structure.branching ** level.max(), -level.astype(float)], axis=1)
    if isinstance(structure, Cyclic):
        angle = np.pi / 2 - 2 * np.pi * (at - 1) / structure.order
        return len(at) / (2 * np.pi) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if isinstance(structure, Grid) and structure.width == 2:
        return np.stack([at[:, 1], -at[:, 0]], axis=1).astype(float)
    return None


def edges(structure: Structure, at: I64) -> list[tuple[int, int]]:
    """The pairs of indices of places that are one step apart, the smaller index first. at: int64 [N] or [N, C]"""
    near = np.asarray(structure.distance(at[:, None], at[None])) == 1
    return [(int(i), int(j)) for i, j in zip(*np.nonzero(np.triu(near)), strict=True)]


def _size_of(factor: Structure) -> str:
    """The name of a factor's size; empty for a ring."""
    if isinstance(factor, Cyclic):
        return ""
    return "depth" if isinstance(factor, Tree) else "side" if isinstance(factor, Grid) else "length"


def _axes(factor: Structure, sizes: dict[str, Any]) -> list[range]:
    """The coordinates of a factor, one range for each axis, all from 1."""
    if isinstance(factor, Tree):
        return [range(1, int(factor.level_start(sizes["depth"] + 1)))]
    count = factor.order if isinstance(factor, Cyclic) else sizes[_size_of(factor)]
    return [range(1, count + 1)] * factor.width

"""The panels of pictures: numbers with names, which are not drawn yet.

A colour stands for a number from -`limit` to `limit`. White is 0, and equal numbers have equal colours in all panels
of a picture.

Shapes: L points of a curve, M rows, N columns or places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ape_cli.core.rng import I64
from ape_cli.reports.palette import SCORES
from ape_cli.structure import Structure

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """A mean over heads by offset, with its range over heads."""

    title: str
    x: I64  # [L], ascending
    mean: Floats  # [L]
    low: Floats  # [L]
    high: Floats  # [L]
    heads: int
    x_label: str
    y_label: str
    y_range: tuple[float, float]  # the lowest and the highest number in all curves of the picture


@dataclass(frozen=True)
class HeatMap:
    """Numbers for pairs of a query (row) and a key (column)."""

    title: str
    values: Floats  # [M, N]
    limit: float
    label: str  # what the numbers are
    rows: Sequence[str]  # names of the queries
    columns: Sequence[str]  # names of the keys
    words: bool = False  # whether the names are tokens, which are written out; otherwise they are places


@dataclass(frozen=True)
class Diagram:
    """Places of a structure with a number each: the scores of the keys there, for the query at one place."""

    title: str
    structure: Structure
    places: I64  # [N] or [N, C]
    values: Floats  # [N]
    limit: float
    label: str  # what the numbers are
    node: int  # the index of the query


Panel: TypeAlias = Curve | HeatMap | Diagram


def limit_of(*values: Floats) -> float:
    """The largest absolute value, [...]; 1 if all are 0."""
    return max((float(np.abs(some).max(initial=0.0)) for some in values), default=0.0) or 1.0


def steady(panel: Panel) -> Panel:
    """The panel with seven digits of its largest number. Processors differ in the last digits, and draw the same."""
    if isinstance(panel, Curve):
        low, high = panel.y_range
        digits = _digits(max(abs(low), abs(high)))
        mean, least, most = (some.round(digits) + 0.0 for some in (panel.mean, panel.low, panel.high))
        ends = round(low, digits), round(high, digits)
        return replace(panel, mean=mean, low=least, high=most, y_range=ends)
    digits = _digits(panel.limit)
    return replace(panel, values=panel.values.round(digits) + 0.0, limit=round(panel.limit, digits))


def _digits(largest: float) -> int:
    """The decimals with which a number of this size has seven digits; many if it is 0 or not finite.

    >>> _digits(1.0), _digits(0.02), _digits(250.0), _digits(0.0)
    (6, 8, 4, 15)
    """
    # powers of ten have to be on the same side for every processor
    return 6 - math.floor(math.log10(largest) + 1e-9) if 1e-9 < largest < math.inf else 15


def colour(fraction: float) -> tuple[int, int, int]:
    """The colour of a number, as a fraction of the limit from -1 to 1. -> red, green, blue from 0 to 255

    >>> colour(0.0), colour(1.0), colour(-0.5)
    ((255, 255, 255), (26, 85, 168), (205, 163, 128))
    """
    low, zero, high = ([int(code[i : i + 2], 16) for i in (1, 3, 5)] for code in SCORES)
    end, share = (high if fraction > 0 else low), abs(fraction)
    red, green, blue = (round(z + share * (e - z)) for z, e in zip(zero, end, strict=True))
    return red, green, blue

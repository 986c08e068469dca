"""Pictures of what a positional encoding does. Each kind is one file, and `ape draw --view NAME` draws it.

A kind of picture says what it is made of, and arranges panels:

    panels(material)    -> rows of panels, each of them a `Curve`, a `HeatMap` or a `Diagram`

Panels hold numbers and names only. A colour stands for a number from -`limit` to `limit`. White is 0, and equal numbers
have equal colours in all panels of a picture. `_figure.py` draws panels with matplotlib, and `cli/drawings.py` with
characters. A new kind of picture is a file in this folder, or in a folder `ape_cli/reports/pictures` elsewhere on the
Python path. Its name is the stem of its file, with `_` replaced by `-`.

Shapes: H heads, N places, C factors of a product, L layers or points of a curve, M queries.
"""

from __future__ import annotations

import math
import pkgutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ape_cli.core import plugins, user_parts
from ape_cli.core.rng import I64
from ape_cli.reports.palette import SCORES
from ape_cli.structure import Structure

__path__ = pkgutil.extend_path(__path__, __name__)  # so that kinds in another ape_cli/reports/pictures are found

DEFAULT = "offsets"
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

    def __post_init__(self) -> None:
        """Check the number of names. Raises `ValueError`."""
        if np.shape(self.values) != (len(self.rows), len(self.columns)):
            got = f"{list(np.shape(self.values))} values, {len(self.rows)} rows and {len(self.columns)} columns"
            raise ValueError(f"a heat map has a value for each row and column, not {got}")


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
        mean, lower, upper = (values.round(digits) + 0.0 for values in (panel.mean, panel.low, panel.high))
        ends = round(low, digits), round(high, digits)
        return replace(panel, mean=mean, low=lower, high=upper, y_range=ends)
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


@dataclass(frozen=True)
class Subject:
    """The scores of a scheme between all pairs of places (`evaluation/position_scores.py`)."""

    structure: Structure
    places: I64  # [N] or [N, C]
    scores: NDArray[np.float64]  # [H, N, N], queries as rows
    measure: str  # what a score is
    name: str = ""  # `before training`, for example; empty if there is only one

    @property
    def label(self) -> str:
        """What the numbers of a panel are."""
        return f"score: {self.measure}"

    def titled(self, title: str) -> str:
        """The title of a panel, with the name of the subject."""
        return f"{title}, {self.name}" if self.name else title


@dataclass(frozen=True)
class Material:
    """What a picture is made of. Each kind of picture reads some of it (`PictureKind.needs`)."""

    title: str
    subjects: Sequence[Subject] = ()  # one; or two, before and after training
    node: int | None = None  # the index of the place from which scores are shown; None for the usual one
    weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0, 0, 0)))  # attention, [L, H, M, N]
    tokens: tuple[Sequence[str], Sequence[str]] = ((), ())  # the names of queries and keys


class PictureKind(ABC):
    """A kind of picture."""

    part_kind: ClassVar[str] = "picture"  # for messages
    about: ClassVar[str] = ""  # a line of help
    # `training` is the scheme of a run, twice; `attention` is the weights of a run
    needs: ClassVar[Literal["scheme", "training", "attention"]] = "scheme"
    from_one_node: ClassVar[bool] = False  # whether it shows the scores from one place, which --node chooses

    @property
    def name(self) -> str:
        """The name of the kind, from its file."""
        return plugins.name_of(type(self))

    @abstractmethod
    def panels(self, material: Material) -> list[list[Panel]]:
        """Rows of panels. Raises `UsageError` if the structure cannot be drawn in this way."""


def names() -> list[str]:
    """The names of all kinds of pictures. Raises `UsageError` if two have the same name."""
    return plugins.names(sys.modules[__name__])


def load(name: str) -> PictureKind:
    """The kind of picture of a name. Raises `ApeError` if there is none, or if its file cannot be imported."""
    picture_class = plugins.load(sys.modules[__name__], name, PictureKind)  # type: ignore[type-abstract]
    with user_parts.explained(picture_class):
        return picture_class()


def every() -> list[PictureKind]:
    """All kinds of pictures that can be imported."""
    return user_parts.every(load, names())


def drawn(picture: PictureKind, material: Material) -> list[list[Panel]]:
    """The panels of a picture. Raises `ApeError` if a user's own kind fails or returns an unexpected value."""

    def right(rows: Any) -> bool:
        lists = isinstance(rows, list) and all(isinstance(row, list) and row for row in rows)
        return lists and bool(rows) and all(isinstance(panel, Panel) for row in rows for panel in row)

    rows: list[list[Panel]] = user_parts.called(picture, "panels", right, "rows of panels, at least one", material)
    return rows

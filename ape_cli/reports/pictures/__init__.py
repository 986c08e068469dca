"""Pictures of what a positional encoding does. Each kind is one file, and `ape draw --view NAME` draws it.

A kind of picture says what it is made of, and arranges panels:

    panels(material)    -> rows of panels, each of them a `Curve`, a `HeatMap` or a `Diagram` (`_panels.py`)

Panels hold numbers and names only. `_figure.py` draws them with matplotlib, and `cli/picture_text.py` with characters.
A new kind of picture is a file in this folder, or in a folder `ape_cli/reports/pictures` elsewhere on the Python path.
Its name is the stem of its file, with `_` replaced by `-`.

Shapes: H heads, N places, C factors of a product, L layers, M queries.
"""

from __future__ import annotations

import pkgutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ape_cli.core import plugins
from ape_cli.core.rng import I64
from ape_cli.reports.pictures._panels import Curve, Diagram, HeatMap, Panel
from ape_cli.structure import Structure

__all__ = ["Curve", "Diagram", "HeatMap", "Material", "Panel", "PictureKind", "Subject", "load", "names"]

__path__ = pkgutil.extend_path(__path__, __name__)  # so that kinds in another ape_cli/reports/pictures are found

DEFAULT = "offsets"


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

    about: ClassVar[str]  # a line of help
    needs: ClassVar[str] = "scheme"  # or `training` (the scheme of a run, twice), or `attention` (weights of a run)
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
    return plugins.load(sys.modules[__name__], "view", name, PictureKind)()  # type: ignore[type-abstract]

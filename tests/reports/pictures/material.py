"""Scores with known numbers, for tests of pictures."""

from __future__ import annotations

import numpy as np

from ape_cli.reports.pictures import Material, Subject
from ape_cli.reports.pictures._places import places
from ape_cli.structure import parse_structure


def subject(structure: str, scores: np.ndarray, name: str = "", **sizes: int | None) -> Subject:
    """Scores, [H, N, N], between the places of a structure."""
    read = parse_structure(structure)
    return Subject(read, places(read, sizes), scores.astype(np.float64), "added to the logit", name)


def line(name: str = "", factor: float = 1.0) -> Subject:
    """Three places and two heads, with the score query + 10 key in the first head and 0 in the second."""
    at = np.arange(1, 4)
    first = at[:, None] + 10 * at[None, :]
    return subject("seq", factor * np.stack([first, 0 * first]), name, length=3)


def made(*subjects: Subject, node: int | None = None) -> Material:
    """The material of a picture of these scores."""
    return Material("a title", subjects, node)

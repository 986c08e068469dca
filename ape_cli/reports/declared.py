"""What tasks and schemes say about their place in tables and their look in figures.

Schemes are not imported, because that would import torch: their files are read (`plugins.literals`).
"""

from __future__ import annotations

from functools import cache

from ape_cli import tasks
from ape_cli.core import plugins
from ape_cli.core.errors import ApeError

LAST = 1_000_000  # the place of rows and columns that have none of their own


@cache
def is_image(task: str) -> bool:
    """Whether the rows of a task are images."""
    return tasks.kind_of(task) == "image"


@cache
def task_place(task: str) -> int:
    """The place of a task's columns in tables; `LAST` if it has none or is not installed."""
    try:
        place = tasks.load(task).table_place
    except ApeError:
        return LAST
    return LAST if place is None else place


def scheme_place(scheme: str) -> int:
    """The place of a scheme's rows in tables; `LAST` if it has none or is not installed."""
    place = _of_scheme(scheme, "table_place")
    return LAST if place is None else place


def palette_index(scheme: str) -> int | None:
    """The index of a scheme's colour and mark in the palette; None if it has none or is not installed."""
    return _of_scheme(scheme, "palette_index")


@cache
def _of_scheme(scheme: str, attribute: str) -> int | None:
    """A class attribute of a scheme that is a whole number."""
    found = plugins.literals("ape_cli.position", scheme).get(attribute)
    return found if type(found) is int else None

"""What tasks and schemes say about their place in tables, their sizes and their look in figures.

Schemes are not imported, because that would import torch: their files are read (`plugins.literals`).
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache

from ape_cli import tasks
from ape_cli.core import plugins
from ape_cli.core.errors import ApeError

_SIZE_WORDS = {  # for each structure, the meaning of a size and the label of its axis
    "seq": ("length", "length of the source, symbols"),
    "tree": ("depth", "depth of the source, steps from the root"),
    "grid": ("longer side", "longer side of the source, cells"),
    "cyclic": ("ring", "places of the ring"),
}
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


def size_words(task: str, structure: str) -> tuple[str, str]:
    """The meaning of a size for a task, or for a structure, and the label of its axis."""
    with suppress(ApeError):  # the task may not be installed here
        if own := tasks.load(task).size_words:
            return own
    return _SIZE_WORDS.get(structure.partition("(")[0], ("size", "size of the source"))


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

"""What reports know about the built-in schemes and tasks: their order in tables, and the looks of schemes in figures.

Schemes are not imported, because that would import torch. A user's own scheme or task comes after the built-in ones,
and `palette` gives the scheme a colour that no other scheme of the figure has.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

from ape_cli import tasks
from ape_cli.core.errors import ApeError

SCHEMES = (  # in the order of the preprint's tables, then the others
    *("none", "sinusoidal", "learned", "relative", "tree", "rope"),
    *("orthogonal-seq", "orthogonal-tree", "orthogonal-grid"),
    *("alibi", "matrix-power", "orthogonal", "t5", "transformer-xl"),
)
TASKS = ("copy", "reverse", "repeat", "tree-copy", "tree-rotate", "c3", "tree-ops")  # those of the preprint's tables

BOW_TIE = ((-1, -1), (-1, 1), (1, -1), (1, 1), (-1, -1))
HOURGLASS = ((-1, -1), (1, -1), (-1, 1), (1, 1), (-1, -1))
# The colour and the mark of each scheme. Simulated annealing found these colours, starting near an earlier palette. The
# CIEDE2000 difference of any two is at least 8 in normal vision and under deuteranopia, protanopia and tritanopia
# (Machado, Oliveira and Fernandes 2009, severity 1.0); for two schemes that a sweep of record trains side by side it is
# at least 10. The contrast (WCAG 2) of each colour is at least 3 on white. On the dark page, both hold with the colours
# of `ON_DARK`. tests/reports/test_palette.py measures all of this.
LOOKS: dict[str, tuple[str, Any]] = {
    "none": ("#838383", "d"),
    "sinusoidal": ("#c3881c", "s"),
    "learned": ("#a5906b", ">"),
    "matrix-power": ("#96750c", "<"),
    "relative": ("#f05ab3", "D"),
    "t5": ("#755e81", BOW_TIE),
    "transformer-xl": ("#4e52fa", HOURGLASS),
    "alibi": ("#577e45", "p"),
    "rope": ("#2f94fe", "o"),
    "tree": ("#02714b", "^"),
    "orthogonal-seq": ("#9b4702", "v"),
    "orthogonal-tree": ("#9b4bb0", "P"),
    "orthogonal-grid": ("#428b9d", "X"),
    "orthogonal": ("#cd486e", "*"),
}
ON_DARK = {  # what replaces colours that are too dark on a dark page: those of `t5`, `tree` and `orthogonal-seq`
    "#755e81": "#d1a9e6",
    "#02714b": "#8ec4a8",
    "#9b4702": "#f8a878",
}
_SIZE_WORDS = {  # for each structure, the meaning of a size and the label of its axis
    "seq": ("length", "length of the source, symbols"),
    "tree": ("depth", "depth of the source, steps from the root"),
    "grid": ("longer side", "longer side of the source, cells"),
    "cyclic": ("ring", "places of the ring"),
}


def rank(name: str, known: tuple[str, ...]) -> int:
    """The place of a scheme or a task in an order; after all others if it is not in it."""
    return known.index(name) if name in known else len(known)


@cache
def is_image(task: str) -> bool:
    """Whether the rows of a task are images."""
    return tasks.modality_of(task) == "image"


def size_words(task: str, structure: str) -> tuple[str, str]:
    """The meaning of a size for a task, or for a structure, and the label of its axis."""
    with suppress(ApeError):  # the task may not be installed here
        if words := tasks.load(task).size_words:
            return words
    return _SIZE_WORDS.get(structure.partition("(")[0], ("size", "size of the source"))

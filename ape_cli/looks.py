"""How figures look: colours, marks and dashes that follow from names alone, one style, no matplotlibrc.

A scheme has its colour and its mark in every figure, whatever stands beside it: its own below, or one that a digest
of its name chooses. The dashes and the mark of a variant follow from its words.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Colours keep a contrast of 2.5 with white and with a dark page; where two are near, the marks tell them apart.
_OWN = {
    "none": ("#7f7f7f", "d"),
    "sinusoidal": ("#d98e04", "s"),
    "learned": ("#a6761d", ">"),
    "matrix-power": ("#b08d00", "<"),
    "relative": ("#cc79a7", "D"),
    "t5": ("#8f8f2a", "p"),
    "transformer-xl": ("#7a6ff0", "h"),
    "alibi": ("#5c9e31", "8"),
    "rope": ("#2f7fc1", "o"),
    "tree": ("#009e73", "^"),
    "orthogonal-seq": ("#d55e00", "v"),
    "orthogonal-tree": ("#a44fc4", "P"),
    "orthogonal-grid": ("#0f9da8", "X"),
    "orthogonal": ("#c2407a", "*"),
}
_OTHERS = ("#d98e04", "#2f7fc1", "#009e73", "#d55e00", "#cc79a7", "#7a6ff0", "#5c9e31", "#a6761d")
_MARKS = "os^vDPX<"
_DASHES = [(0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (2.5, 1))]
INK = "#1b1e21"  # of all that is neutral, so that a page can put its own in its place

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.axisbelow": True,
    "grid.alpha": 0.15,
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "figure.constrained_layout.h_pad": 0.08,  # inches
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "text.parse_math": False,  # a name is what it is
    "svg.hashsalt": "ape",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,  # TrueType; publishers refuse Type 3
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color"), INK
    ),
}


def look(row: str) -> tuple[str, str, Any]:
    """Colour, mark and dashes of a row of the tables, `rope` or `rope (decay=0.98)`; by its words alone."""
    scheme, _, variant = row.partition(" ")
    number = _hash(scheme)
    colour, mark = _OWN.get(scheme) or (_OTHERS[number % 8], _MARKS[number // 8 % 8])
    if not variant:
        return colour, mark, "-"
    number = _hash(variant)
    return colour, _MARKS[number % 8], _DASHES[number // 8 % 4]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


@contextmanager
def drawing() -> Iterator[None]:
    """Our style, and nothing of a matplotlibrc."""
    from matplotlib import style

    with style.context(["default", _STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # somebody's name in another script
        yield

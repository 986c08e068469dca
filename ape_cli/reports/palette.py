"""The palette of figures: the look of each row of the tables, the style of all figures, and their legends.

A scheme of `LOOKS` has its own colour and mark in every figure. Other schemes, such as `xpos` or a user's own, get the
next colours that no scheme of the figure has. So all schemes of a figure differ in colour, unless there are
more schemes than colours. A variant (`rope (decay=0.98)`) has the colour of its scheme, and the next free mark and
dashes. No two rows of a figure share both mark and dashes.

Each line style has one meaning. Solid is a row named by its scheme alone. Dashed is a variant, whose name is longer.
Dotted (`DOTTED`) is the test split beside the validation split.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Look(NamedTuple):
    """The look of a row. `mark` and `dashes` have the form that matplotlib takes."""

    colour: str
    mark: Any
    dashes: Any

    @property
    def style(self) -> dict[str, Any]:
        """The arguments of matplotlib's lines."""
        return {"color": self.colour, "marker": self.mark, "linestyle": self.dashes}


Looks: TypeAlias = dict[str, Look]  # of each row

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

_CORNERS = (((-1, -1), (1, -1), (-1, 1), (-1, -1)), ((1, 1), (-1, 1), (1, -1), (1, 1)))  # of other schemes

_MARKS = (*(mark for _, mark in LOOKS.values()), *_CORNERS)
SOLID = "-"
_DASHES = (  # on, off, on, off … in line widths; none looks like a dotted line
    (0, (4, 1.5)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (2.2, 1.1)),
    (0, (7, 2.5)),
    (0, (4, 1.2, 1, 1.2, 1, 1.2)),
    (0, (7, 1.5, 2.5, 1.5)),
)
INK = "#1b1e21"  # the neutral colour, which a page replaces by its own text colour
INK_ON_DARK = "#d9dee4"  # what replaces it in a picture for a dark page
DOTTED: dict[str, Any] = {"linestyle": ":", "linewidth": 0.9, "markersize": 2.2}  # the curve of the test split
HOLLOW: dict[str, Any] = {"linestyle": "none", "markerfacecolor": "none"}  # a point with few test rows
LEAD: dict[str, Any] = {"linewidth": 0.8, "alpha": 0.5}  # the line from the axis to a dot
PAPER: dict[str, Any] = {"linestyle": "none", "marker": "|", "markersize": 8, "markeredgewidth": 1.5}  # its number
SCORES = ("#9b4702", "#ffffff", "#1a55a8")  # colours of the lowest score, 0 and the highest; both ends equally dark

PANEL = (3.1, 2.35)  # inches, width and height

_STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans", "sans-serif"],
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
    "lines.markersize": 4.5,
    "figure.constrained_layout.h_pad": 0.08,  # inches
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "legend.handlelength": 3.6,
    "text.parse_math": False,  # a name is what it is
    "svg.hashsalt": "ape",
    "svg.fonttype": "none",  # words stay words: the file is a third as large, and can be searched and edited
    "pdf.fonttype": 42,  # TrueType; publishers refuse Type 3
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color"), INK
    ),
}


def looks(rows: Iterable[str]) -> Looks:
    """The look of each row of a figure. The order of `rows` has no effect.

    No two rows share both mark and dashes. No two schemes share a colour unless there are more schemes than colours.
    """
    names = sorted(set(rows))
    schemes = dict.fromkeys(name.partition(" ")[0] for name in names)
    chosen = {scheme: Look(*LOOKS[scheme], SOLID) for scheme in schemes if scheme in LOOKS}
    others = [scheme for scheme in schemes if scheme not in LOOKS]
    colours = [colour for scheme, (colour, _) in LOOKS.items() if scheme not in schemes and scheme != "none"]
    colours = colours or [colour for colour, _ in LOOKS.values()]
    marks = {look.mark for look in chosen.values()}
    free = (mark for mark in _marks(len(LOOKS)) if mark not in marks)  # first those that no built-in scheme has
    chosen |= {scheme: Look(colours[i % len(colours)], next(free), SOLID) for i, scheme in enumerate(others)}
    taken = {(look.mark, look.dashes) for look in chosen.values()}
    for name in names:
        if name not in chosen:
            of_scheme = chosen[name.partition(" ")[0]]
            first = _MARKS.index(of_scheme.mark) + 1 if of_scheme.mark in _MARKS else 0
            looks_of_scheme = (chosen[row] for row in chosen if row.partition(" ")[0] == name.partition(" ")[0])
            used = {look.mark for look in looks_of_scheme}
            pairs = ((mark, dashes) for mark in _marks(first) if mark not in used for dashes in _DASHES)
            mark, dashes = next(pair for pair in pairs if pair not in taken)
            taken.add((mark, dashes))
            chosen[name] = Look(of_scheme.colour, mark, dashes)
    return {name: chosen[name] for name in names}


def _marks(first: int) -> Iterator[Any]:
    """All marks from number `first` on, then those before it, then stars with 6, 7, 8 … points."""
    first %= len(_MARKS)
    yield from (*_MARKS[first:], *_MARKS[:first])
    yield from ((points, 1, 0) for points in itertools.count(6))


@contextmanager
def drawing(**settings: Any) -> Iterator[None]:
    """A context with the style of this module and further settings. The user's matplotlibrc has no effect."""
    from matplotlib import style

    with style.context(["default", _STYLE | settings]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # somebody's name in another script
        yield


def line(label: str, **style: Any) -> Any:
    """The handle of a line or a mark in a legend, in the neutral colour unless the style has another."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **{"color": INK} | style)


def area(label: str, **style: Any) -> Any:
    """The handle of an area in a legend."""
    from matplotlib.patches import Patch

    return Patch(label=label, **style)


class Legend:
    """A legend below all axes, with as many columns as its widest label leaves room for.

    handles: matplotlib artists with labels. width: the least width of the figure in inches. The attributes `width` and
    `height` are the width that the figure needs and the height of the legend, in inches.
    """

    def __init__(self, handles: list[Any], width: float) -> None:
        """Measure the labels, and compute the size and the number of columns."""
        from matplotlib import rcParams
        from matplotlib.font_manager import FontProperties
        from matplotlib.textpath import text_to_path

        self.handles = handles
        font = FontProperties(family=rcParams["font.family"], size=rcParams["font.size"])
        words = [str(handle.get_label()) for handle in handles]
        widest = max(text_to_path.get_text_width_height_descent(x, font, ismath=False)[0] for x in words)
        ems = rcParams["legend.handlelength"] + rcParams["legend.handletextpad"] + rcParams["legend.columnspacing"]
        column, margins = (widest + ems * rcParams["font.size"]) / 72, 0.3  # inches
        self.width = max(width, column + margins)
        self.columns = max(1, min(len(handles), int((self.width - margins) / column)))
        self.height = 0.15 + 0.19 * -(-len(handles) // self.columns)  # inches

    def put(self, figure: Figure) -> None:
        """Add the legend to a figure."""
        figure.legend(handles=self.handles, loc="outside lower center", ncols=self.columns)

"""The palette of figures: the look of each row of the tables, the style of all figures, and their legends.

A built-in scheme has its own colour and mark (`LOOKS`), in every figure. For other schemes, such as a user's
own, a digest of the name says which colour and mark they ask for. If another scheme of the
figure has them, they get the next free ones. So all schemes of a figure differ in colour, unless there are more schemes
than colours. A variant (`rope (decay=0.98)`) has the colour of its scheme. Its mark and its dashes follow from its
words. No two rows of a figure share both mark and dashes: if two rows want the same, one of them gets the next free
choice.

Each line style has one meaning. Solid is a row named by its scheme alone. Dashed is a variant, whose name is longer.
Dotted (`DOTTED`) is the test split beside the validation split.
"""

from __future__ import annotations

import hashlib
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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

_UPRIGHT = ((-0.5, -1), (0.5, -1), (0.5, 1), (-0.5, 1), (-0.5, -1))
_LYING = ((-1, -0.5), (1, -0.5), (1, 0.5), (-1, 0.5), (-1, -0.5))

_COLOURS = tuple(colour for colour, _ in LOOKS.values())[1:]  # for other schemes; the first is grey
_SPARE = (_UPRIGHT, _LYING)  # marks that no built-in scheme has
_MARKS = (*(mark for _, mark in LOOKS.values()), *_SPARE)
SOLID = "-"
_DASHES = (  # on, off, on, off … in line widths; none looks like a dotted line
    (0, (4, 1.5)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (2.2, 1.1)),
    (0, (7, 2.5)),
    (0, (4, 1.2, 1, 1.2, 1, 1.2)),
    (0, (7, 1.5, 2.5, 1.5)),
)
_FIRST = {  # what variants of the tables of record ask for first: places after their scheme's mark, and dashes;
    # chosen so that no two rows of the ablation have the same mark
    "(decay=0.98)": (14, 0),
    "(decay=1)": (2, 1),
    "(structure=grid(2))": (7, 2),
    "(distance=euclidean)": (9, 3),
}
INK = "#1b1e21"  # the neutral colour, which a page replaces by its own text colour
INK_ON_DARK = "#d9dee4"  # what replaces it in a picture for a dark page
DOTTED: dict[str, Any] = {"linestyle": ":", "linewidth": 0.9, "markersize": 2.2}  # the curve of the test split
HOLLOW: dict[str, Any] = {"linestyle": "none", "markerfacecolor": "none"}  # a point with few test rows
LEAD: dict[str, Any] = {"linewidth": 0.8, "alpha": 0.5}  # the line from the axis to a dot
PAPER: dict[str, Any] = {"linestyle": "none", "marker": "|", "markersize": 8, "markeredgewidth": 1.5}  # its number
ZERO: dict[str, Any] = {"facecolor": "none", "edgecolor": INK, "hatch": "//////", "alpha": 0.25, "linewidth": 0}
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
    schemes = sorted({_scheme(name) for name in names})
    chosen = {scheme: Look(*LOOKS[scheme], SOLID) for scheme in schemes if scheme in LOOKS}
    _choose([scheme for scheme in schemes if scheme not in chosen], chosen, _of_unknown, len(_COLOURS))
    _choose([name for name in names if name not in chosen], chosen, _of_variant, len(_DASHES))
    return {name: chosen[name] for name in names}


def _choose(names: list[str], chosen: Looks, wishes: Callable[[str, Looks], Iterator[Look]], of_mark: int) -> None:
    """Add the first free one of its `wishes` for each name to `chosen`. All first wishes come before any second wish.

    `of_mark`: the number of wishes with the same mark.
    """
    taken = {claim for name, look in chosen.items() for claim in _claims(name, look)}

    def is_placed(name: str, count: int | None, claims: int = 3) -> bool:
        for look in itertools.islice(wishes(name, chosen), count):
            if taken.isdisjoint(_claims(name, look)[:claims]):
                chosen[name] = look
                taken.update(_claims(name, look))
                return True
        return False

    for name in [name for name in names if not is_placed(name, 1)]:
        if not is_placed(name, len(_MARKS) * of_mark):
            is_placed(name, None, claims=2)


def _claims(name: str, look: Look) -> list[tuple[Any, ...]]:
    """The three things that no other row may share with this one.

    These are mark and dashes together in the figure, and the mark in its scheme. The third is the colour in the figure
    for a scheme, and the dashes in its scheme for a variant. It is dropped if there are more schemes than colours, or
    more variants than dashes.
    """
    scheme = _scheme(name)
    last = ("colour", look.colour) if name == scheme else ("dashes", scheme, look.dashes)
    return [("both", look.mark, look.dashes), ("mark", scheme, look.mark), last]


def _of_unknown(scheme: str, chosen: Looks) -> Iterator[Look]:
    """The possible looks of a scheme that is not built in, in an order that a digest of its name chooses."""
    number = _hash(scheme)
    colours, number = _rotated(_COLOURS, number), number // len(_COLOURS)
    for mark in itertools.chain(_rotated(_SPARE, number), _rotated(_MARKS[: -len(_SPARE)], number), _stars()):
        yield from (Look(colour, mark, SOLID) for colour in colours)


def _of_variant(row: str, chosen: Looks) -> Iterator[Look]:
    """The possible looks of a variant, in an order that `_FIRST` or a digest of its words chooses.

    The same words first ask for the same dashes in every scheme. Their mark is counted from the mark of the scheme, so
    that the same variant of two schemes has two marks.
    """
    scheme, _, words = row.partition(" ")
    number, of_scheme = _hash(words), chosen[scheme]
    place = _MARKS.index(of_scheme.mark) if of_scheme.mark in _MARKS else _hash(scheme)
    further, dash = _FIRST.get(words) or (1 + number % (len(_MARKS) - 1), number // len(_MARKS))
    for mark in itertools.chain(_rotated(_MARKS, place + further), _stars()):
        yield from (Look(of_scheme.colour, mark, dashes) for dashes in _rotated(_DASHES, dash))


def _rotated(items: tuple[Any, ...], number: int) -> tuple[Any, ...]:
    """The items, starting from number `number`. Counting wraps around at the end."""
    first = number % len(items)
    return items[first:] + items[:first]


def _stars() -> Iterator[tuple[int, int, int]]:
    """An endless supply of marks: stars with 6, 7, 8 … points."""
    return ((points, 1, 0) for points in itertools.count(6))


def _scheme(row: str) -> str:
    """The scheme of a row: its first word."""
    return row.partition(" ")[0]


def _hash(text: str) -> int:
    """A digest of a text as an integer from 0 to 2^64 - 1."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


_entered: ContextVar[dict[str, Any] | None] = ContextVar("entered", default=None)  # the settings of the context


@contextmanager
def drawing(**settings: Any) -> Iterator[None]:
    """A context with the style of this module and further settings. The user's matplotlibrc has no effect.

    Entering it takes longer than drawing a small figure. Within a context of the same settings it takes no time.
    """
    if _entered.get() == settings:
        yield
        return
    from matplotlib import style

    before = _entered.set(settings)
    try:
        with style.context(["default", _STYLE | settings]), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # somebody's name in another script
            yield
    finally:
        _entered.reset(before)


class Margins:
    """The margins around the axes of alike figures.

    matplotlib computes them for the first figure only, because that takes as long as drawing it.
    """

    def __init__(self) -> None:
        """No figure is known yet."""
        self._inches: tuple[float, float, float, float] | None = None  # left, bottom, right, top

    def put(self, figure: Figure) -> None:
        """Place the axes of a figure that has one pair of them."""
        (axes,), (width, height) = figure.axes, figure.get_size_inches()
        if self._inches is None:
            figure.set_layout_engine("constrained")
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
            box = axes.get_position()
            self._inches = box.x0 * width, box.y0 * height, (1 - box.x1) * width, (1 - box.y1) * height
        left, bottom, right, top = self._inches
        axes.set_position((left / width, bottom / height, 1 - (left + right) / width, 1 - (bottom + top) / height))


def line(label: str, **style: Any) -> Any:
    """The handle of a line or a mark in a legend, in the neutral colour unless the style has another."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **{"color": INK} | style)


def area(label: str, **style: Any) -> Any:
    """The handle of an area in a legend."""
    from matplotlib.patches import Patch

    return Patch(label=label, **style)


def zero_errors() -> Any:
    """The handle of the hatched strip for errors of 0."""
    return area("an error of 0, which has no logarithm", **ZERO)


def swatch(handle: Any) -> Figure:
    """The sign of a handle as a small figure without its label, for a legend in HTML."""
    from matplotlib.figure import Figure

    with drawing():
        figure = Figure(figsize=(0.45, 0.17))
        figure.legend(handles=[handle], labels=[""], loc="center", borderpad=0, handletextpad=0, borderaxespad=0)
    return figure


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

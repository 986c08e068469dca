"""The figures of a report: how they are drawn, their legends, and how they are written to files.

A row looks the same in every figure (`palette.looks`). The files have no dates and no random ids, so the same input
gives the same bytes. Figures need matplotlib (the extra `plots`).
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

from ape_cli.core import escaping
from ape_cli.core.errors import ApeError
from ape_cli.core.extras import how_to_install
from ape_cli.reports.palette import INK, ZERO, Look, drawing, looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE_STYLES = "A solid line is a scheme with its default settings. A dashed line is a variant of a scheme."
FORMATS = ("svg", "png", "pdf")  # file formats by their endings

_METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def missing() -> str | None:
    """How to install matplotlib, or None if it is installed."""
    return None if find_spec("matplotlib") else f"{how_to_install('plots')}, then run the same command again"


def require() -> None:
    """Check that matplotlib is installed and can be imported. Raises `ApeError` if not."""
    if fix := missing():
        raise ApeError("plots need matplotlib, which is not installed", fix=fix)
    try:
        import_module("matplotlib.figure")
    except Exception as error:  # it reads settings, for example an unknown backend in MPLBACKEND
        raise ApeError(
            "plots need matplotlib, which cannot be imported",
            got=f"{type(error).__name__}: {error}",
            fix="correct its settings (MPLBACKEND, matplotlibrc), or install it again",
        ) from error


Pieces: TypeAlias = "tuple[list[tuple[str, Figure]], list[Any]]"  # panels with their titles; handles of a legend


@dataclass(frozen=True)
class Plot:
    """A figure that is not drawn yet, with the names of its rows.

    `draw` and `divide` take an axis (one of `scales.KINDS`) and the look of each row. `draw` is None if the figure
    cannot be drawn, and then `note` says why. `divide` draws the same figure in pieces, as an HTML page shows it: small
    figures, each with a title, and handles for one legend. Without it, the page has the figure in one piece.
    """

    rows: list[str]
    draw: Callable[[str, dict[str, Look]], Figure] | None
    note: str = ""
    divide: Callable[[str, dict[str, Look]], Pieces] | None = None


def draw_figures(wanted: Mapping[str, Plot | None], axis: str = "score") -> dict[str, Figure]:
    """Draw the plots. Returns the figures by the names of their files; plots that cannot be drawn are left out.

    `axis` is one of `scales.KINDS`. A row has the same look in all figures. The rows of plots that are not drawn get a
    look too, so the other rows look the same with and without them. Raises `ApeError` if matplotlib cannot be used.
    """
    require()
    plots = {name: plot for name, plot in wanted.items() if plot}
    chosen = looks([row for plot in plots.values() for row in plot.rows])
    return {name: plot.draw(axis, chosen) for name, plot in plots.items() if plot.draw}


def encode(figure: Figure, kind: str, **settings: Any) -> bytes:
    """The content of a file in one of `FORMATS`, with a white background unless `inline` has made it transparent.

    settings: further settings of matplotlib's style.
    """
    out = io.BytesIO()
    with drawing(**settings):
        figure.savefig(out, format=kind, metadata=_METADATA[kind], dpi=200)
    return out.getvalue()


def inline(figure: Figure, name: str, label: str = "") -> str:
    """A figure as an SVG element for an HTML page, with the font and the text colour of the page and no background.

    `name` is put before every id, so that one page can have several figures. `label` describes the figure to readers
    who do not see it; without one they are not told of it. The figure stays transparent afterwards.
    """
    figure.patch.set_alpha(0)
    for axes in figure.axes:
        axes.patch.set_alpha(0)
    svg = encode(figure, "svg", **{"svg.fonttype": "none"}).decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    svg = re.sub(r' (?:xmlns(?::\w+)?|version)="[^"]*"', "", svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(?:xlink:)?href="#', f'href="#{name}-', svg).replace("url(#", f"url(#{name}-")
    svg = re.sub(r"<[^>]*>", lambda tag: _shorter(tag[0]), svg).replace(INK, "currentColor")
    svg = re.sub(r">\s*\n\s*<", ">\n<", svg)
    said = f'role="img" aria-label="{escaping.html(label)}"' if label else 'aria-hidden="true"'
    return svg.replace("<svg", f"<svg {said}", 1)


def _shorter(tag: str) -> str:
    """A tag of an SVG element with two decimals in each number, without the font, and in one line.

    >>> _shorter("<path d='M 1.23456 2 \\nL 3.5 4.1'/>"), _shorter("<text style=\\"font-family: 'X'; fill: #0f0\\">")
    ("<path d='M 1.23 2 L 3.5 4.1'/>", '<text style="fill: #0f0">')
    """
    tag = re.sub(r"font-family: [^;\"]*; |(?<=\.\d\d)\d+| transform=\"rotate\(-0 [^\"]*\"", "", tag)
    return re.sub(r"\s*\n\s*", " ", tag)


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

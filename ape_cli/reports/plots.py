"""Figures of a report: what draws each of them, their looks, and their files.

A row looks the same in every figure (`palette.looks`).
The same input gives the same bytes: there are no dates and no random ids. Needs matplotlib (the extra `plots`).
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ape_cli.core.errors import ApeError
from ape_cli.reports.palette import INK, Look, drawing, looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "png", "pdf")  # of files, by their endings

_METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def missing() -> str | None:
    """What to do where there is no matplotlib; None where there is."""
    return None if find_spec("matplotlib") else "pip install matplotlib, then the same command"


def require() -> None:
    """Raises `ApeError` if there is no matplotlib."""
    if fix := missing():
        raise ApeError("plots need matplotlib, which is not installed", fix=fix)


@dataclass(frozen=True)
class Plot:
    """A figure that is not drawn yet.

    `draw` takes an axis (one of `scales.KINDS`) and the look of each row. It is None where there is too much to draw,
    and `note` says so.
    """

    rows: list[str]
    draw: Callable[[str, dict[str, Look]], Figure] | None
    note: str = ""


def figures(wanted: Mapping[str, Plot | None], axis: str = "score") -> dict[str, Figure]:
    """The figures by their names as files, without those that there is nothing for.

    `axis`: one of `scales.KINDS`. A row looks the same in all figures, also beside a plot that is not drawn.
    """
    plots = {name: plot for name, plot in wanted.items() if plot}
    chosen = looks([row for plot in plots.values() for row in plot.rows])
    return {name: plot.draw(axis, chosen) for name, plot in plots.items() if plot.draw}


def encode(figure: Figure, kind: str) -> bytes:
    """A figure as one of `FORMATS`, on white."""
    out = io.BytesIO()
    with drawing():
        figure.savefig(out, format=kind, metadata=_METADATA[kind], dpi=200)
    return out.getvalue()


def inline(figure: Figure, name: str) -> str:
    """A figure as an SVG element for an HTML page, its neutral colour the text's own, nothing behind it.

    `name` goes before every id, so that several figures can stand in one page. The figure is transparent from then on.
    """
    figure.patch.set_alpha(0)
    for axes in figure.axes:
        axes.patch.set_alpha(0)
    svg = encode(figure, "svg").decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    svg = re.sub(r' (?:xmlns(?::\w+)?|version)="[^"]*"', "", svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(?:xlink:)?href="#', f'href="#{name}-', svg).replace("url(#", f"url(#{name}-")
    svg = svg.replace(INK, "currentColor")
    return svg.replace("<svg", f'<svg role="img" aria-label="{name.replace("-", " ")}, a plot"', 1)

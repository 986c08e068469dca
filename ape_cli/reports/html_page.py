"""A report as one self-contained HTML page: facts about the report, tables, and figures, in sections.

A section is about one view and one metric. Without a script the page shows all sections below one another. With its own
script it shows those of the selected view and metric, and sorts and filters the rows of tables. The page allows only
this script and loads nothing: its content security policy says so to the browser. The template, the script and the
style are the files in the folder `page`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ape_cli.core import escaping
from ape_cli.reports.palette import Look
from ape_cli.reports.plots import Plot, inline, swatch
from ape_cli.reports.tables import Table, is_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OF_ERRORS = """ The axis shows the error, 100% less the score, on a logarithmic scale. An error of 0 has no logarithm.
It stands at 0, in the hatched strip below the scale."""


@dataclass(frozen=True)
class Metric:
    """A metric of the page, by its key and its name in words."""

    key: str
    name: str


@dataclass(frozen=True)
class PageFigure:
    """A figure in panels beside one legend. Without `signs` it is one drawing with a legend of its own."""

    title: str
    caption: str
    panels: Sequence[tuple[str, Markup]]  # titles and SVG elements
    signs: Sequence[tuple[Markup, str]] = ()  # the legend: SVG elements and words


@dataclass(frozen=True)
class Section:
    """A section of the page: tables, and a figure if there is one."""

    title: str
    tables: Sequence[Table]
    figure: PageFigure | None = None
    metric: Metric | None = None  # None: the section does not depend on the metric

    @property
    def anchor(self) -> str:
        """The name of the view in links."""
        return anchor(self.title)

    @property
    def titled(self) -> list[tuple[int, Table]]:
        """The tables whose titles differ from that of the section, with their numbers."""
        return [(number, table) for number, table in enumerate(self.tables, 1) if table.title != self.title]


def anchor(title: str) -> str:
    """The name of a section with this title, in links and as the name of a file.

    >>> anchor("By size"), anchor("<b>../x")
    ('by-size', 'b-x')
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def figure(plot: Plot, name: str, title: str, caption: str, axis: str, chosen: dict[str, Look]) -> PageFigure:
    """Draw a plot for the page.

    name: put before each id. title: what the figure shows, for readers who do not see it. axis: one of `scales.KINDS`.
    chosen: the look of each row.
    """
    assert plot.draw, "a plot without a figure has no place on a page"
    caption += _OF_ERRORS if axis == "error" else ""
    if plot.divide is None:
        return PageFigure(title, caption, [("", _svg(plot.draw(axis, chosen), name, f"{title}: a plot"))])
    panels, handles = plot.divide(axis, chosen)
    return PageFigure(
        title,
        caption,
        [
            (head, Markup(inline(drawn, f"{name}-{i}", f"{title}, {head}: a plot")))
            for i, (head, drawn) in enumerate(panels)
        ],
        [(_svg(swatch(x), f"{name}-legend-{i}"), x.get_label()) for i, x in enumerate(handles)],
    )


def _svg(drawn: Figure, name: str, label: str = "") -> Markup:
    """A figure as an SVG element of the page (`plots.inline`)."""
    return Markup(inline(drawn, name, label))


def page(
    sections: Sequence[Section], *, title: str = "ape report", facts: Sequence[tuple[str, str]] = (), missing: str = ""
) -> str:
    """The page. Sections without tables and figure are left out. The first section is the one that is shown first.

    facts: names and values in the head of the page. missing: how to install what plots need, if it is not installed.
    """
    shown: dict[str, Section] = {}
    for section in sections:
        if section.tables or section.figure:
            key = f"-{section.metric.key.replace('_', '-')}" if section.metric else ""
            shown[section.anchor + (key if section.anchor in shown else "")] = section
    script = _file("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=_one_line)
    return environment.from_string(_file("page.html"), {"is_number": is_number}).render(
        title=title,
        facts=facts,
        missing=missing,
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        style=Markup(_file("style.css")),
        script=Markup(script),
        metrics={s.metric.key: s.metric.name for s in shown.values() if s.metric},
        views={s.anchor: s.title for s in shown.values()},
        sections=list(shown.items()),
    )


def _file(name: str) -> str:
    """A file of the folder `page`."""
    return resources.files("ape_cli.reports").joinpath("page", name).read_text(encoding="utf-8")


def _one_line(value: Any) -> Any:
    """A value of the template, in which control characters of a name become visible."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else escaping.one_line(value)

"""A report as one self-contained HTML page: facts about the report, tables, and figures, in sections.

A section is about one view and one metric. Without a script the page shows all sections below one another. With its own
script it shows those of the selected view and metric, and sorts and filters the rows of tables. The page allows only
this script and loads nothing: its content security policy says so to the browser. The template, the script and the
style are the files in the folder `page`.

The plots of a page are drawn in its order, which begins with the selected metric, until they have `MOST_LINES` lines. A
figure without a plot says so.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ape_cli.core import escaping
from ape_cli.core.errors import UsageError
from ape_cli.core.runtime import version
from ape_cli.reports import rendering
from ape_cli.reports.descriptions import described
from ape_cli.reports.evaluations import DECODED, METRICS, measured
from ape_cli.reports.palette import INK, ON_DARK, Looks
from ape_cli.reports.plots import Plot, encode
from ape_cli.reports.tables import Cell, Table, captions, is_number, rules
from ape_cli.reports.views import Options
from ape_cli.runs.record import commit
from ape_cli.runs.registry import Registry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LINES = 400  # lines and dots of all plots of a page
_NOT_DRAWN = f"""Not drawn: the plots of a page have at most {MOST_LINES} lines. `--plots` writes all plots to files; \
`--scheme`, `--task` or another `--metric` selects fewer."""
_OF_ERRORS = """ The axis shows the error, 100% less the score, on a logarithmic scale. Below the smallest error it is \
linear, down to an error of 0."""


@dataclass(frozen=True)
class PageFigure:
    """A figure as an SVG element, which is None if it is not drawn, and its caption."""

    svg: Markup | None
    caption: str


class PageFigures:
    """Draws the figures of one page. `chosen` is the look of each row."""

    def __init__(self, chosen: Looks) -> None:
        """Nothing is drawn yet."""
        self._chosen, self._lines, self._figures = chosen, 0, 0

    def draw(self, plot: Plot, title: str, caption: str, axis: str) -> PageFigure | None:
        """Draw a plot. The caption of a figure that cannot be drawn says why; None if its `Plot` does not.

        title: what the figure shows, for readers who do not see it. axis: one of `plots.KINDS`.
        """
        if plot.draw is None:
            return PageFigure(None, f"{plot.note[0].upper()}{plot.note[1:]}.") if plot.note else None
        if self._lines + plot.lines > MOST_LINES:
            return PageFigure(None, _NOT_DRAWN)
        self._lines += plot.lines
        self._figures += 1
        svg = inline(plot.draw(axis, self._chosen), f"f{self._figures}", f"{title}: a plot")
        return PageFigure(svg, " ".join(f"{caption}{_OF_ERRORS * (axis == 'error')}".split()))


def inline(figure: Figure, name: str, label: str) -> Markup:
    """A figure as an SVG element for an HTML page, with the font and the text colour of the page and no background.

    `name` is put before every id and class, so that one page can have several figures. `label` describes the figure to
    readers who do not see it. The figure stays transparent afterwards.
    """
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    svg = encode(figure, "svg").decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    svg = re.sub(r' (?:xmlns(?::\w+)?|version)="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(r'(class="|\n\.)(?=s\d+["{])|(?<= id=")|(?<=href="#)|(?<=url\(#)', rf"\g<0>{name}-", svg)
    svg = re.sub(r"font-family: [^;\"}]*; ", "", svg).replace(INK, "currentColor")
    for colour, on_dark in ON_DARK.items():
        svg = svg.replace(colour, f"light-dark({colour}, {on_dark})")
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escaping.html(label)}"', 1))


@dataclass(frozen=True)
class Section:
    """A section of the page: tables, and a figure if there is one."""

    title: str
    tables: Sequence[Table]
    figure: PageFigure | None = None
    metric: str = ""  # empty: the section does not depend on the metric
    metric_name: str = ""  # the metric in words


def anchor(title: str) -> str:
    """The name of a section with this title, in links and as the name of a file.

    >>> anchor("By size"), anchor("<b>../x")
    ('by-size', 'b-x')
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def page(
    sections: Sequence[Section], *, title: str = "ape report", facts: Sequence[tuple[str, str]] = (), missing: str = ""
) -> str:
    """The page. Sections without tables and figure are left out. The first section is the one that is shown first.

    facts: names and values in the head of the page. missing: how to install what plots need, if it is not installed.
    """
    shown: dict[str, Section] = {}
    for section in sections:
        if section.tables or section.figure:
            name = anchor(section.title)
            shown[f"{name}-{anchor(section.metric)}" if name in shown else name] = section
    script = _file("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=lambda x: escaping.one_line(x) if type(x) is str else x
    )
    functions = {"is_number": is_number, "anchor": anchor, "score": score, "captions": captions, "rules": rules}
    return environment.from_string(_file("page.html"), functions).render(
        title=title,
        facts=facts,
        missing=missing,
        policy=Markup(f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"),
        style=Markup(_file("style.css")),
        script=Markup(script),
        metrics={s.metric: s.metric_name for s in shown.values() if s.metric},
        views={anchor(s.title): s.title for s in shown.values()},
        sections=list(shown.items()),
    )


def _file(name: str) -> str:
    """A file of the folder `page`."""
    return resources.files("ape_cli.reports").joinpath("page", name).read_text(encoding="utf-8")


def written() -> str:
    """The time at which a report is written, in UTC.

    The environment variable SOURCE_DATE_EPOCH, in seconds since 1970, replaces the present time, so that the same
    results give the same bytes. Raises `UsageError` if it is not a number of seconds.
    """
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if not re.fullmatch("[0-9]{1,11}", seconds or "0"):
        what, allowed = "bad environment variable SOURCE_DATE_EPOCH", "a whole number of seconds since 1970"
        raise UsageError(what, got=repr(seconds), allowed=allowed, fix="correct or unset it")
    time = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(int(seconds), UTC)
    return time.strftime("%Y-%m-%d %H:%M UTC")


@dataclass(frozen=True)
class Origin:
    """Where a report comes from."""

    title: str
    facts: list[tuple[str, str]]  # names and values
    runs: Table
    tasks: frozenset[str]  # of the runs

    def name_of(self, metric: str) -> str:
        """The name of a metric for the tasks of the runs."""
        return measured(metric, self.tasks)[0]

    def metrics(self, first: str) -> list[str]:
        """All metrics with different names, and `first` in the first place. Images have one accuracy."""
        names: dict[str, str] = {}
        for metric in (first, *METRICS):
            names.setdefault(self.name_of(metric), metric)
        return list(names.values())


def origin_of(registry: Registry, options: Options) -> Origin:
    """Read the runs of a report, without those that cannot be read.

    Raises `UsageError` if SOURCE_DATE_EPOCH is not a number of seconds.
    """
    rows, tasks = [], set()
    for run, record, line, _ in described(registry):
        times = [time and time[:16].replace("T", " ") for time in (record.started, record.finished)]
        trained_by = record.versions.get("ape"), record.commit and _short(record.commit), record.device
        rows.append((run.name, [run.status_in(record), record.config.preset, *trained_by, *times]))
        tasks.add(line["task"])
    columns = ["status", "preset", "ape", "commit", "device", "started", "finished"]
    chosen, sweep = " ".join([str(registry.chosen).replace("`", ""), *options.conditions]).strip(), options.sweep
    facts = [
        ("Written", written()),
        ("Program", f"ape {version()}, commit {_short(commit() or 'unknown')}"),
        ("Scores", f"{options.split} split, {DECODED[options.decode]}"),
        *([("Settings", f"best by {options.best_by} scores")] if options.best_by else []),
        *([("Sweep", sweep)] if sweep else []),
        *([("Filter", chosen)] if chosen else []),
        ("Runs", f"{len(rows):,}"),
    ]
    title = f"ape report: {sweep.removesuffix('.toml')}" if sweep else "ape report"
    note = """These are the runs that were read for this report. ape and commit: the version of the program that \
trained them."""
    return Origin(title, facts, Table("Runs", [note], columns, rows, "", head="run"), frozenset(tasks))


def _short(commit: str) -> str:
    """The first digits of a commit, and the "+" of a commit whose files had changes.

    >>> _short("98c880d958f755497cb5ecb60eb40a2d037165ee+")
    '98c880d+'
    """
    return commit[:7] + "+" * (len(commit) > 7 and commit.endswith("+"))


_SCORE = rendering.Markup(
    best='<span class="best">%s</span>%s',
    escape=escaping.html,
    std=" <small>±%s</small>",
    interval=" <small>(%s to %s)</small>",
    seeds=" <small>×%s</small>",
    paper=' <span class="paper">[%s]</span>',
)


def score(cell: Cell, table: Table) -> Markup:
    """The HTML of a score, with its details as text: the deviation, the interval, each seed, and the sample."""
    sign = "%" if table.unit == "%" else ""
    lines = []
    if cell.std is not None:
        mean, deviation = table.number(cell.mean, 2), table.number(cell.std, 2)
        lines.append(f"Mean {mean}{sign}, standard deviation {deviation}{sign}")
    if cell.interval:
        low, high = (table.number(end, 2) + sign for end in cell.interval)
        lines.append(f"95% interval of the mean over seeds: {low} to {high}")
    lines += [f"Seed {seed}: {table.number(value, 2)}{sign}" for seed, value in cell.by_seed]
    tokens = "" if cell.tokens in (None, cell.rows) else f", {cell.tokens:,} target tokens"
    lines.append(f"Sample: {cell.rows:,} {'distinct ' * cell.distinct}{cell.split} rows{tokens}")
    return Markup('<td data-details="{}">{}</td>').format("\n".join(lines), Markup(_SCORE.cell(cell, table)))

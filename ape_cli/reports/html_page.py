"""A report as one self-contained HTML page: facts about the report, tables, and figures, in sections.

A section is about one view and one metric. Without a script the page shows all sections below one another. With its own
script it shows those of the selected view and metric, and sorts and filters the rows of tables. The page allows only
this script and loads nothing: its content security policy says so to the browser. The template, the script and the
style are the files in the folder `page`.

A page of thousands of runs has tens of thousands of scores. Its script writes the details of a score from the attribute
`data-of` of its cell, `SCORES|DEVIATION|INTERVAL`:

- the score of each seed, in the order of the table's seeds; `seed:score` if the cell has other seeds; no score if
  there is only one, because it is the number in the cell;
- the deviation and both ends of the interval, as far as they are known.

`data-sample` of a column says how many rows and tokens its scores are of. A cell has its own if that differs.

A figure is small pictures beside one legend, as far as they can be read. A picture with more than `MOST_ROWS` rows is
not drawn, because its rows cannot be told apart. The pictures of a page are drawn in its order, which begins with the
selected metric, until they have `MOST_LINES` lines. So a page of a few dozen runs has all pictures. Each figure says
what is not drawn.

matplotlib gives each part of a figure a group and an id, and repeats the style of a line at each of its points. Without
these, an SVG element is a third as large and looks the same. Lengths are in points, and have one decimal.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ape_cli.core import escaping
from ape_cli.core.errors import UsageError
from ape_cli.core.runtime import version
from ape_cli.reports.descriptions import described
from ape_cli.reports.evaluations import METRICS, measured
from ape_cli.reports.palette import INK, ON_DARK, Looks, drawing, swatch
from ape_cli.reports.plots import Plot, encode
from ape_cli.reports.tables import Cell, Table, is_number
from ape_cli.reports.views import Options
from ape_cli.runs.record import commit
from ape_cli.runs.registry import Registry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 24  # of a picture: as many as there are built-in schemes
MOST_LINES = 100  # of all pictures of a page
_OF_ERRORS = """ The axis shows the error, 100% less the score, on a logarithmic scale. An error of 0 has no logarithm.
It stands at 0, in the hatched strip below the scale."""
_TAG = re.compile(r"<(/?)(\w+)([^>]*?)(/?)>\s*")
_POSITIONS = re.compile(r'(?<= )(?:d|x|y|transform)="[^"]*"')


@dataclass(frozen=True)
class PageFigure:
    """A figure in panels beside one legend. Without `signs` it is one drawing with a legend of its own."""

    title: str
    caption: str
    panels: Sequence[tuple[str, Markup]]  # titles and SVG elements; there are none if nothing can be read
    signs: Sequence[tuple[Markup, str]] = ()  # the legend: SVG elements and words


class PageFigures:
    """Draws the figures of one page. `chosen` is the look of each row."""

    def __init__(self, chosen: Looks) -> None:
        """Nothing is drawn yet."""
        self._chosen = chosen
        self._left, self._figures = MOST_LINES, 0
        self._swatches: dict[tuple[str, float], Any] = {}  # a row looks the same in all figures

    def draw(self, plot: Plot, title: str, caption: str, axis: str) -> PageFigure | None:
        """Draw a plot, or None if it has no figure.

        title: what the figure shows, for readers who do not see it. axis: one of `plots.KINDS`.
        """
        name = f"f{self._figures}"
        self._figures += 1
        caption = " ".join(f"{caption}{_OF_ERRORS if axis == 'error' else ''}".split())
        with drawing():
            if plot.divide is None:
                if plot.draw is None:
                    return None
                whole = inline(plot.draw(axis, self._chosen), name, f"{title}: a plot")
                return PageFigure(title, caption, [("", whole)])
            wanted, missing = self._wanted(plot)
            if not wanted:
                return PageFigure(title, missing, [])
            panels, handles = plot.divide(axis, self._chosen, wanted)
            drawn = [(head, inline(x, f"{name}-{i}", f"{title}, {head}: a plot")) for i, (head, x) in enumerate(panels)]
            signs = [(self._swatch(x, f"{name}-l{i}"), x.get_label()) for i, x in enumerate(handles)]
        return PageFigure(title, f"{caption} {missing}".rstrip(), drawn, signs)

    def _wanted(self, plot: Plot) -> tuple[list[int], str]:
        """The numbers of the panels that are drawn, and a sentence about the others, which is empty without any."""
        readable = [number for number, rows in enumerate(plot.panels) if len(rows) <= MOST_ROWS]
        wanted = list[int]()
        for number in readable:
            if len(plot.panels[number]) > self._left:
                break
            wanted.append(number)
            self._left -= len(plot.panels[number])
        reasons = {
            f"with more than {MOST_ROWS} rows, which cannot be told apart": len(plot.panels) - len(readable),
            f"because those above have {MOST_LINES} lines already": len(readable) - len(wanted),
        }
        parts = [f"{count} plot{'s' * (count > 1)} {why}" for why, count in reasons.items() if count]
        fix = "`--plots` writes more plots to files. Select runs with `--scheme` or `--task`, or another `--metric`."
        return wanted, f"Not drawn: {'; '.join(parts)}. {fix}" if parts else ""

    def _swatch(self, handle: Any, name: str) -> Markup:
        """The sign of a handle, which is drawn once for all figures."""
        key = handle.get_label(), handle.get_linewidth()
        if key not in self._swatches:
            self._swatches[key] = inline(swatch(handle), "NAME")
        return Markup(self._swatches[key].replace("NAME", name))


def inline(figure: Figure, name: str, label: str = "") -> Markup:
    """A figure as an SVG element for an HTML page, with the font and the text colour of the page and no background.

    `name` is put before every id, so that one page can have several figures. `label` describes the figure to readers
    who do not see it; without one they are not told of it. The figure stays transparent afterwards.
    """
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    svg = encode(figure, "svg").decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    svg = re.sub(r' (?:xmlns(?::\w+)?|version)="[^"]*"', "", svg)
    svg = re.sub(r'(class="|\n\.)(?=s\d+["{])', rf"\1{name}-", svg).replace("xlink:href", "href")
    svg = slim(svg, name)
    svg = re.sub(r"font-family: [^;\"}]*; ", "", svg).replace(INK, "currentColor")
    for colour, on_dark in ON_DARK.items():
        svg = svg.replace(colour, f"light-dark({colour}, {on_dark})")
    said = f'role="img" aria-label="{escaping.html(label)}"' if label else 'aria-hidden="true"'
    return Markup(svg.replace("<svg", f"<svg {said}", 1))


def slim(svg: str, name: str) -> str:
    """An SVG element with only the ids that it refers to, numbered after `name`, and with few groups and decimals."""
    used = dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    numbers = {old: f"{name}-{number}" for number, old in enumerate(used)}
    svg = re.sub(r' id="([^"]*)"', lambda id: f' id="{numbers[id[1]]}"' if id[1] in used else "", svg)
    svg = re.sub(r'(href="#|url\(#)([^")]+)', lambda link: link[1] + numbers[link[2]], svg)
    svg = re.sub(r"<g>\s*((?:<use [^>]*/>\s*)+)</g>", _share_class, svg)
    svg = _POSITIONS.sub(
        lambda values: re.sub(r"\d+\.\d+", lambda x: f"{float(x[0]):.1f}".removesuffix(".0"), values[0]), svg
    )
    return "".join(_without_bare_groups(svg))


def _share_class(group: re.Match[str]) -> str:
    """A group of `use` elements with their class, if all of them have the same one."""
    classes = set(re.findall(r' class="([^"]*)"', group[1]))
    if len(classes) != 1 or group[1].count(" class=") != group[1].count("<use "):
        return group[0]
    return f'<g class="{classes.pop()}">' + re.sub(r' class="[^"]*"', "", group[1]) + "</g>"


def _without_bare_groups(svg: str) -> Iterator[str]:
    """The parts of an SVG element without the groups that have no attributes."""
    bare, end = list[bool](), 0  # of each open group, whether it has no attributes
    for tag in _TAG.finditer(svg):
        yield svg[end : tag.start()]
        end = tag.end()
        closes, element, attributes, is_empty = tag.groups()
        if element != "g":
            yield tag[0].rstrip()
        elif closes:
            yield "" if bare.pop() else "</g>"
        elif not is_empty:
            bare.append(not attributes)
            yield "" if bare[-1] else f"<g{attributes}>"
    yield svg[end:]


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
    functions = {"is_number": is_number, "anchor": anchor, "ScoreCells": ScoreCells}
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
    chosen, sweep = str(registry.chosen), options.sweep
    facts = [
        ("Written", written()),
        ("Program", f"ape {version()}, commit {_short(commit() or 'unknown')}"),
        ("Scores", f"{options.split} split, {options.decode} decoding"),
        *([("Settings", f"best by {options.best_by} scores")] if options.best_by else []),
        *([("Sweep", sweep)] if sweep else []),
        *([("Filter", chosen.replace("`", ""))] if chosen else []),
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


class ScoreCells:
    """The cells of the scores of a table.

    `seeds` are the seeds that most scores have, `sign` follows each number in the details, and `samples` has the sample
    of each column as text, which is empty without scores.
    """

    def __init__(self, table: Table) -> None:
        """Find what the scores share."""
        self.table, self.sign = table, "%" if table.unit == "%" else ""
        most = max(table.scores(), key=lambda cell: cell.seeds, default=None)
        self.seeds = [seed for seed, _ in most.by_seed] if most else []
        columns = [[cells[i] for _, cells in table.rows] for i in range(len(table.columns))]
        firsts = [next((cell for cell in column if isinstance(cell, Cell)), None) for column in columns]
        self.samples = ["" if first is None else _sample(first) for first in firsts]

    def cell(self, cell: Cell, column: int) -> Markup:
        """The HTML of a score in a column, which is counted from 0. It consists of numbers only."""
        table, number = self.table, self.table.number
        mean = number(cell.mean, 2)
        text = f'<span class="best">{mean}</span>' if cell.best else mean
        if table.interval and cell.interval:
            text += " <small>({} to {})</small>".format(*(number(end, 1) for end in cell.interval))
        elif not table.interval and cell.std is not None:
            text += f" <small>±{number(cell.std, 1)}</small>"
        if cell.seeds < table.most_seeds:
            text += f" <small>×{cell.seeds}</small>"
        if cell.paper:
            score, deviation = cell.paper
            spread = "" if deviation is None else f" ±{number(deviation, 1)}"
            text += f' <span class="paper">[{number(score, 2)}{"†" * cell.doubted}{spread}]</span>'
        sample = _sample(cell)
        own = "" if sample == self.samples[column] else f' data-sample="{sample}"'
        return Markup(f'<td data-of="{self._details(cell, mean)}"{own}>{text}</td>')

    def _details(self, cell: Cell, mean: str) -> str:
        """The scores of the seeds, the deviation and the interval of a score."""
        number = self.table.number
        scores = [number(score, 2) for _, score in cell.by_seed]
        of_table = [seed for seed, _ in cell.by_seed] == self.seeds
        if scores == [mean]:
            scores = [""]
        named = scores if of_table else [f"{seed}:{x}" for (seed, _), x in zip(cell.by_seed, scores, strict=True)]
        deviation = "" if cell.std is None else number(cell.std, 2)
        interval = " ".join(number(end, 2) for end in cell.interval or ())
        return "|".join([" ".join(named), deviation, interval]).rstrip("|")


def _sample(cell: Cell) -> str:
    """The rows and tokens that a score is of, as text."""
    tokens = "" if cell.tokens in (None, cell.rows) else f", {cell.tokens:,} target tokens"
    return f"{cell.rows:,} {'distinct ' * cell.distinct}{cell.split} rows{tokens}"

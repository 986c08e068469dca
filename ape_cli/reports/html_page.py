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
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ape_cli.core import escaping
from ape_cli.core.errors import UsageError
from ape_cli.core.runtime import version
from ape_cli.reports.descriptions import described
from ape_cli.reports.evaluations import METRICS, measured
from ape_cli.reports.page_figures import PageFigure
from ape_cli.reports.tables import Cell, Table, is_number
from ape_cli.reports.views import Options
from ape_cli.runs.record import commit
from ape_cli.runs.registry import Registry


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
    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=_one_line)
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


def _one_line(value: Any) -> Any:
    """A value of the template, in which control characters of a name become visible."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else escaping.one_line(value)


_NOTES = [
    "These are the runs that were read for this report. ape and commit: the version of the program that trained them."
]


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
    return Origin(title, facts, Table("Runs", _NOTES, columns, rows, "", head="run"), frozenset(tasks))


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

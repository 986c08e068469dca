"""Verdicts on each published number of a source: `ape report --against NAME --verdicts`.

A verdict says whether our runs reproduce a number.

A verdict rests on the finished runs of its cell: the same row, with all other settings at their defaults, in the first
column of ours that the source names, on the test split of their own data. The runs are those of the first preset in the
`presets` of the source that has any, on data with the rows of that preset. Runs on data with the sizes of the first
preset, the published ones, come before runs on data with those of their own. Of a source without presets, the runs are
those of the largest preset.

The rule was fixed before the numbers were looked at. Scores are compared on a scale: accuracies as they are, and
perplexities by their logarithm, which is the cross-entropy. On this scale, the margin of a cell is twice the larger of
two standard deviations over seeds, that of the source and that of the runs, plus half of the last digit of the source's
value. The source's spread is at least half of its last digit; its deviation follows from a 95% interval and the number
of seeds. Scores by epoch are not judged, and count as not run.

- *reproduced*: the means of the runs and of the source differ by at most the margin.
- *differs, and why*: they differ by more, and runs of the same preset with a suspected cause leave at most twice the
  source's deviation, or a tenth of the difference.
- *differs, cause open*: they differ by more, and no runs explain it.
- *not run*: there are no runs.

`verdicts-NAME.toml` in a results folder has what was found out about the cells of the source NAME:

    runs = "record"                 # the folder of the runs, relative to this file (default: the results folder)

    [[verdict]]
    scheme = "rope"                 # the row
    columns = ["copy"]              # of the source
    verdict = "reproduced"          # the verdict that the sentence explains
    sentence = "..."                # for an open cause, what has been excluded
    cause = { copy = ["copy-none-42-0a1b2c3d"] }       # runs with the suspected cause, if there is one
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl
from pydantic import Field, ValidationError

from ape_cli.core.errors import RunError, UsageError
from ape_cli.core.numbers import perplexity
from ape_cli.core.validation import Checked
from ape_cli.reports import published, stats, tables
from ape_cli.reports.descriptions import Described, described, has_preset_data, has_preset_size
from ape_cli.reports.evaluations import METRICS, NothingToReportError, measured, task_of
from ape_cli.reports.published import LAST_DIGIT, NOT_HERE, Number, Published
from ape_cli.reports.tables import Table
from ape_cli.reports.views import Options, View
from ape_cli.runs.config import PRESETS
from ape_cli.runs.record import RunRecord, evaluation_name
from ape_cli.runs.registry import Registry, open_registry
from ape_cli.runs.run import Run
from ape_cli.storage import files

DEVIATIONS = 2  # the standard deviations by which means may differ
EXPLAINED = 0.1  # the share of a difference that a cause may leave

Word = Literal["reproduced", "differs, and why", "differs, cause open", "not run"]


class Entry(Checked):
    """What was found out about some cells of one row, as the file has it."""

    scheme: str
    columns: list[str]
    verdict: Word
    sentence: str
    cause: dict[str, list[str]] = Field(default={})


class Entries(Checked):
    """The content of the file."""

    runs: str | None = None
    verdict: list[Entry] = Field(default=[])


@dataclass(frozen=True)
class RunScores:
    """The scores of some runs of one preset, by their names."""

    preset: str
    by_run: Mapping[str, float]
    preset_size: bool = True  # whether all runs have the size of their preset
    published_data: bool = True  # whether the data of all runs has the sizes of the published data

    @property
    def mean(self) -> float:
        """The mean over runs."""
        return statistics.fmean(self.by_run.values())

    @property
    def std(self) -> float | None:
        """The standard deviation over runs. None for a single run, or if a perplexity is infinite."""
        return _deviation(list(self.by_run.values()))


@dataclass(frozen=True)
class Judged:
    """A published number, with the scores of our runs. Differences and margins are on the scale of the rule."""

    number: Number
    source: Published
    ours: RunScores | None
    caused: RunScores | None = None  # of the runs with the suspected cause
    entry: Entry | None = None

    def scaled(self, score: float) -> float:
        """A score on the scale of the rule."""
        return math.log(score) if METRICS[self.number.metric].exponential else score

    def near(self, distance: float) -> float:
        """A small difference from the published value, on the scale of the rule: a relative one for perplexities."""
        return distance / self.number.value if METRICS[self.number.metric].exponential else distance

    @property
    def own_size(self) -> bool:
        """Whether our runs have the size of the published ones."""
        return self.ours is not None and self.ours.preset_size and self.ours.preset in self.source.presets[:1]

    @property
    def deviation(self) -> float:
        """The standard deviation of the source."""
        return self.near(self.source.deviation(self.number))

    @property
    def difference(self) -> float | None:
        """Our mean minus the published one."""
        return None if self.ours is None else self.scaled(self.ours.mean) - self.scaled(self.number.value)

    @property
    def left(self) -> float | None:
        """What the cause leaves of the difference."""
        return None if self.caused is None else self.scaled(self.caused.mean) - self.scaled(self.number.value)

    @property
    def margin(self) -> float | None:
        """The largest difference of a number that is reproduced."""
        if self.ours is None:
            return None
        scores = [self.scaled(score) for score in self.ours.by_run.values()]
        digit = self.near(LAST_DIGIT[self.number.metric])
        return DEVIATIONS * max(self.deviation, _deviation(scores) or 0.0) + digit / 2

    @property
    def follows(self) -> Word:
        """The verdict that follows from the scores."""
        if self.difference is None or self.margin is None:
            return "not run"
        if abs(self.difference) <= self.margin + stats.ROUNDING:
            return "reproduced"
        same_size = self.ours and self.caused and self.ours.preset == self.caused.preset
        limit = max(DEVIATIONS * self.deviation, EXPLAINED * abs(self.difference))
        if same_size and self.left is not None and abs(self.left) <= limit + stats.ROUNDING:
            return "differs, and why"
        return "differs, cause open"


def _deviation(values: Sequence[float]) -> float | None:
    """The sample standard deviation of finite values, or None."""
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def file_of(source: Published) -> str:
    """The name of the file about a source."""
    return f"verdicts-{source.name}.toml"


def read(registry: Registry, source: Published) -> list[Judged]:
    """A verdict on each number of a source, in its order.

    Raises `UsageError` if runs are selected, if the file in the results folder is not valid, or if it names a cell that
    the source does not have; `RunError` if a run that it names is missing or has no score; and
    `ApeError` if there is no run.
    """
    content = _content(registry, source)
    if registry.names is not None or str(registry.chosen):
        got = f"a selection of runs: {str(registry.chosen) or 'a sweep or `filter`'}"
        raise UsageError("verdicts are about all runs of a results folder", got=got, fix="leave it out")
    if content.runs is not None:
        registry = open_registry(registry.folder / content.runs)
    described_runs = list(described(registry))
    entries = {(entry.scheme, column): entry for entry in content.verdict for column in entry.columns}
    published_cells = {(number.row, number.column) for number in source.numbers}
    causes = {(entry.scheme, column) for entry in content.verdict for column in entry.cause}
    for scheme, column in (entries.keys() - published_cells) | (causes - entries.keys()):
        what = f"{file_of(source)} names a cell that {source.called} or the entry does not have"
        raise UsageError(what, got=f"{scheme}, {column}", fix="correct the file")
    runs = {run.name: (run, record) for run, record, _, _ in described_runs}
    if not described_runs:
        fix = "train one first: `ape train --scheme rope --task copy --preset medium`"
        raise NothingToReportError("there is nothing to judge: no run", got=str(registry.folder), fix=fix)
    evidence = _evidence(described_runs, source)
    cells = []
    for number in source.numbers:
        entry = entries.get((number.row, number.column))
        names = entry.cause.get(number.column, []) if entry else []
        missing = next((name for name in names if name not in runs), None)
        if missing is not None:
            raise RunError("a run of the verdicts is missing", got=missing, fix=f"correct {file_of(source)}")
        caused = scores([runs[name] for name in names], number, source)
        ours = scores(evidence.get((number.row, source.ours(number.column)[0]), []), number, source)
        cells.append(Judged(number, source, ours, caused, entry))
    return cells


def _content(registry: Registry, source: Published) -> Entries:
    """The content of the file about a source, which may be missing. Raises `UsageError` if it is not valid."""
    path = registry.folder / file_of(source)
    try:
        return Entries.model_validate(files.read_toml(path))
    except FileNotFoundError:
        return Entries()
    except (OSError, ValidationError, ValueError) as error:
        raise UsageError(f"bad verdicts in {path}", got=str(error), fix="correct the file") from error


def _evidence(
    described_runs: Sequence[Described], source: Published
) -> dict[tuple[str, str], list[tuple[Run, RunRecord]]]:
    """The runs that verdicts rest on, by row and column of ours."""
    presets = source.presets or list(PRESETS)
    cells: dict[tuple[str, str], dict[tuple[bool, int, str, str], list[tuple[Run, RunRecord]]]] = {}
    for run, record, of, _ in described_runs:
        own = not any(f"{name}=" in of["variant"] for name in source.free)  # verdicts are on runs without them
        as_published = _has_published_data(record, source)
        usual = as_published or has_preset_data(of["preset"], record.dataset)
        if own and usual and of["preset"] in presets and run.status_in(record) == "finished":
            rank = not as_published, presets.index(of["preset"]), of["variant"], of["trained_fingerprint"]
            cell = cells.setdefault((source.row(of["scheme"], of["variant"]), task_of(of)), {})
            cell.setdefault(rank, []).append((run, record))
    chosen = {}
    for key, of_rank in cells.items():
        best = min(of_rank, key=lambda rank: (*rank[:2], -len(of_rank[rank]), rank))
        chosen[key] = sorted(of_rank[best], key=lambda pair: pair[0].name)
    return chosen


def _has_published_data(record: RunRecord, source: Published) -> bool:
    """Whether a run's data has the rows of its preset and the sizes of the published data, if the source names them."""
    return not source.presets or has_preset_data(record.config.preset, record.dataset, source.presets[0])


def scores(runs: Sequence[tuple[Run, RunRecord]], number: Number, source: Published) -> RunScores | None:
    """The scores of runs by the metric of a number, on the test split of their own data; None without runs.

    Raises `RunError` if a run has no such score, or if the runs have several presets.
    """
    if number.metric in NOT_HERE:
        return None
    by_run = {run.name: score(_tested(run, record), number, source) for run, record in runs}
    presets = {record.config.preset for _, record in runs}
    if len(presets) > 1:
        names = ", ".join(run.name for run, _ in runs)
        raise RunError("the runs of a verdict have several presets", got=names, fix="name those of one")
    preset_size = all(has_preset_size(record.config, record.dataset) for _, record in runs)
    published_data = all(_has_published_data(record, source) for _, record in runs)
    return RunScores(presets.pop(), by_run, preset_size, published_data) if by_run else None


def _tested(run: Run, record: RunRecord) -> dict[str, Any]:
    """The metrics of a run over all rows of the test split of its own data. Raises `RunError` if there are none."""
    own = run.evaluation(evaluation_name(record.dataset.fingerprint, "test", "teacher"))
    if own is None:
        raise RunError("a run of the verdicts has no test score", got=run.name, fix=f"`ape eval {run.name}`")
    overall: dict[str, Any] = own["overall"]
    return overall


def score(overall: Mapping[str, Any], number: Number, source: Published) -> float:
    """The score by the metric of a number, as the source counts, from the metrics of an evaluation over all rows."""
    value = float(overall[METRICS[number.metric].field])
    value = perplexity(value) if METRICS[number.metric].exponential else value
    return source.counted(value, number.metric, overall["rows"], overall["tokens"])


MARKS: dict[Word, str] = {"reproduced": "=", "differs, and why": "≠", "differs, cause open": "?", "not run": "—"}
_RULE = f"""=: reproduced: the means differ by at most {DEVIATIONS} times the larger standard deviation over seeds, \
ours or the published one, plus half of the last digit of the published mean. The published deviation is at least the \
rounding error. ≠: differs by more, and runs of the same preset with a suspected cause leave at most {DEVIATIONS} \
times the published deviation, or {EXPLAINED:.0%} of the difference. ?: differs by more, and no runs explain it. —: \
not run."""
_RATIO = "Our perplexity divided by the published one. Perplexities are compared by their logarithm."
_COLUMNS = {
    **dict.fromkeys(("table", "scheme", "column", "metric", "verdict", "sentence", "preset"), pl.String),
    "seeds": pl.Int64,
    **dict.fromkeys(("mean", "std", "paper_mean", "paper_spread", "difference", "margin", "left"), pl.Float64),
    **dict.fromkeys(("evidence", "cause"), pl.String),
}


class VerdictView(View[list[Judged]]):
    """Shows the verdict on each number. Its page has only its own tables."""

    about = "verdicts on each published number: --against NAME --verdicts"
    on_page = False
    title = "Verdicts"
    unused = ("metric", "decode", "split", "interval", "best_by", "plots", "axis", "counts")

    def read(self, registry: Registry, options: Options) -> list[Judged]:
        """Judge the numbers of a source by the runs of a registry. Raises the errors of `read`."""
        return read(registry, published.load(options.against or "neurips"))

    def frame(self, result: list[Judged]) -> pl.DataFrame:
        """A line for each cell. `left` is what the cause leaves of the difference.

        Accuracies are fractions. Differences and margins of perplexities are those of their logarithms.
        """
        return pl.DataFrame([_line(cell) for cell in result], schema=_COLUMNS, orient="row")

    def tables(self, result: list[Judged], *, interval: bool = False) -> list[Table]:
        """The tables of the source, with its columns as rows, and a count of the verdicts. Sentences are rules."""
        return [*(_table(name, cells) for name, cells in _by_table(result).items()), count(result)]


def count(cells: Sequence[Judged]) -> Table:
    """How many numbers of each table have each verdict."""
    of_table = {name: [cell.follows for cell in of] for name, of in _by_table(cells).items()}
    rows = [(name, [str(words.count(word)) for word in MARKS]) for name, words in of_table.items()]
    return Table(f"Verdicts on {cells[0].source.called}", [""], [*MARKS], rows, "", head="table")


def _by_table(cells: Sequence[Judged]) -> dict[str, list[Judged]]:
    """The cells of each table of the source, by its name."""
    by_table: dict[str, list[Judged]] = {}
    for cell in cells:
        by_table.setdefault(cell.number.table, []).append(cell)
    return by_table


def _line(cell: Judged) -> dict[str, object]:
    """The line of a cell for programs."""
    ours, entry, number = cell.ours, cell.entry, cell.number
    return {
        "table": number.table,
        "scheme": number.row,
        "column": number.column,
        "metric": number.metric,
        "verdict": cell.follows,
        "sentence": entry and entry.sentence,
        "preset": ours and ours.preset,
        "seeds": ours and len(ours.by_run),
        "mean": ours and ours.mean,
        "std": ours and ours.std,
        "paper_mean": number.value,
        "paper_spread": number.spread,
        **{name: getattr(cell, name) for name in ("difference", "margin", "left")},
        "evidence": " ".join(ours.by_run) if ours else None,
        "cause": " ".join(cell.caused.by_run) if cell.caused else None,
    }


def _table(name: str, cells: Sequence[Judged]) -> Table:
    """One table of the source."""
    metrics = list(dict.fromkeys(cell.number.metric for cell in cells if cell.number.metric in METRICS))
    schemes = list(dict.fromkeys(cell.number.row for cell in cells))
    names = [c.number.column + f", {c.number.metric}" * (len(metrics) > 1) for c in cells]
    columns = list(dict.fromkeys(names))
    texts = {(cell.number.row, column): mark(cell) for cell, column in zip(cells, names, strict=True)}
    rows = [(column, [texts.get((scheme, column)) for scheme in schemes]) for column in columns]
    own_size, others = any(c.own_size for c in cells), {c.ours.preset for c in cells if c.ours and not c.own_size}
    sizes = ["*: runs of the published size."] * own_size
    if others:
        sizes.append(f"{'All other' if own_size else 'All'} runs have preset {', '.join(sorted(others))}.")
    sizes += ["°: data of other sizes than the published."] * any(c.ours and not c.ours.published_data for c in cells)
    units = [measured(metric, [None]) for metric in metrics if not METRICS[metric].exponential]
    legend = [_RATIO] * any(METRICS[metric].exponential for metric in metrics)
    legend += [f"Our mean {of} minus the published one, in {'points' if u == '%' else u}." for of, u in units]
    told = dict.fromkeys(
        f"{_where(c)}: {c.follows}. {c.entry.sentence}" for c in cells if c.entry and c.follows == c.entry.verdict
    )
    return Table(name, [*legend, *sizes], schemes, rows, "", head="column", rules=[_RULE, *told])


def mark(cell: Judged) -> str:
    """A cell as text: its verdict, the difference or the ratio, * at the published size, ° on data of other sizes."""
    sign = MARKS[cell.follows]
    if cell.ours is None or cell.difference is None:
        return sign
    of = METRICS[cell.number.metric]
    difference = cell.difference
    text = f"×{math.exp(difference):.2f}" if of.exponential else tables.number(difference, of.units[0], 2, "+")
    return f"{sign} {text}" + "*" * cell.own_size + "°" * (not cell.ours.published_data)


def _where(cell: Judged) -> str:
    """The cells that share a sentence, for example `rope on copy and repeat`."""
    assert cell.entry is not None
    *others, last = cell.entry.columns
    return f"{cell.entry.scheme} on {', '.join(others)}{' and ' * bool(others)}{last}"

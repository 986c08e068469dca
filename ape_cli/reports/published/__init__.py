"""Published numbers, and the comparison of our scores with them: `ape report --against NAME` or `--against FILE.toml`.

Each file here, or in a folder `ape_cli/reports/published` elsewhere on the Python path, is a source, and its stem is
its name: `neurips` is *Algebraic Positional Encodings* as published, and `paper` is its preprint. A file of this form
has the numbers of any other paper:

    title = "Doe et al. 2025"
    seeds = 3                     # behind each number (default: 3)
    spread = "interval"           # default: half of the 95% interval; "std": the standard deviation

    [[table]]
    name = "Table 1"
    numbers = [                   # task, order of the nodes, row, metric, value, spread (if known)
        ["tree-copy", "breadth", "rope (learned=true)", "perplexity", 1.70, 0.05],
        ["copy", "", "alibi", "token_accuracy", 0.998],
    ]

A row is named as `ape report` names it. Accuracies are fractions. Further fields:

- `short`: what notes call it (default: the title).
- `presets`: the presets whose runs verdicts rest on, the best first. The first has the size of the published runs.
- `free`: settings that a run may have beside those of a row; `precision` is always one.
- `last_digit`: the last digit of the spreads, if it is not that of the values.
- `certain`: the tokens per row that its perplexities count beside those of ours, as if predicted with certainty.
- `[columns]`: what one of its columns is called here, or the list of ours that it may be, the first for verdicts.
- `[[note]]`: a `text` below tables that have its `schemes` in its `columns` (all if left out), with a `dagger` or not.

Lines of a report get the published value and spread. If a run has the size of the published ones, they also get the
difference, and whether the published value lies in our 95% interval over seeds. That interval does not take into
account that the published value is uncertain too.
"""

from __future__ import annotations

import math
import pkgutil
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ape_cli.core import plugins
from ape_cli.core.errors import UsageError, pick
from ape_cli.core.validation import first_error
from ape_cli.reports import stats
from ape_cli.runs.config import PRESETS
from ape_cli.storage import files
from ape_cli.storage.paths import storage_path

__path__ = pkgutil.extend_path(__path__, __name__)  # so that files in another ape_cli/reports/published are found

LAST_DIGIT = {"token_accuracy": 1e-4, "exact_match": 1e-4, "cross_entropy": 1e-3, "perplexity": 1e-2}
NOT_HERE = ("bleu",)  # metrics of papers that no task here has
_RANGES = {"token_accuracy": (0.0, 1.0), "exact_match": (0.0, 1.0), "perplexity": (1.0, math.inf)}
_FIX = 'below [[table]], for example: numbers = [["copy", "", "rope", "perplexity", 1.01, 0.02]]'


class Number(NamedTuple):
    """A published number."""

    table: str
    column: str  # in the source
    row: str
    metric: str
    value: float  # accuracies are fractions
    spread: float | None


class Note(BaseModel):
    """A note below tables with some of the numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    schemes: list[str] = []
    columns: list[str] = []
    dagger: bool = False  # whether these numbers have a mark

    def concerns(self, row: str, column: str) -> bool:
        """Whether it is about the number of a row in a column of the source."""
        return (not self.schemes or row in self.schemes) and (not self.columns or column in self.columns)


_Strict = Annotated[float, Field(strict=True)]


class PublishedTable(BaseModel):
    """A table of a source."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str
    numbers: list[tuple[str, str, str, str, _Strict] | tuple[str, str, str, str, _Strict, _Strict]]


class Published(BaseModel):
    """A source of published numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    title: str
    name: str  # of its file
    short: str = ""
    seeds: Annotated[int, Field(gt=0)] = 3
    spread: Literal["interval", "std"] = "interval"
    last_digit: float | None = None
    certain: Annotated[float, Field(ge=0)] = 0.0
    presets: list[str] = []
    free: list[str] = []
    columns: dict[str, Annotated[list[str], Field(min_length=1)]] = {}
    note: list[Note] = []
    table: list[PublishedTable]

    @property
    def called(self) -> str:
        """What notes call it."""
        return self.short or self.title

    @cached_property
    def numbers(self) -> list[Number]:
        """All numbers, in the order of the file. Raises `ValueError` if one is not valid."""
        numbers = [_number(table.name, *fields) for table in self.table for fields in table.numbers]
        if not numbers:
            raise ValueError("there are no numbers")
        if unused := self.columns.keys() - {number.column for number in numbers}:
            raise ValueError(f"[columns] has {', '.join(sorted(unused))}, for which there are no numbers")
        keys = [(column, number.row, number.metric) for number in numbers for column in self.ours(number.column)]
        if twice := next((key for i, key in enumerate(keys) if key in keys[:i]), None):
            raise ValueError(f"there are two numbers for {', '.join(twice)}")
        return numbers

    @property
    def metrics(self) -> list[str]:
        """The metrics of its numbers, without those that no task here has."""
        return list(dict.fromkeys(number.metric for number in self.numbers if number.metric not in NOT_HERE))

    def ours(self, column: str) -> list[str]:
        """The columns of our tables that are compared with one of its columns."""
        return self.columns.get(column, [column])

    @cached_property
    def _beside(self) -> dict[tuple[str, str, str], Number]:
        """The number for each row, column of ours, and metric."""
        return {(n.row, column, n.metric): n for n in self.numbers for column in self.ours(n.column)}

    def number(self, scheme: str, variant: str, column: str, metric: str) -> Number | None:
        """The number beside a score of ours, or None. `variant`: the settings of our runs as text."""
        return self._beside.get((self.row(scheme, variant), column, metric))

    def row(self, scheme: str, variant: str) -> str:
        """The name of a row with these settings, without free ones: `rope`, or `rope (learned=true)`."""
        names = ("precision", *self.free)
        own = [part for part in variant.split(", ") if part and part.partition("=")[0] not in names]
        return plain(f"{scheme} ({', '.join(own)})" if own else scheme)

    def deviation(self, number: Number) -> float:
        """The standard deviation over seeds of a number, at least what rounding hides. 0.5 digits if there is none."""
        minimum = (self.last_digit or LAST_DIGIT.get(number.metric, 0.0)) / 2
        shown = max(minimum, number.spread or 0.0)
        width = stats.half_width(self.seeds) if self.spread == "interval" else None
        return shown / width if width else shown

    def counted(self, score: float, metric: str, rows: int, tokens: int) -> float:
        """A score of ours over these rows and tokens, as the source would count it."""
        counts = metric == "perplexity" and self.certain
        return score ** (tokens / (tokens + self.certain * rows)) if counts else score

    def notes(self, lines: pl.DataFrame, *, interval: bool) -> tuple[list[str], list[str]]:
        """The notes and the rules on a table of these lines from `beside`. `interval`: it has intervals of ours."""
        compared = lines.filter(pl.col("paper_mean").is_not_null())
        if compared.is_empty():
            return [f"No numbers in {self.called}."], []
        own_size = [self.is_own_size(line) for line in compared.iter_rows(named=True)]
        size = f"; {'some of ' * any(own_size)}ours differ in size" * bool(self.presets and not all(own_size))
        cells = [(self.row(*of[:2]), of[2]) for of in compared.select("scheme", "variant", "paper_column").iter_rows()]
        told = [note for note in self.note if any(note.concerns(*cell) for cell in cells)]
        rules = [note.text for note in told]
        doubted = " †: doubtful." * any(note.dagger for note in told)
        of = f"{self.seeds} seeds"
        if (interval or self.spread == "interval") and compared["paper_spread"].count() > 0:
            of = f"± {'half of the 95% interval' if self.spread == 'interval' else 'standard deviation'} over {of}"
        return [f"In brackets: {self.called}, {of}{size}.{doubted}"], rules

    def is_doubted(self, row: str, column: str) -> bool:
        """Whether the number of a row in a column of the source has the mark † of a note."""
        return any(note.dagger and note.concerns(row, column) for note in self.note)

    def is_own_size(self, line: dict[str, Any]) -> bool:
        """Whether the runs of a line of a report have the size of the published ones."""
        return bool(line["preset_size"]) and line["preset"] in self.presets[:1]


def plain(row: str) -> str:
    """The name of a row with its settings sorted, and with `true` and `false` as on the command line.

    >>> plain("rope (learned=True, decay=1)")
    'rope (decay=1, learned=true)'
    """
    scheme, _, settings = row.removesuffix(")").partition(" (")
    own = ", ".join(sorted(settings.split(", "))).replace("=True", "=true").replace("=False", "=false")
    return f"{scheme} ({own})" if settings else row


def names() -> list[str]:
    """The names of the sources that are found."""
    return sorted(_files())


def _files() -> dict[str, Path]:
    """The file of each source by its name. Raises `UsageError` if two sources have the same name."""
    return plugins.toml_files(map(Path, __path__), "sources of published numbers")


@cache
def load(name: str) -> Published:
    """The source of a name, or of a file whose name ends in `.toml`.

    Raises `UsageError` if there is no such source, or if the file is not valid.
    """
    if name.endswith(".toml"):
        path = storage_path(name)
        if path.name.removesuffix(".toml") in names():
            raise UsageError("published numbers of this name are built in", got=name, fix="rename the file")
    else:
        path = _files()[pick("source of published numbers (or FILE.toml)", name, names())]
    try:
        fields = files.read_toml(path)
        if "name" in fields:
            raise ValueError("it has a `name`; use `title` or `short`")
        columns = {k: v if isinstance(v, list) else [v] for k, v in dict(fields.get("columns", {})).items()}
        source = Published.model_validate(fields | {"columns": columns, "name": path.name.removesuffix(".toml")})
        for preset in source.presets:
            pick("preset of published numbers", preset, PRESETS)
        _ = source.numbers  # checked
    except OSError as error:
        fix = files.how_to_read(error, "name a file of published numbers")
        raise UsageError("cannot read the published numbers", got=f"{name}: {error.strerror}", fix=fix) from error
    except UsageError:
        raise
    except (ValueError, TypeError) as error:
        got = first_error(error) if isinstance(error, ValidationError) else str(error)
        raise UsageError(f"{name} is not a file of published numbers", got=got, fix=_FIX) from error
    return source


def _number(
    table: str, task: str, order: str, row: str, metric: str, value: float, spread: float | None = None
) -> Number:
    """A number from its line in a file. Raises `ValueError` if it is not valid."""
    if metric not in (*LAST_DIGIT, *NOT_HERE):
        raise ValueError(f"{metric} is not one of the metrics {', '.join(LAST_DIGIT)}")
    low, high = _RANGES.get(metric, (0.0, math.inf))
    if not low <= value <= high:
        raise ValueError(f"{value} of {row} is a {metric} outside {low:g} to {high:g}")
    if spread is not None and spread < 0:
        raise ValueError(f"{row} has a negative spread")
    return Number(table, f"{task}/{order}" if order else task, plain(row), metric, value, spread)


def beside(lines: pl.DataFrame, columns: list[str], against: str) -> pl.DataFrame:
    """Add the published value and its spread to the lines of a report, as `paper_mean` and `paper_spread`.

    The source is `paper`, and its column `paper_column`. Lines of the published size also get `paper_difference`, ours
    minus the published value, and `paper_in_interval`. `columns`: the name of the column of each line.
    """
    source = load(against)
    types: dict[str, type[pl.DataType]] = dict.fromkeys(("paper", "paper_column"), pl.String)
    types |= dict.fromkeys(("paper_mean", "paper_spread", "paper_difference"), pl.Float64)
    types["paper_in_interval"] = pl.Boolean
    compared: list[tuple[Any, ...]] = []
    for line, column in zip(lines.iter_rows(named=True), columns, strict=True):
        # beside a teacher-forced score on the test split of the training data
        plain = (line["decode"], line["split"], line["fingerprint"]) == ("teacher", "test", line["trained_fingerprint"])
        number = source.number(line["scheme"], line["variant"], column, line["metric"]) if plain else None
        if number is None:
            compared.append((against, *[None] * (len(types) - 1)))
            continue
        difference = inside = None
        if source.is_own_size(line):
            mean, *ends = (
                source.counted(score, line["metric"], line["rows"], line["tokens"])
                for score in (line["mean"], line["low"], line["high"])
                if score is not None
            )
            difference = mean - number.value
            if ends:
                rounded = LAST_DIGIT[line["metric"]] / 2 + stats.ROUNDING
                inside = ends[0] - rounded <= number.value <= ends[1] + rounded
        compared.append((against, number.column, number.value, number.spread, difference, inside))
    return lines.hstack(pl.DataFrame(compared, schema=types, orient="row"))

"""Verdicts on the numbers of the paper, cell by cell, with the runs that each of them rests on.

`verdicts.toml` in a results folder holds them:

    runs = "record"                 # the runs that are named below, relative to this file

    [[verdict]]
    table = 1                       # of the paper
    scheme = "rope"
    columns = ["copy"]              # of that table
    verdict = "reproduced"          # one of `VERDICTS`
    sentence = "..."                # what was found; for an open cause, what has been excluded
    evidence = { copy = ["copy-rope-42-0a1b2c3d"] }    # runs of the cell, with the scheme's own settings
    cause = { copy = ["copy-none-42-0a1b2c3d"] }       # runs with the suspected cause, if there is one

A verdict follows from the scores of its runs (`rule`). The margin of a cell is twice the larger of two standard
deviations, that of the paper and that of the runs, each at least 0.05 points, because the paper rounds its own to a
tenth.

- *reproduced*: the means of the runs and of the paper differ by at most the margin.
- *differs, and why*: they differ by more, and runs of the same preset with the cause leave at most two standard
  deviations of the paper, or a tenth of the difference.
- *differs, cause open*: they differ by more, and no runs explain it.
- *not run*: there are no runs.

RunScores are token accuracies on the test split, as fractions.
"""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ape_cli.core.errors import ApeError, RunError, UsageError
from ape_cli.reports import paper
from ape_cli.runs.record import evaluation_name
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath

FILE = "verdicts.toml"
ROUNDED = 0.0005  # half of the last digit of the paper's deviations
EXPLAINED = 0.1  # the share of a difference that a cause may leave

Word = Literal["reproduced", "differs, and why", "differs, cause open", "not run"]


class Verdict(BaseModel):
    """A verdict on some cells of one scheme, as the file has it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    table: Literal[1, 2, 3]
    scheme: str
    columns: list[str]
    verdict: Word
    sentence: str
    evidence: dict[str, list[str]] = {}
    cause: dict[str, list[str]] = {}


class Verdicts(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    runs: str
    verdict: list[Verdict]


@dataclass(frozen=True)
class RunScores:
    """The scores of some runs of one preset, by their names."""

    preset: str
    by_run: Mapping[str, float]

    @property
    def mean(self) -> float:
        """The mean over runs."""
        return statistics.fmean(self.by_run.values())

    @property
    def std(self) -> float | None:
        """The standard deviation over runs, or None for a single run."""
        return statistics.stdev(self.by_run.values()) if len(self.by_run) > 1 else None


@dataclass(frozen=True)
class Judged:
    """A cell of a table of the paper, with the verdict on it and the scores of its runs."""

    verdict: Verdict
    column: str
    mean: float  # of the paper
    std: float | None
    ours: RunScores | None
    caused: RunScores | None  # of the runs with the suspected cause

    @property
    def difference(self) -> float | None:
        """Our mean minus the paper's."""
        return None if self.ours is None else self.ours.mean - self.mean

    @property
    def left(self) -> float | None:
        """What the cause leaves of the difference."""
        return None if self.caused is None else self.caused.mean - self.mean

    @property
    def margin(self) -> float | None:
        """The largest difference of a number that is reproduced."""
        return None if self.ours is None else margin(self.std, self.ours.std)

    @property
    def follows(self) -> Word:
        """The verdict that follows from the scores."""
        if self.difference is None or self.margin is None:
            return "not run"
        if abs(self.difference) <= self.margin:
            return "reproduced"
        same_size = self.ours and self.caused and self.ours.preset == self.caused.preset
        most = max(margin(self.std), EXPLAINED * abs(self.difference))
        if same_size and self.left is not None and abs(self.left) <= most:
            return "differs, and why"
        return "differs, cause open"


def margin(*deviations: float | None) -> float:
    """Twice the largest of some standard deviations. None: there is none.

    >>> margin(0.0, 0.012), margin(0.0, None)
    (0.024, 0.001)
    """
    return 2 * max([ROUNDED, *(std for std in deviations if std is not None)])


def read(folder: StoragePath) -> list[Judged]:
    """The cells of `verdicts.toml` in a results folder, in the order of the file.

    Raises `ApeError` if the file is missing, `UsageError` if it is invalid or names a cell that the paper lacks, and
    `RunError` if one of its runs is missing or has no score.
    """
    path = folder / FILE
    try:
        content = Verdicts.model_validate(tomllib.loads(files.read_bytes(path).decode("utf-8")))
    except OSError as error:
        fix = files.how_to_read(error, "name the folder that has it with `results`")
        raise ApeError("there are no verdicts here", got=f"{path}: {error.strerror}", fix=fix) from error
    except (ValidationError, ValueError) as error:
        raise UsageError(f"bad verdicts in {path}", got=str(error), fix="correct the file") from error
    runs = {run.name: run for run in open_registry(folder / content.runs)}
    return [_judged(verdict, column, runs) for verdict in content.verdict for column in verdict.columns]


def _judged(verdict: Verdict, column: str, runs: Mapping[str, Run]) -> Judged:
    """A cell with its scores. Raises `UsageError` and `RunError` like `read`."""
    numbers = paper.table(verdict.table)
    if (verdict.scheme, column) not in numbers:
        raise UsageError(f"the paper has no such cell in its table {verdict.table}", got=f"{verdict.scheme}, {column}")
    names = [of.get(column, []) for of in (verdict.evidence, verdict.cause)]
    return Judged(verdict, column, *numbers[verdict.scheme, column], *(scores(of, runs) for of in names))


def scores(names: Sequence[str], runs: Mapping[str, Run]) -> RunScores | None:
    """The scores of runs on the test split of their own dataset; None without runs.

    Raises `RunError` if a run is missing, is damaged or has no such score, or if the runs have several presets.
    """
    found: dict[str, float] = {}
    presets = set()
    for name in names:
        if name not in runs:
            raise RunError("a run of the verdicts is missing", got=name, fix="correct the name in verdicts.toml")
        about = runs[name].read()
        own = runs[name].evaluation(evaluation_name(about.dataset.fingerprint, "test", "teacher"))
        if own is None:
            raise RunError("a run of the verdicts has no test score", got=name, fix=f"`ape eval {name}`")
        found[name] = own["overall"]["token_accuracy"]
        presets.add(about.config.preset)
    if len(presets) > 1:
        raise RunError("the runs of a verdict have several presets", got=", ".join(names), fix="name those of one")
    return RunScores(presets.pop(), found) if found else None

"""Scores of the committed runs, by seed: what the queries in `results/pages` and the tests of the pages start from.

Scores are percentages, and differences are points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ape_cli.reports import published
from ape_cli.reports.stats import critical
from ape_cli.runs.record import RunRecord, settings_text
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from results.plans import RESULTS, RUNS

AGAIN = RESULTS / "generalise" / "runs.parquet"  # runs of tables 1 and 2 that were trained again
FLAT = ("sinusoidal", "rope", "orthogonal-seq")  # schemes that read a tree as a sequence
SCHEMES = (*FLAT, "tree", "orthogonal-tree")  # of trees
TREE_TASKS = ("tree-copy", "tree-rotate", "c3", "tree-ops")
ORDERS = ("breadth", "depth", "breadth-to-depth")
TREE_COLUMNS = [f"{task}/{order}" for task in TREE_TASKS for order in ORDERS]


class Scores(dict[int, float]):
    """Scores by seed. In a query, they are printed as their mean, with two digits unless the query says otherwise."""

    @property
    def mean(self) -> float:
        return fmean(self.values())

    @property
    def std(self) -> float:
        return stdev(self.values())

    @property
    def range(self) -> float:
        return max(self.values()) - min(self.values())

    @property
    def first(self) -> float:
        """The score with seed 42."""
        return self[42]

    @property
    def three(self) -> Scores:
        """The scores with the seeds 42 to 44."""
        return Scores({seed: self[seed] for seed in (42, 43, 44)})

    @property
    def half(self) -> float:
        """Half of the width of the 95% interval of the mean."""
        return critical(len(self) - 1) * self.std / math.sqrt(len(self))

    @property
    def is_clear(self) -> bool:
        """Whether the 95% interval of the mean does not contain 0."""
        return len(self) > 1 and abs(self.mean) > self.half

    def __float__(self) -> float:
        return self.mean

    def __abs__(self) -> float:
        return abs(self.mean)

    def __neg__(self) -> Scores:
        return Scores({seed: -score for seed, score in self.items()})

    def __sub__(self, other: Scores) -> Scores:
        """The differences, for each seed that both have."""
        return Scores({seed: self[seed] - other[seed] for seed in sorted(self.keys() & other.keys())})

    def __format__(self, spec: str) -> str:
        return format(self.mean, spec or ".2f")


def above(ours: Iterable[Scores], theirs: Iterable[Scores]) -> bool:
    """Whether the worst seed of each of the first schemes is above the best seed of all others."""
    return min(min(scores.values()) for scores in ours) > max(max(scores.values()) for scores in theirs)


def span(values: Iterable[Any], digits: int = 0) -> str:
    """The least and the largest of some values: `22 to 32`. Scores of seeds are a value each."""
    numbers = values.values() if isinstance(values, Scores) else [float(value) for value in values]
    return f"{min(numbers):.{digits}f} to {max(numbers):.{digits}f}"


def listed(values: Iterable[Any], spec: str = ".1f") -> str:
    """Values in a sentence: `8, 12 and 20`. Scores of seeds are a value each."""
    numbers = values.values() if isinstance(values, Scores) else values
    *texts, last = (format(value, spec) for value in numbers)
    return f"{', '.join(texts)} and {last}"


def up(value: float, digits: int) -> float:
    """A bound that a value is within: the value rounded up."""
    return math.ceil(10**digits * value) / 10**digits


def word(number: int) -> str:
    return ("no", "one", "two", "three", "four", "five", "six", "seven")[number]


@cache
def runs(where: Path = RUNS) -> list[tuple[Run, RunRecord]]:
    return list(open_registry(where).readable())


@cache
def evaluations(where: Path = RUNS) -> dict[tuple[str, str, str, str], dict[int, list[dict[str, Any]]]]:
    """Every teacher-forced evaluation on test rows, by preset, column, scheme and changed settings, then by seed.

    A column is a task with its order, or the name of a dataset that is not the one of its task at the preset. The run's
    own dataset comes first.
    """
    by_row: dict[tuple[str, str, str, str], dict[int, list[dict[str, Any]]]] = {}
    for run, about in runs(where):
        config, data = about.config, about.dataset
        column = f"{data.task}/{data.order}" if data.order else data.task
        if not data.image and data.name != f"{column.replace('/', '-')}-{config.preset}":
            column = data.name
        own = [e for e in run.evaluations()[0] if (e["split"], e["decode"]) == ("test", "teacher")]
        own.sort(key=lambda e: e["fingerprint"] != data.fingerprint)
        key = (config.preset, column, config.scheme, settings_text(about.variant))
        by_row.setdefault(key, {})[config.seed] = own
    return by_row


class Preset:
    """The scores of the runs of a preset on the run's own dataset. `also` are settings that all of its runs have."""

    def __init__(self, name: str, also: str = "") -> None:
        self.name, self.also = name, also

    def evaluations(self, column: str, scheme: str, settings: str = "") -> dict[int, dict[str, Any]]:
        settings = ", ".join(filter(None, (settings, self.also)))
        by_seed = evaluations()[self.name, column, scheme, settings]
        return {seed: by_seed[seed][0] for seed in sorted(by_seed)}

    def __call__(self, column: str, scheme: str, settings: str = "", metric: str = "token_accuracy") -> Scores:
        own = self.evaluations(column, scheme, settings)
        return Scores({seed: 100 * of["overall"][metric] for seed, of in own.items()})

    def exact(self, column: str, scheme: str, settings: str = "") -> Scores:
        return self(column, scheme, settings, "exact_match")

    def nats(self, column: str, scheme: str, settings: str = "") -> Scores:
        """The cross-entropy in nats for each token."""
        own = self.evaluations(column, scheme, settings)
        return Scores({seed: of["overall"]["cross_entropy"] for seed, of in own.items()})

    def by(self, line: str, value: Any, column: str, scheme: str, settings: str = "", metric: str = "") -> Scores:
        """The scores on one operator (`by("op", "extract", …)`) or one size; exact match unless `metric` is given."""
        own, metric = self.evaluations(column, scheme, settings), metric or "exact_match"
        return Scores(
            {
                s: next(100 * scores[metric] for scores in of[f"by_{line}"] if scores[line] == value)
                for s, of in own.items()
            }
        )

    def schemes(self, column: str) -> set[str]:
        """The schemes that have runs with their own settings."""
        return {s for preset, of, s, settings in evaluations() if (preset, of, settings) == (self.name, column, "")}

    def best_other(self, column: str, but: str, metric: str = "exact_match") -> float:
        """The best mean of all other schemes with their own settings."""
        return max(self(column, scheme, "", metric).mean for scheme in self.schemes(column) - {but})


small, medium, paper = Preset("small"), Preset("medium"), Preset("paper", "precision=tf32")


def preprint(column: str, scheme: str) -> float:
    """The number of the preprint for a scheme in one of our columns."""
    number = published.load("paper").number(scheme, "", column, "token_accuracy")
    assert number is not None
    return 100 * number.value

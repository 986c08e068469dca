"""What each ingredient of the orthogonal schemes is worth: differences of two rows of `ingredients.toml`, by seed.

A pair is one seed that both rows have, with the same data in the same order. Other initial weights may differ, because
rows draw different numbers for their operators. A cell is the mean of the differences in points of token accuracy on
the test split, with its 95% interval by Student's paired t.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ape_cli.reports import stats
from ape_cli.reports.descriptions import described
from ape_cli.runs.record import evaluation_name, settings_text
from ape_cli.runs.registry import Registry
from ape_cli.runs.tuning import Validation, choose, validation

COLUMNS = ("repeat", "tree-rotate/breadth", "c3/breadth-to-depth", "tree-ops/breadth-to-depth")
RATES = ("lr_peak=0.0007", "", "lr_peak=0.006")  # of `tree` and `relative`; the preset has 0.002


class Row(NamedTuple):
    """A row of the tables: a scheme and the settings that it does not have by default."""

    scheme: str
    settings: str = ""


ORTHOGONAL, TREE = Row("orthogonal-seq"), Row("orthogonal-tree")
INGREDIENTS = {  # with the ingredient, and without it
    "start angles from 0 to π, not RoPE's": (Row("rope-spread"), Row("rope")),
    "learned angles, starting from RoPE's": (Row("rope", "learned=True"), Row("rope")),
    "learned angles, starting from 0 to π": (Row("rope-spread", "learned=True"), Row("rope-spread")),
    "a learned basis, random at the start": (Row("orthogonal-seq", "decay=1"), Row("rope-spread", "learned=True")),
    "learning the basis": (ORTHOGONAL, Row("orthogonal-seq-fixed-basis")),
    "separate angles for each head": (ORTHOGONAL, Row("orthogonal-seq-shared-angles")),
    "locality bias (`orthogonal-seq`)": (ORTHOGONAL, Row("orthogonal-seq", "decay=1")),
    "locality bias (`orthogonal-tree`)": (TREE, Row("orthogonal-tree", "decay=1")),
    "separate generators for the branches, which commute": (
        Row("orthogonal-tree-commuting"),
        Row("orthogonal-tree-one-generator"),
    ),
    "generators that do not commute": (TREE, Row("orthogonal-tree-commuting")),
    "both of these": (TREE, Row("orthogonal-tree-one-generator")),
    "positions in the tree, not in the sequence": (TREE, ORTHOGONAL),
}
TUNED = {  # against a scheme with the learning rate of the best validation scores
    "`orthogonal-tree` instead of a tuned `tree`": (TREE, "tree"),
    "`orthogonal-seq` instead of a tuned `relative`": (ORTHOGONAL, "relative"),
}

Scores = Mapping[tuple[str, Row], Mapping[int, tuple[float, Validation]]]  # by column and row, then by seed


SCHEMES = {side.scheme for pair in INGREDIENTS.values() for side in pair} | {scheme for _, scheme in TUNED.values()}


def scores(
    registry: Registry,
    columns: Collection[str] = COLUMNS,
    schemes: Collection[str] = frozenset(SCHEMES),
    metric: str = "token_accuracy",
) -> Scores:
    """The test score, in percent, and the validation scores of the runs of preset small, by column, row and seed."""
    by_row: dict[tuple[str, Row], dict[int, tuple[float, Validation]]] = {}
    for run, about, _, _ in described(registry):
        config, data = about.config, about.dataset
        column = f"{data.task}/{data.order}" if data.order else data.task
        usual = config.preset == "small" and data.name == f"{column.replace('/', '-')}-small"
        if not usual or column not in columns or config.scheme not in schemes or about.status != "finished":
            continue
        if own := run.evaluation(evaluation_name(data.fingerprint, "test", "teacher")):
            of_row = by_row.setdefault((column, Row(config.scheme, settings_text(about.variant))), {})
            of_row[config.seed] = 100 * own["overall"][metric], validation(run)
    return by_row


def tuned(scheme: str, column: str, scores: Scores) -> Row | None:
    """The row of a scheme with the best validation scores, over the seeds that all learning rates have; or None."""
    rows = {row: scores.get((column, row), {}) for row in (Row(scheme, rate) for rate in RATES)}
    if not set.intersection(*(set(of) for of in rows.values())):
        return None
    return choose({row: {seed: score[1] for seed, score in of.items()} for row, of in rows.items()}).setting


class Worth(NamedTuple):
    """The differences of two rows in a column, in points: their mean, half of the 95% interval, and their number."""

    mean: float
    half: float | None
    seeds: int

    @classmethod
    def of(cls, differences: Sequence[float]) -> Worth | None:
        """That of the differences of pairs; None without any."""
        if not differences:
            return None
        return cls(statistics.fmean(differences), stats.spread(differences)[1], len(differences))

    @property
    def is_shown(self) -> bool:
        """Whether the interval does not contain 0."""
        return self.half is not None and abs(self.mean) > self.half

    def __str__(self) -> str:
        """The cell of the table. An interval that does not contain 0 is in bold."""
        if self.half is None:
            return f"{self.mean:+.2f} ×{self.seeds}"
        mean, *ends = (round(x, 2) + 0.0 for x in (self.mean, self.mean - self.half, self.mean + self.half))
        text = f"{mean:+.2f} ({ends[0]:+.2f} to {ends[1]:+.2f})"
        return (f"**{text}**" if self.is_shown else text) + f" ×{self.seeds}" * (self.seeds < 6)


def worth(with_it: Row, without: Row, column: str, scores: Scores) -> Worth | None:
    """What the first row is ahead of the second, over the seeds that both have; None if they have none in common."""
    a, b = scores.get((column, with_it), {}), scores.get((column, without), {})
    return Worth.of([a[seed][0] - b[seed][0] for seed in sorted(a.keys() & b.keys())])


def cells(scores: Scores) -> dict[tuple[str, str], Worth]:
    """The cells of the table by ingredient and column."""
    made: dict[tuple[str, str], Worth | None] = {}
    for column in COLUMNS:
        for name, pair in INGREDIENTS.items():
            made[name, column] = worth(*pair, column, scores)
        for name, (ours, scheme) in TUNED.items():
            theirs = tuned(scheme, column, scores)
            made[name, column] = worth(ours, theirs, column, scores) if theirs else None
    return {key: value for key, value in made.items() if value is not None}


def table(registry: Registry) -> str:
    """The table of what each ingredient is worth."""
    made = cells(scores(registry))
    lines = [f"| ingredient | {' | '.join(COLUMNS)} |", f"|---|{'---:|' * len(COLUMNS)}"]
    for name in (*INGREDIENTS, *TUNED):
        shown = [str(made[name, column]) if (name, column) in made else "" for column in COLUMNS]
        if any(shown):
            lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"

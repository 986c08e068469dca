"""The scores of the committed runs by dataset and row, and the cells of figures that follow from them.

Scores are those on the test split of the data that a run was trained on, with teacher forcing, in percent.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from ape_cli.reports import evaluations
from ape_cli.runs.registry import Registry
from ape_cli.sweep.stages import Stages
from results.figures.forest import Cell

TREE = "orthogonal-tree"
FLAT = ("sinusoidal", "rope", "orthogonal-seq")  # the schemes of table 2 that read a tree as a sequence
SCHEMES = (*FLAT, "tree", "orthogonal-tree")
TASKS = ("tree-copy", "tree-rotate", "c3", "tree-ops")
NAMES = {"token_accuracy": "token accuracy", "exact_match": "exact match"}

Seeds = dict[int, float]


class Scores:
    """The scores of all runs by dataset, scheme and variant (the settings that differ from the preset)."""

    def __init__(self, registry: Registry) -> None:
        """Read all runs."""
        values, _ = evaluations.scores(registry)
        self.by_data: dict[tuple[str, str], dict[tuple[str, str], Seeds]] = {}  # by dataset and metric, then by row
        own = pl.col("fingerprint") == pl.col("trained_fingerprint")
        for line in values.filter(own, split="test", decode="teacher").iter_rows(named=True):
            rows = self.by_data.setdefault((line["trained_on"], line["metric"]), {})
            rows.setdefault((line["scheme"], line["variant"]), {})[line["seed"]] = 100 * line["value"]

    def rows(self, data: str, metric: str = "token_accuracy") -> dict[tuple[str, str], Seeds]:
        """The scores on a dataset by scheme and variant, then by seed."""
        return self.by_data.get((data, metric), {})

    def seeds(self, data: str, scheme: str, variant: str = "", metric: str = "token_accuracy") -> Seeds:
        """The scores of a row by seed. It is empty if there are no such runs."""
        return self.rows(data, metric).get((scheme, variant), {})


def finished(plan: Stages) -> list[str]:
    """The names of the finished runs of a sweep, without those whose settings are not chosen yet."""
    return [item.name for item in plan.trials if item.state == "finished" and item.name not in plan.undecided]


def cells(of: Mapping[str, Seeds]) -> dict[str, Cell]:
    """The cells of a row, without those that have no runs."""
    return {column: Cell.of(seeds.values()) for column, seeds in of.items() if seeds}


def differences(of: Mapping[str, tuple[Seeds, Seeds]]) -> dict[str, Cell]:
    """The cells of a row of differences, over the seeds that both sides have."""
    paired = {column: {seed: a[seed] - b[seed] for seed in a.keys() & b.keys()} for column, (a, b) in of.items()}
    return cells(paired)

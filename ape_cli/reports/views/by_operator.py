"""Scores by operator, for a task that has several operators. `tree-ops` has four.

Token accuracy over all rows depends mostly on the operators whose targets are long copies of the source. Exact match by
operator shows which operations a scheme has learned.

Datasets are not pooled, because an operator on other data than that of training is a question of its own. Each dataset
that a run was evaluated on has its own table, as it has its own column in the plain tables.
"""

from __future__ import annotations

import polars as pl

from ape_cli import tasks
from ape_cli.reports import aggregation
from ape_cli.reports.evaluations import COLUMN, COUNTS, arrange
from ape_cli.reports.layout import KEYS, by_column, label, mark
from ape_cli.reports.tables import Table, table
from ape_cli.reports.views import Options, View
from ape_cli.runs.registry import Registry


class ByOperator(View[pl.DataFrame]):
    """Shows a line for each cell and operator, with its place (`layout.label`)."""

    about = "by operator of the source"
    by = "op"
    rank = 20
    unused = ("against", "counts")

    def read(self, registry: Registry, options: Options) -> pl.DataFrame:
        """Read the evaluations by operator. Raises `ApeError` if there are none."""
        parts = aggregation.read_parts(registry, "op", options)
        pooled = aggregation.pool(parts.values, [*COLUMN, "op"], ["trained_on", "dataset"])
        return mark(label(pooled, parts.settings, [*KEYS, "fingerprint"]), ["op"])

    def frame(self, result: pl.DataFrame) -> pl.DataFrame:
        """The lines, with the numbers of rows and tokens behind each."""
        return arrange(result, ["op"], [*COUNTS, *aggregation.OVER_ROWS])

    def tables(self, result: pl.DataFrame, *, interval: bool = False) -> list[Table]:
        """A table for each column of the other tables and each preset, with operators as columns."""
        made = []
        for group in by_column(result):
            first = group.row(0, named=True)
            task_ops = tasks.load(first["task"]).ops if first["task"] in tasks.names() else []
            ops = group["op"].unique(maintain_order=True).to_list()
            ops.sort(key=lambda op: task_ops.index(op) if op in task_ops else len(task_ops))
            foot, rule = aggregation.counts(group, "op", ops)
            made.append(table(f"{first['column']} by operator", group, "op", ops, interval, rules=[rule], foot=foot))
        return made

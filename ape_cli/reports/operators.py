"""Scores by operator: how a scheme does on each operation of a task that has several, as `tree-ops` has four.

A token accuracy over all rows is mostly that of the operators whose targets are long copies of the source. Exact match
by operator shows which operations a scheme has learned.

An operator is no size: rows of one operator on other data than that of training are another question. So datasets are
not pooled, and each that a run was evaluated on has a table of its own, as it has a column in the plain tables.
"""

from __future__ import annotations

import polars as pl

from ape_cli import tasks
from ape_cli.reports import parts
from ape_cli.reports.columns import COLUMN, arrange
from ape_cli.reports.curves import KEYS, label
from ape_cli.reports.evaluations import measured
from ape_cli.reports.tables import Table, cell, standing_notes
from ape_cli.runs.registry import Registry


def read(
    registry: Registry,
    *,
    metric: str,
    decode: str,
    split: str,
    own: bool = False,
    needed: bool = True,
) -> tuple[pl.DataFrame, list[str]]:
    """A line for each cell and operator, and a line of text about each run that cannot be read (`parts.read`).

    With `row`, `column` and `rank` (`curves.label`). With `own` on the runs' own data alone.
    """
    found, bad = parts.read(registry, "op", metric=metric, decode=decode, split=split, own=own, needed=needed)
    if found.values.is_empty():
        return found.values, bad
    pooled = parts.pool(found.values, [*COLUMN, "op"], ["trained_on", "dataset"])
    return label(pooled, [*KEYS, "fingerprint"]), bad


def lines(found: pl.DataFrame) -> pl.DataFrame:
    """The lines as programs get them."""
    return arrange(found, ["op"], [*parts.COUNTS, *parts.OVER_ROWS])


def tables(found: pl.DataFrame, *, interval: bool = False) -> list[Table]:
    """A table for each column of the other tables and each preset: schemes down, operators across."""
    if found.is_empty():
        return []
    groups = found.partition_by("structure", "preset", "column", maintain_order=True)
    return [_table(group, interval) for group in groups]


def _table(group: pl.DataFrame, interval: bool) -> Table:
    first = group.row(0, named=True)
    known = tasks.load(first["task"]).ops if first["task"] in tasks.names() else []
    there = group["op"].unique(maintain_order=True).to_list()
    columns = [op for op in known if op in there] + [op for op in there if op not in known]
    cells = {(line["row"], line["op"]): cell(line) for line in group.iter_rows(named=True)}
    rows = group["row"].unique(maintain_order=True)
    body = [(row, [cells.get((row, op)) for op in columns]) for row in rows]
    notes = [*standing_notes(group, interval), parts.counted(group)]
    name, unit = measured(first["metric"], group["task"])
    foot = parts.counts(group, "op", columns)
    return Table(f"{first['column']} by operator, {name}", notes, columns, body, unit, interval, foot=foot)

"""Learning curves: validation scores over steps, from the history of each finished run, over its seeds.

Panels are the columns of the tables, lines their rows. Scores are fractions, or nats a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from ape_cli.registry import Registry
from ape_cli.report import CELL, LINES, described
from ape_cli.table import column_rank, named, row_rank

MEASURED = {"token_accuracy": "validation_token_accuracy", "cross_entropy": "validation_loss"}  # while a run trains

# what a line of a plot is: a row of the tables on the data that it was trained on
KEYS = ["task", "order", "preset", "structure", "form", "trained_fingerprint", *CELL]


@dataclass(frozen=True)
class Panel:
    """One set of axes.

    `lines`: row, scheme, x, mean, least, most, seeds; rows in the order of the tables, x ascending. `least` and
    `most` are those over seeds.
    """

    title: str
    axis: str  # what x is, with its unit
    lines: pl.DataFrame
    seen: tuple[int, int] | None = None  # the smallest and the largest x that training saw


def learning(registry: Registry, *, metric: str, preset: str | None) -> tuple[list[Panel], list[str]]:
    """The learning curves of all finished runs, and a line about each run that cannot be read.

    No panels for a metric that is not measured while a run trains.
    """
    bad: list[str] = []
    if metric not in MEASURED:
        return [], bad
    runs: list[dict[str, Any]] = []
    histories: list[pl.DataFrame] = []
    for run, about, of_run in described(registry, bad):
        if run.status_in(about) != "finished" or preset not in (None, of_run["preset"]):
            continue
        try:
            history = run.history().select(x="step", value=pl.col(MEASURED[metric]).cast(pl.Float64))
        except (pl.exceptions.PolarsError, OSError):
            bad.append(f"{run.name}: no history.parquet, or a damaged one: it has no learning curve")
            continue
        histories.append(history.with_columns(run=pl.lit(len(runs), pl.UInt32)))
        runs.append(of_run)
    if not runs:
        return [], bad
    over_seeds = (
        pl.concat(histories)
        .join(numbered(runs), on="run")
        .group_by([*KEYS, "trained_on", "x"], maintain_order=True)
        .agg(
            pl.col("value").mean().alias("mean"),
            pl.col("value").min().alias("least"),
            pl.col("value").max().alias("most"),
            pl.len().cast(pl.Int64).alias("seeds"),
        )
    )
    return [Panel(title, "steps", lines) for title, lines in split(over_seeds)], bad


def numbered(runs: list[dict[str, Any]]) -> pl.DataFrame:
    """What `described` says of runs, one line each, with its number as `run`."""
    schema = {k: LINES[k] for k in (*KEYS, "trained_on")} | {"seed": pl.Int64}
    lines = [{k: run[k] for k in schema} for run in runs]
    return pl.DataFrame(lines, schema=schema, orient="row").with_row_index("run")


def split(lines: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """Lines with `KEYS`, `trained_on` and x as the panels of a plot: the title and the lines of each.

    A title is the column's name in the tables, with the preset where there are several.
    """
    labelled = label(lines)
    several = labelled["preset"].n_unique() > 1
    panels = []
    for panel in labelled.partition_by("structure", "preset", "column", maintain_order=True):
        first = panel.row(0, named=True)
        title = first["column"] + (f", preset {first['preset']}" if several else "")
        panels.append((title, panel.sort("rank", "x")))
    return panels


def label(lines: pl.DataFrame) -> pl.DataFrame:
    """The lines with the `row` and the `column` that they have in the tables, in the order of those.

    `rank` is a row's place among all.
    """
    cells = lines.unique(KEYS, keep="first", maintain_order=True)
    cells = named(cells.with_columns(fingerprint="trained_fingerprint", dataset="trained_on"))
    places = [(x["structure"], x["preset"], column_rank(x), row_rank(x)) for x in cells.iter_rows(named=True)]
    cells = cells[sorted(range(cells.height), key=places.__getitem__)].with_row_index("rank")
    kept = cells.select(*KEYS, "row", "column", "rank")
    return kept.join(lines, on=KEYS, nulls_equal=True, maintain_order="left_right")

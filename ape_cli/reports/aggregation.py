"""Aggregation: the scores of all evaluations in a registry, over seeds.

A line is about one scheme (with the settings that differ from its preset) on one task, order and dataset. It has the
mean over seeds, the sample standard deviation, the number of seeds, and `low` to `high`, the 95% interval over seeds of
the mean (`stats.py`). That interval is about other seeds of training on the same data, not about other test rows. Runs
that differ in anything but the seed are never averaged.

As in the paper, every mean is underlined (`best`) that is at most one standard deviation worse than the best mean of
its column. The best mean is that of all rows, whatever their numbers of seeds, and the deviation is that of its row. Of
several rows with the best mean, the largest deviation counts. A row with one seed has no deviation. If it is the best,
only the rows that equal it are underlined.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ape_cli.core.errors import pick
from ape_cli.reports import paper, stats
from ape_cli.reports.columns import BEHIND, CELL, COLUMN, LINES
from ape_cli.reports.evaluations import SMALLER_IS_BETTER, task_of, wanted
from ape_cli.runs.registry import Registry

_ROUNDING = 1e-12  # closer means are equal, because the same scores may be added in another order
_NAMES = ["trained_on", "dataset", "paper_size"]  # they may differ within one line


def aggregate(values: pl.DataFrame) -> pl.DataFrame:
    """The lines of a report, with the columns of `LINES` and `BEHIND`.

    Each line has the mean, the deviation, the interval and the number of seeds, and whether it is underlined.
    """
    more = [pl.col(*_NAMES).last(), pl.col("rows", "tokens").first()]
    return over_seeds(values, COLUMN, more).select(*LINES, *BEHIND)


def over_seeds(values: pl.DataFrame, column: list[str], more: Sequence[pl.Expr]) -> pl.DataFrame:
    """Aggregate `value` over seeds, for each `CELL` of each `column`.

    Returns the mean, the deviation, the interval, the number of seeds, whether the mean is underlined, and `by_seed`,
    the score (`value`) of each `seed`. `more` are further expressions that are aggregated in each cell. The order of
    the lines of `values` has no effect on a number.
    """
    value = pl.col("value").sort()  # the sum of floats depends on their order
    lines = values.group_by([*column, *CELL], maintain_order=True).agg(
        *more,
        value.mean().alias("mean"),
        value.std().alias("std"),
        pl.len().cast(pl.Int64).alias("seeds"),
        pl.struct("seed", "value").sort_by("seed").alias("by_seed"),
    )
    widths = {n: stats.half_width(n) for n in lines["seeds"].unique()}
    half = pl.col("seeds").replace_strict(widths, return_dtype=pl.Float64) * pl.col("std")
    low, high = pl.col("mean") - half, pl.col("mean") + half
    share = ~pl.col("metric").is_in(list(SMALLER_IS_BETTER))  # between 0 and 1, and so is its mean
    low, high = (pl.when(share).then(end.clip(0.0, 1.0)).otherwise(end) for end in (low, high))
    lines = lines.with_columns(low.alias("low"), high.alias("high"))
    return _underline(lines, column)


def _underline(lines: pl.DataFrame, column: list[str]) -> pl.DataFrame:
    """Add `best`: whether a mean is at most one deviation of the best row worse than the best mean of its column."""
    mean = pl.col("mean")
    smaller_is_better = pl.col("metric").is_in(list(SMALLER_IS_BETTER))
    scored = lines.with_columns(score=pl.when(smaller_is_better).then(-mean).otherwise(mean))
    scored = scored.with_columns(top=pl.col("score").max().over(column))
    tied = pl.col("score") >= pl.col("top") - _ROUNDING
    scored = scored.with_columns(slack=pl.when(tied).then(pl.col("std").fill_null(0.0)))
    limit = pl.col("top") - pl.col("slack").max().over(column) - _ROUNDING
    return scored.with_columns(best=pl.col("score") >= limit).drop("score", "top", "slack")


def lines(
    registry: Registry,
    *,
    metric: str,
    decode: str,
    split: str,
    against: str | None,
    own: bool = False,
) -> tuple[pl.DataFrame, list[str]]:
    """The aggregated lines for a metric, decoding and split, and a line of text about each unreadable run.

    against: `paper` adds the numbers of the paper. own: only evaluations on the data that a run was trained on. Raises
    `ApeError` if no evaluation is selected, and `UsageError` for an unknown name.
    """
    if against is not None:
        pick("comparison", against, ["paper"])
    values, bad = wanted(registry, metric=metric, decode=decode, split=split, own=own)
    found = aggregate(values)
    if against is not None:
        found = paper.beside(found, [task_of(line) for line in found.iter_rows(named=True)])
    return found, bad

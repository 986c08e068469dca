"""Aggregation: the scores of all evaluations in a registry, over seeds.

A line is about one scheme (with the settings that differ from its preset) on one task, order and dataset. It has the
mean over seeds, the sample standard deviation, the number of seeds, and `low` to `high`, the 95% interval over seeds of
the mean (`stats.py`). That interval is about other seeds of training on the same data, not about other test rows. Runs
that differ in anything but the seed are never averaged. The interval of a perplexity is that of the mean of its
logarithms, which are cross-entropies, transformed by the exponential function. It is not symmetric, and never below 1.

The score of a part of the evaluated rows, by size or by operator, is a ratio of sums over its rows. Token accuracy and
cross-entropy are ratios over target tokens, and exact match is a ratio over rows. A perplexity is the exponential of
such a ratio. The score of each run is computed first, and then the mean and the deviation over seeds. `rows` and
`tokens` count the distinct data behind a score. All seeds are scored on the same rows, so each row is counted once for
all seeds. Rows with the same source count once, also within a dataset: the 8 words of three bits are 8 rows, however
many were scored. The score itself is over all rows that were scored. If it is not known which rows are equal
(`distinct_rows.py`), all are counted. The counts of different datasets are added, because views only pool datasets that
share no rows.

`low_over_rows` and `high_over_rows` are the 95% interval over test rows (`stats.wilson`) of an exact match, which is a
share of rows. The other metrics are means over tokens. They have no interval over test rows, because the tokens of one
row are not independent, and evaluations do not store the scores of single rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from ape_cli.reports import distinct_rows, published, stats
from ape_cli.reports.descriptions import RowKey, Settings
from ape_cli.reports.evaluations import (
    CELL,
    COLUMN,
    COUNTS,
    FIELDS,
    IS_SHARE,
    METRICS,
    VALUES,
    NothingToReportError,
    Options,
    Values,
    columns,
    evaluation_tables,
    scored,
    selected,
    task_of,
)
from ape_cli.reports.layout import KEYS, label, mark
from ape_cli.runs.record import DatasetRecord
from ape_cli.runs.registry import Registry


def aggregate(values: Values) -> pl.DataFrame:
    """The lines of a report, with the columns of `LINES`, those of `over_seeds` and `layout`, `rows` and `tokens`."""
    more = [pl.col(*columns("name")).min(), pl.col(*COUNTS).first()]  # the first name counts
    return mark(label(over_seeds(values.frame, COLUMN, more), values.settings, [*KEYS, "fingerprint"]))


def over_seeds(values: pl.DataFrame, column: list[str], more: Sequence[pl.Expr]) -> pl.DataFrame:
    """Aggregate `value` over seeds, for each `CELL` of each `column`.

    Returns the mean, the deviation, the interval, the number of seeds, and `by_seed`, the `value` and the `score` of
    each `seed`. `more` are further expressions that are aggregated in each cell; they
    may use the `score` too. The order of the lines of `values` has no effect on a number.
    """
    value, score = pl.col("value").sort(), pl.col("score").sort()  # the sum of floats depends on their order
    lines = (
        values.with_columns(score=scored(pl.col("value")))
        .group_by([*column, *CELL], maintain_order=True)
        .agg(
            *more,
            score.mean().alias("mean"),
            score.std().alias("std"),
            pl.len().cast(pl.Int64).alias("seeds"),
            pl.struct("seed", "value", "score").sort_by("seed").alias("by_seed"),
            value.mean().alias("middle"),
            value.std().alias("spread"),
        )
    )
    widths = {n: stats.half_width(n) for n in lines["seeds"].unique()}
    half = pl.col("seeds").replace_strict(widths, return_dtype=pl.Float64) * pl.col("spread")
    low, high = (pl.col("middle") + half * sign for sign in (-1, 1))
    low, high = low.clip(0.0), pl.when(IS_SHARE).then(high.clip(None, 1.0)).otherwise(high)  # where a mean can be
    lines = lines.with_columns(
        scored(low).alias("low"),
        scored(high).alias("high"),
        pl.when(pl.col("std").is_finite()).then("std"),  # some perplexity may be infinite
    )
    return lines.drop("middle", "spread")


def lines(registry: Registry, options: Options) -> pl.DataFrame:
    """The aggregated lines of the selected scores.

    `number` is the position of each line in the order of the registry. Raises `ApeError` if no evaluation is selected.
    """
    values = selected(registry, options)
    key = [*COLUMN, *CELL]
    numbers = values.frame.select(key).unique(maintain_order=True).with_row_index("number")
    aggregated = aggregate(values).join(numbers, on=key, nulls_equal=True, maintain_order="left")
    if options.against is not None:
        tasks = [task_of(line) for line in aggregated.iter_rows(named=True)]
        aggregated = published.beside(aggregated, tasks, options.against)
    return aggregated


OVER_ROWS = ("low_over_rows", "high_over_rows")
_WEIGHT = {"exact_match": "rows"}  # the unit that a metric is a mean over, if it is not tokens
_FIX = {
    "size": """`ape train` evaluates each run, but images have one size; `ape eval --split … \
--decode … --data …` evaluates more, also other sizes""",
    "op": "`ape train --task tree-ops` evaluates each run; `ape eval --split … --decode …` evaluates more",
}


class Parts(NamedTuple):
    """The evaluations of a metric, part by part."""

    values: pl.DataFrame  # a line for each run, evaluated dataset and part (`read_parts`)
    trained: dict[str, DatasetRecord]  # the description of the training data in run.json, by its fingerprint
    drawn: distinct_rows.Rows  # the rows of each evaluated dataset
    settings: dict[RowKey, Settings]


def read_parts(registry: Registry, part: str, options: Options) -> Parts:
    """Read all evaluations of a metric, decoding and split, part by part. `part` is `size` or `op`.

    Each line has the `value`, its `weight`, `rows` and `tokens`. The `weight` is the number of evaluated tokens or
    rows, whichever the metric is a mean over. `rows` and `tokens` count distinct rows; if these are not known, which
    `distinct` says, they count all. Raises `ApeError` if there are no such evaluations.
    """
    tables = evaluation_tables(registry, options.split)
    field = METRICS[options.metric].field
    chosen = tables.about.filter(
        pl.col("decode") == options.decode,
        pl.col("split") == options.split,
        pl.col("fingerprint") == pl.col("trained_fingerprint") if options.own else pl.lit(True),
        ~pl.col("test_only") if part == "op" else pl.lit(True),  # of several sizes, as in `scores`
        ~pl.col("of_images"),  # all images have one size
        pl.col(field).is_not_null(),
    )
    values = tables.parts[part].join(chosen.drop(*COUNTS, *FIELDS), on="number", maintain_order="left")
    if values.is_empty():
        what = f"no run was evaluated by {part} like this"
        raise NothingToReportError(what, got=options.choice(registry), fix=_FIX[part])
    drawn = distinct_rows.of_evaluations(registry, tables, chosen.join(values, on="number", how="semi"), options.split)
    weight = pl.col(_WEIGHT.get(options.metric, "tokens")).alias("weight")
    values = values.with_columns(weight, metric=pl.lit(options.metric), value=field).select(*VALUES, part, "weight")
    return Parts(distinct_rows.counted(values, part, drawn), tables.trained, drawn, tables.settings)


def pool(values: pl.DataFrame, column: list[str], names: Sequence[str] = ("trained_on",)) -> pl.DataFrame:
    """Aggregate scores for each `CELL` of each `column`, as a ratio of sums for each run, and then over seeds.

    Besides the columns of `aggregation.over_seeds`, the result has `least` and `most`, the smallest and the largest
    score over seeds, the sum of `weight`, `rows` and `tokens` as this module counts them, whether they count `distinct`
    rows, the interval `OVER_ROWS`, and the columns `names`, which may differ within one line.
    """
    value, weight, score = pl.col("value"), pl.col("weight"), pl.col("score")
    by_run = values.group_by([*column, *CELL, "seed"], maintain_order=True).agg(
        (value * weight).sum() / weight.sum(),
        pl.col("weight", *COUNTS).sum(),
        pl.col("distinct").all(),
        pl.col(*names).min(),
    )
    more = [pl.col(*names).min(), weight.sum(), pl.col(*COUNTS, "distinct").first()]
    more += [score.min().alias("least"), score.max().alias("most")]
    pooled = over_seeds(by_run, column, more)
    shares = pooled.select(pl.col("metric") == "exact_match", "mean", "rows").iter_rows()
    ends = [stats.wilson(mean, rows) if is_share else (None, None) for is_share, mean, rows in shares]
    return pooled.hstack(pl.DataFrame(ends, schema=dict.fromkeys(OVER_ROWS, pl.Float64), orient="row"))


def counts(group: pl.DataFrame, across: str, order: list[Any]) -> tuple[list[tuple[str, list[str]]], str]:
    """The last lines of a table: the numbers of rows and tokens behind the scores of each of its columns; and a note.

    `across` is the field that identifies the columns, and `order` has its values. All rows of a table have the same
    counts.
    """
    counted = {key: group.filter(pl.col(across) == key).row(0, named=True) for key in order}
    split = group["split"][0]
    behind = f"the {split} rows, and their target tokens, behind each score"
    foot = [(f"{split} {what}", [f"{counted[key][what]:,}" for key in order]) for what in COUNTS]
    is_distinct = all(line["distinct"] for line in counted.values())
    repeated = "equal rows count once" if is_distinct else "which rows are equal is not known here, so all count"
    return foot, f"The last two lines count {behind}; all seeds share them, and {repeated}."

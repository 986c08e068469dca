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
(`of_evaluations`), all are counted. The counts of different datasets are added, because views only pool datasets that
share no rows.

`low_over_rows` and `high_over_rows` are the 95% interval over test rows (`stats.wilson`) of an exact match, which is a
share of rows. The other metrics are means over tokens. They have no interval over test rows, because the tokens of one
row are not independent, and evaluations do not store the scores of single rows.

The rows of a split are a function of the task, its order and parameters, the seed, and the number of rows. They are
drawn again, so the dataset need not exist any more. Two rows are equal if their sources are, which are compared by
hashes of 64 bits (`sequence_rows.sources`).

What a dataset was drawn from is known in three cases: if a run of the registry was trained on it, if its evaluation
says so (`runs.record.DrawnFrom`), or if it has test rows only. Earlier evaluations of such datasets do not say it, but
`ape train --generalise` draws them from the parameters and the seed of the training data. The drawn rows are trusted if
each size has as many rows and target tokens as the evaluations recorded. Otherwise the rows are unknown. They also are
if the task is not known here, reads files, or is a user's own that has changed, and if drawing them would take minutes.

Shapes: R rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from ape_cli import tasks
from ape_cli.core import plugins, user_parts
from ape_cli.core.errors import ApeError
from ape_cli.core.vocabulary import PAD
from ape_cli.reports import baselines, published, stats
from ape_cli.reports.descriptions import RowKey, Settings, once, whole
from ape_cli.reports.evaluations import (
    CELL,
    CHANCE,
    COLUMN,
    COUNTS,
    FIELDS,
    IS_SHARE,
    METRICS,
    VALUES,
    EvaluationTables,
    NothingToReportError,
    Options,
    Values,
    columns,
    evaluation_tables,
    scored,
    selected,
    task_of,
    wanted,
)
from ape_cli.reports.layout import KEYS, label, mark
from ape_cli.runs.record import DatasetRecord, settings_text
from ape_cli.runs.registry import Registry
from ape_cli.tasks import BaseTask


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
    return baselines.beside(aggregated, evaluation_tables(registry, options.split).baselines)


OVER_ROWS = ("low_over_rows", "high_over_rows")
_WEIGHT = {"exact_match": "rows"}  # the unit that a metric is a mean over, if it is not tokens
_FIX = {
    "size": "images have one size: choose other runs",
    "op": "`ape train --task tree-ops` trains a run with operators",
}


class Parts(NamedTuple):
    """The evaluations of a metric, part by part."""

    values: pl.DataFrame  # a line for each run, evaluated dataset and part (`read_parts`)
    trained: dict[str, DatasetRecord]  # the description of the training data in run.json, by its fingerprint
    drawn: Rows  # the rows of each evaluated dataset
    settings: dict[RowKey, Settings]


def read_parts(registry: Registry, part: str, options: Options) -> Parts:
    """Read all evaluations of a metric, decoding and split, part by part. `part` is `size` or `op`.

    Each line has the `value`, its `weight`, `rows`, `tokens` and `chance`: the score of the most frequent answer of the
    training data, null unless the evaluation is of `--generalise`. The `weight` is the number of evaluated tokens or
    rows, whichever the metric is a mean over. `rows` and `tokens` count distinct rows; if these are not known, which
    `distinct` says, they count all. `other` has the options, besides sizes, that differ from those of the training
    data. Raises `ApeError` if there are no such evaluations.
    """
    tables = evaluation_tables(registry, options.split)
    field = METRICS[options.metric].field
    chosen = tables.about.filter(
        *wanted(options),
        ~pl.col("test_only") if part == "op" else pl.lit(True),  # of several sizes, as in `scores`
        ~pl.col("of_images"),  # all images have one size
        pl.col(field).is_not_null(),
    )
    values = tables.parts[part].join(chosen.drop(*COUNTS, *FIELDS), on="number", maintain_order="left")
    if values.is_empty():
        selected(registry, options)  # raises an error if there are no scores at all
        what = f"no run was evaluated by {part} like this"
        raise NothingToReportError(what, got=options.choice(registry), fix=_FIX[part])
    drawn = of_evaluations(registry, tables, chosen.join(values, on="number", how="semi"), options.split)
    weight = pl.col(_WEIGHT.get(options.metric, "tokens")).alias("weight")
    has_chance = part == "size" and options.metric in {of.name for of in CHANCE.fields}
    chance = pl.col("chance").struct.field(options.metric) if has_chance else pl.lit(None, pl.Float64)
    values = values.with_columns(weight, metric=pl.lit(options.metric), value=field, chance=chance)
    values = values.select(*VALUES, part, "weight", "chance")
    pairs = values.select("trained_fingerprint", "fingerprint").unique()
    others = pl.Series("other", [_other_options(tables, *pair) for pair in pairs.rows()], pl.String)
    values = values.join(pairs.with_columns(others), on=pairs.columns, maintain_order="left")
    return Parts(counted(values, part, drawn), tables.trained, drawn, tables.settings)


def _other_options(tables: EvaluationTables, trained_fingerprint: str, fingerprint: str) -> str:
    """The options of evaluated data, without those that decide its sizes, that differ from those of the training data.

    Empty if there are none, or if they are not known.
    """
    trained, plans = tables.trained[trained_fingerprint], tables.plans.get((trained_fingerprint, fingerprint))
    if fingerprint in tables.trained:
        parameters = tables.trained[fingerprint].parameters
    else:
        parameters = plans[0]["parameters"] if plans else trained.parameters
    try:
        task = tasks.load(trained.task)
    except ApeError:
        return ""
    sizes, defaults = {"sizes", *task.replaced_by_sizes()}, tasks.options_of(task)
    ours, theirs = (
        {name: task.recorded(of).get(name, defaults[name].default) for name in defaults.keys() - sizes}
        for of in (parameters, trained.parameters)
    )
    return settings_text({name: value for name, value in ours.items() if value != theirs[name]})


def pool(values: pl.DataFrame, column: list[str], names: Sequence[str] = ("trained_on",)) -> pl.DataFrame:
    """Aggregate scores for each `CELL` of each `column`, as a ratio of sums for each run, and then over seeds.

    Besides the columns of `aggregation.over_seeds`, the result has `least` and `most`, the smallest and the largest
    score over seeds, `chance`, which is a ratio of sums too, the sum of `weight`, `rows` and `tokens` as this module
    counts them, whether they count `distinct` rows, the interval `OVER_ROWS`, and the columns `names`, which may differ
    within one line.
    """
    value, weight, score, chance = pl.col("value"), pl.col("weight"), pl.col("score"), pl.col("chance")
    by_run = values.group_by([*column, *CELL, "seed"], maintain_order=True).agg(
        (value * weight).sum() / weight.sum(),
        pl.col("weight", *COUNTS).sum(),
        pl.col("distinct").all(),
        pl.col(*names).min(),
        chance=pl.when(chance.is_not_null().all()).then((chance * weight).sum() / weight.sum()),
    )
    more = [pl.col(*names).min(), weight.sum(), pl.col(*COUNTS, "distinct").first()]
    more += [score.min().alias("least"), score.max().alias("most"), chance.min()]
    pooled = over_seeds(by_run, column, more)
    shares = pooled.select(pl.col("metric") == "exact_match", "mean", "rows").iter_rows()
    ends = [stats.wilson(mean, rows) if is_share else (None, None) for is_share, mean, rows in shares]
    return pooled.hstack(pl.DataFrame(ends, schema=dict.fromkeys(OVER_ROWS, pl.Float64), orient="row"))


def counts(group: pl.DataFrame, across: str, order: list[Any]) -> tuple[list[tuple[str, list[str]]], str]:
    """The last lines of a table: the numbers of rows and tokens behind the scores of each of its columns; and a rule.

    `across` is the field that identifies the columns, and `order` has its values. All rows of a table have the same
    counts.
    """
    counted = {key: group.filter(pl.col(across) == key).row(0, named=True) for key in order}
    split = group["split"][0]
    foot = [(f"{split} {what}", [f"{counted[key][what]:,}" for key in order]) for what in COUNTS]
    is_distinct = all(line["distinct"] for line in counted.values())
    repeated = "equal rows count once" if is_distinct else "which rows are equal is not known here, so all count"
    return foot, f"{split} rows and tokens: those behind each score. All seeds share them, and {repeated}."


Rows = dict[str, pl.DataFrame | None]  # the rows that `draw` returns, by fingerprint; None if they are unknown

_MOST_TOKENS = 20_000_000  # of a split; drawing them takes some seconds, for a few tasks a quarter of a minute
_BLOCK_TOKENS = 400_000  # drawn at a time


class Drawing(NamedTuple):
    """What the rows of a split are drawn from."""

    task: str
    order: str | None
    parameters: str  # JSON
    sizes: tuple[int, ...]  # replace those of the parameters, unless empty
    seed: int
    code: str | None  # SHA-256 of the code of a user's own task; None if it is unknown, or the task is of ape
    split: str
    rows: int


def of_evaluations(registry: Registry, tables: EvaluationTables, chosen: pl.DataFrame, split: str) -> Rows:
    """The rows of all datasets in `chosen`, lines of `tables.about` about one split. They are drawn once a report."""
    about = chosen.select("number", "fingerprint", "trained_fingerprint", "test_only")
    recorded = tables.parts["size"].join(about, on="number").select("fingerprint", "size", *COUNTS).unique()
    of_data = recorded.sort("fingerprint", "size").partition_by("fingerprint", as_dict=True)
    lines = about.drop("number").unique(maintain_order=True).partition_by("fingerprint", as_dict=True)
    datasets: Rows = {}
    for key, counts in of_data.items():
        drawings = _drawings(lines[key], tables, counts, split)
        again = (once(whole(registry), draw, drawing, key=drawing) for drawing in drawings)
        wanted = counts.select("size", *COUNTS)  # drawn rows have to agree with what was recorded
        agree = (rows for rows in again if rows is not None and _counts(rows, "size").equals(wanted))
        datasets[str(key[0])] = next(agree, None)
    return datasets


def _drawings(lines: pl.DataFrame, tables: EvaluationTables, counts: pl.DataFrame, split: str) -> Iterable[Drawing]:
    """What the rows of a split of one dataset may be drawn from, without repetition.

    `lines` are about its evaluations, and `counts` has its rows of each size.
    """
    told, own, usual = list[Any](), list[Any](), list[Any]()
    for fingerprint, trained_fingerprint, test_only in lines.rows():
        trained = tables.trained[trained_fingerprint]
        told += [(trained, plan, ()) for plan in tables.plans.get((trained_fingerprint, fingerprint), [])]
        if data := tables.trained.get(fingerprint):
            own.append((data, vars(data), ()))
        if test_only:
            usual.append((trained, vars(trained), tuple(counts["size"])))
    rows = int(counts["rows"].sum())
    return dict.fromkeys(
        Drawing(run.task, run.order, json.dumps(plan["parameters"]), sizes, plan["seed"], plan.get("code"), split, rows)
        for run, plan, sizes in told or own or usual
    )


def draw(drawing: Drawing) -> pl.DataFrame | None:
    """Draw the rows of a split: the `size`, the `op`, a hash of the `source` and the number of target `tokens` of each.

    None if they cannot be drawn here, or not within some seconds.
    """
    options: dict[str, Any] = {"sizes": drawing.sizes} if drawing.sizes else {}
    try:
        task_class = tasks.load(drawing.task)
        if options.keys() - tasks.options_of(task_class) or plugins.has_changed(task_class, drawing.code):
            return None
        with user_parts.explained(task_class):
            task = replace(tasks.recorded(drawing.task, drawing.order, json.loads(drawing.parameters)), **options)
            cost = max(1, task.mean_tokens + task.mean_target_tokens)
            if drawing.rows * cost > _MOST_TOKENS:
                return None
            step = int(np.clip(_BLOCK_TOKENS / cost, 1, drawing.rows))
            blocks = (range(first, min(drawing.rows, first + step)) for first in range(0, drawing.rows, step))
            parts = (task.sample(rows=block, split=drawing.split, seed=drawing.seed) for block in blocks)
            return pl.concat(_columns(task, part) for part in parts)
    except ApeError:
        return None


def _columns(task: BaseTask, part: pa.Table) -> pl.DataFrame:
    """The columns of `draw`. Tags that are padding are not predicted, and the target of a sequence has an EOS."""
    closes = task.structure == "seq" and not task.tagged
    rows = pl.from_arrow(part.select(["size", "op", "target_ids"]))
    assert isinstance(rows, pl.DataFrame)
    return rows.select(
        pl.col("size").cast(pl.Int64),
        pl.col("op").cast(pl.String),
        pl.Series("source", task.sources(part)),
        tokens=(pl.col("target_ids").list.eval(pl.element() != PAD).list.sum() + int(closes)).cast(pl.Int64),
    )


def counted(values: pl.DataFrame, part: str, drawn: Rows) -> pl.DataFrame:
    """Replace the `rows` and `tokens` of lines of evaluations by those of distinct rows, if these are known.

    `part` is the column that the evaluations are divided by. `distinct` says whether they are known.
    """
    counts = {
        fingerprint: _counts(rows.unique([part, "source"], keep="first", maintain_order=True), part)
        for fingerprint, rows in drawn.items()
        if rows is not None
    }
    values = values.with_columns(distinct=pl.col("fingerprint").is_in(list(counts)))
    if not counts:
        return values
    of_all = pl.concat(of.with_columns(fingerprint=pl.lit(fingerprint)) for fingerprint, of in counts.items())
    return values.update(of_all, on=["fingerprint", part])


def _counts(rows: pl.DataFrame, part: str) -> pl.DataFrame:
    """The numbers of rows and tokens of each part, in ascending order."""
    return rows.group_by(part).agg(pl.len().cast(pl.Int64).alias("rows"), pl.col("tokens").sum()).sort(part)


def without_repetition(lines: Collection[tuple[Any, ...]], size: int, drawn: Rows) -> list[str]:
    """The fingerprints of the datasets that are pooled at a size, so that no row counts twice.

    `lines` describe the datasets that have rows of this size: the number of rows, whether it is the training data, the
    name and the fingerprint. They are taken in this order, the largest and the training data first, if they share no
    row with those before. Unknown rows are taken as shared with any other.
    """
    if len(lines) == 1:
        return [line[-1] for line in lines]
    taken = list[str]()
    sources: pl.Series | None = pl.Series(dtype=pl.UInt64)  # None: unknown
    for _, _, _, fingerprint in sorted(lines, key=lambda line: (-line[0], not line[1], *line[2:])):
        rows = drawn[fingerprint]
        of_size = None if rows is None else rows.filter(size=size)["source"].unique()
        if taken and (sources is None or of_size is None or of_size.is_in(sources.implode()).any()):
            continue
        taken.append(fingerprint)
        sources = None if sources is None or of_size is None else pl.concat([sources, of_size])
    return taken

"""Scores of parts of the evaluated rows, by size or by operator.

The score of a part is a ratio of sums over its rows. Token accuracy and cross-entropy are ratios over target tokens,
and exact match is a ratio over rows. The score of each run is computed first. Then the mean and the deviation over
seeds are computed, as in the other tables.

`rows` and `tokens` count the evaluated data behind a score. All seeds are scored on the same rows, so each row is
counted once for all seeds. The counts of different datasets are added.

`low_over_rows` and `high_over_rows` are the 95% interval over test rows (`stats.wilson`) of an exact match, which is a
share of rows. It is about other test rows, while `low` and `high`, the interval over seeds, are about other seeds. The
other metrics are means over tokens. They have no interval over test rows, because the tokens of one row are not
independent, and evaluations do not store the scores of single rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ape_cli.reports import stats
from ape_cli.reports.aggregation import over_seeds
from ape_cli.reports.columns import CELL
from ape_cli.reports.curves import numbered
from ape_cli.reports.evaluations import check, choice, nothing_to_report
from ape_cli.reports.run_descriptions import described
from ape_cli.runs.record import Trained
from ape_cli.runs.registry import Registry

COUNTS = ("rows", "tokens")
OVER_ROWS = ("low_over_rows", "high_over_rows")
_WEIGHT = {"exact_match": "rows"}  # the unit that a metric is a mean over, if it is not tokens
_KINDS: dict[str, Any] = {"size": pl.Int64, "op": pl.String}  # the types of parts, by their names in `by_…`
_NONE = {  # the error if all evaluations are without such parts
    "size": "images have one size, and no other run was evaluated like this",
    "op": "only runs of a task with operators have scores by operator, and none was evaluated like this",
}
_FIX = {
    "size": "`ape train` evaluates each run; `ape eval --split … --decode …` evaluates more (other sizes: --data)",
    "op": "`ape train --task tree-ops` evaluates each run; `ape eval --split … --decode …` evaluates more",
}


@dataclass(frozen=True)
class Parts:
    """The scores of the parts of all evaluations of one kind.

    `values` has a line for each run, evaluated dataset and part, with `value`, its `weight`, `rows` and `tokens`. The
    `weight` is the number of tokens or rows, whichever the metric is a mean over. `trained` has the description of the
    training data in run.json, by its fingerprint.
    """

    values: pl.DataFrame
    trained: dict[str, Trained]


def read(
    registry: Registry,
    part: str,
    *,
    metric: str,
    decode: str,
    split: str,
    own: bool = False,
    needed: bool = True,
) -> tuple[Parts, list[str]]:
    """Read all evaluations of a metric, decoding and split, part by part.

    `part` is `size` or `op`. With `own`, only evaluations on the data that a run was trained on are read. Also returns
    a line of text about each run that cannot be read. Raises `ApeError` if there are no such evaluations and `needed`
    is True, and `UsageError` for an unknown name.
    """
    check(metric=metric, decode=decode, split=split)
    bad: list[str] = []
    others = False
    runs: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []
    trained: dict[str, Trained] = {}
    weight = _WEIGHT.get(metric, "tokens")
    for run, known, of_run in described(registry, bad):
        if known.dataset.image is not None:  # all images have one size
            others = True
            continue
        evaluations, damaged = run.evaluations()
        bad += [f"{run.name}: {line}" for line in damaged]
        for found in evaluations:
            if (found["decode"], found["split"]) != (decode, split) or metric not in found["overall"]:
                continue
            if own and found["fingerprint"] != of_run["trained_fingerprint"]:
                continue
            of = {"run": len(runs), "dataset": found["dataset"], "fingerprint": found["fingerprint"]}
            parts = found.get(f"by_{part}", [])
            others |= not parts
            counted = (part, *COUNTS)
            lines += [of | {k: x[k] for k in counted} | {"value": x[metric], "weight": x[weight]} for x in parts]
        runs.append(of_run)
        trained[of_run["trained_fingerprint"]] = known.dataset
    if needed and not lines:
        raise nothing_to_report(
            _NONE[part] if others else "no run was evaluated like this",
            bad,
            got=choice(registry, metric=metric, decode=decode, split=split),
            fix=_FIX[part],
        )
    kinds = {"run": pl.UInt32, "dataset": pl.String, "fingerprint": pl.String, part: _KINDS[part]}
    kinds |= dict.fromkeys(COUNTS, pl.Int64) | {"value": pl.Float64, "weight": pl.Int64}
    values = pl.DataFrame(lines, schema=kinds, orient="row").join(numbered(runs), on="run", maintain_order="left")
    values = values.with_columns(metric=pl.lit(metric), decode=pl.lit(decode), split=pl.lit(split))
    return Parts(values, trained), bad


def pool(values: pl.DataFrame, column: list[str], names: Sequence[str] = ("trained_on",)) -> pl.DataFrame:
    """Aggregate scores for each `CELL` of each `column`, as a ratio of sums for each run, and then over seeds.

    Besides the columns of `aggregation.over_seeds`, the result has `least` and `most`, the smallest and the largest
    score over seeds, the sum of `weight`, `rows` and `tokens` as this module counts them, the interval `OVER_ROWS`, and
    the columns `names`, which may differ within one line.
    """
    value, weight = pl.col("value"), pl.col("weight")
    by_run = values.group_by([*column, *CELL, "seed"], maintain_order=True).agg(
        (value * weight).sum() / weight.sum(), pl.col("weight", *COUNTS).sum(), pl.col(*names).last()
    )
    more = [pl.col(*names).last(), weight.sum(), pl.col(*COUNTS).first()]
    more += [value.min().alias("least"), value.max().alias("most")]
    pooled = over_seeds(by_run, column, more)
    shares = pooled.select(pl.col("metric") == "exact_match", "mean", "rows").iter_rows()
    ends = [stats.wilson(mean, rows) if is_share else (None, None) for is_share, mean, rows in shares]
    return pooled.hstack(pl.DataFrame(ends, schema=dict.fromkeys(OVER_ROWS, pl.Float64), orient="row"))


def counts(group: pl.DataFrame, across: str, order: list[Any]) -> list[tuple[str, list[str]]]:
    """The last lines of a table: the numbers of rows and tokens behind the scores of each of its columns.

    `across` is the field that identifies the columns, and `order` has its values. All rows of a table have the same
    counts.
    """
    counted = {key: group.filter(pl.col(across) == key).row(0, named=True) for key in order}
    split = group["split"][0]
    return [(f"{split} {what}", [f"{counted[key][what]:,}" for key in order]) for what in COUNTS]


def counted(group: pl.DataFrame) -> str:
    """A note that explains the last lines of a table."""
    split = group["split"][0]
    return (
        f"The last two lines count the {split} rows, and their target tokens, behind each score; all seeds share them."
    )

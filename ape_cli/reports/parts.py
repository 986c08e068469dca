"""Scores of parts of the evaluated rows, by size or by operator: read from evaluations, pooled, counted.

A score of a part is a ratio of sums over its rows: token accuracy and cross-entropy by target tokens, exact match by
rows. It is taken for each run first. The mean and the deviation over seeds come after, as in the other tables.

`rows` and `tokens` count the evaluated data behind a score. Every seed is scored on the same rows, so seeds do not
multiply them; distinct datasets add up.

`low_over_rows` and `high_over_rows` are the 95% interval over test rows (`stats.wilson`) of an exact match, which is a
share of rows. It is about other test rows; `low` and `high`, the interval over seeds, are about other seeds. The other
metrics are means over tokens. Tokens of one row are not independent and evaluations keep no scores of single rows, so
these metrics have no interval over test rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ape_cli.core.errors import ApeError
from ape_cli.reports import stats
from ape_cli.reports.aggregation import over_seeds
from ape_cli.reports.columns import CELL
from ape_cli.reports.curves import KEYS, numbered
from ape_cli.reports.evaluations import check, choice, described
from ape_cli.runs.registry import Registry

COUNTS = ("rows", "tokens")
OVER_ROWS = ("low_over_rows", "high_over_rows")
_WEIGHT = {"exact_match": "rows"}  # what a metric is a mean over, if not tokens
_KINDS: dict[str, Any] = {"size": pl.Int64, "op": pl.String}  # of parts, by their names in `by_…`
_NONE = {  # what is said where there are only evaluations without such parts
    "size": "images have one size, and no other run was evaluated like this",
    "op": "only runs of a task with operators have scores by operator, and none was evaluated like this",
}
_FIX = {
    "size": "`ape train` evaluates what it trains; `ape eval --split … --decode …`, --data for other sizes",
    "op": "`ape train --task tree-ops` evaluates what it trains; `ape eval --split … --decode …`",
}


@dataclass(frozen=True)
class Parts:
    """`values`: a line for each run, evaluated dataset and part, with `value`, its `weight`, `rows` and `tokens`.

    `weight` is tokens or rows, whichever the metric is a mean over. `trained`: what run.json says of the training data,
    by its fingerprint.
    """

    values: pl.DataFrame
    trained: dict[str, dict[str, Any]]


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
    """All evaluations of this kind, part by part, and a line of text about each run that cannot be read.

    `part`: `size` or `op`. With `own` on the runs' own data alone. Where there are none it is an `ApeError`, if they
    are `needed`.
    """
    check(metric=metric, decode=decode, split=split)
    bad: list[str] = []
    others = False
    runs: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []
    trained: dict[str, dict[str, Any]] = {}
    weight = _WEIGHT.get(metric, "tokens")
    for run, about, of_run in described(registry, bad):
        if about["dataset"].get("image"):  # those of a dataset have one size, and no run can be asked about another
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
        trained[of_run["trained_fingerprint"]] = about["dataset"]
    if needed and not lines:
        raise ApeError(
            _NONE[part] if others else "no run was evaluated like this",
            got=choice(registry, metric=metric, decode=decode, split=split),
            fix=_FIX[part],
        )
    kinds = {"run": pl.UInt32, "dataset": pl.String, "fingerprint": pl.String, part: _KINDS[part]}
    kinds |= dict.fromkeys(COUNTS, pl.Int64) | {"value": pl.Float64, "weight": pl.Int64}
    values = pl.DataFrame(lines, schema=kinds, orient="row").join(numbered(runs), on="run", maintain_order="left")
    values = values.with_columns(metric=pl.lit(metric), decode=pl.lit(decode), split=pl.lit(split))
    # a dataset may have been moved or renamed, and evaluated again: the fingerprint says what it is
    once = values.unique([*KEYS, "seed", "fingerprint", part], keep="last", maintain_order=True)
    return Parts(once, trained), bad


def pool(values: pl.DataFrame, column: list[str], names: Sequence[str] = ("trained_on",)) -> pl.DataFrame:
    """Mean, deviation and number over seeds in each `CELL` of a column, each run a ratio of sums over its lines there.

    Besides, over seeds: `least`, `most`; the sum of `weight`; `rows` and `tokens`, as this module counts them, and the
    interval `OVER_ROWS`; `names`, which may change without changing what a line is.
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
    """The last lines of a table: the rows and the tokens behind the scores of each of its columns.

    `across`: what tells the columns apart, whose values are `order`. All rows of a table share them.
    """
    counted = {key: group.filter(pl.col(across) == key).row(0, named=True) for key in order}
    split = group["split"][0]
    return [(f"{split} {what}", [f"{counted[key][what]:,}" for key in order]) for what in COUNTS]


def counted(group: pl.DataFrame) -> str:
    """What the last lines of a table are."""
    split = group["split"][0]
    return (
        f"The last two lines count the {split} rows, and their target tokens, behind each score; all seeds share them."
    )

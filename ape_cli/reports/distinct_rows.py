"""The distinct rows of evaluated data. Reports count a row once, however often it occurs.

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
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from ape_cli import tasks
from ape_cli.core import plugins, user_parts
from ape_cli.core.errors import ApeError
from ape_cli.core.vocabulary import PAD
from ape_cli.reports.descriptions import once, whole
from ape_cli.reports.evaluations import COUNTS, EvaluationTables
from ape_cli.runs.registry import Registry
from ape_cli.tasks import BaseTask

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
        datasets[str(key[0])] = next((rows for rows in again if rows is not None and _agrees(rows, counts)), None)
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
        kind = tasks.load(drawing.task)
        if options.keys() - tasks.options_of(kind) or drawing.code not in (None, plugins.digest(kind)):
            return None
        with user_parts.explained(kind):
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


def _agrees(rows: pl.DataFrame, recorded: pl.DataFrame) -> bool:
    """Whether drawn rows have the sizes, and at each size the rows and tokens, that were recorded."""
    return _counts(rows, "size").equals(recorded.select("size", *COUNTS))


def counted(values: pl.DataFrame, part: str, known: Rows) -> pl.DataFrame:
    """Replace the `rows` and `tokens` of lines of evaluations by those of distinct rows, if these are known.

    `part` is the column that the evaluations are divided by. `distinct` says whether they are known.
    """
    counts = {
        fingerprint: _counts(rows.unique([part, "source"], keep="first", maintain_order=True), part)
        for fingerprint, rows in known.items()
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


def without_repetition(lines: Collection[tuple[Any, ...]], size: int, known: Rows) -> list[str]:
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
        rows = known[fingerprint]
        of_size = None if rows is None else rows.filter(size=size)["source"].unique()
        if taken and (sources is None or of_size is None or of_size.is_in(sources.implode()).any()):
            continue
        taken.append(fingerprint)
        sources = None if sources is None or of_size is None else pl.concat([sources, of_size])
    return taken

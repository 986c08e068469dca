"""Scores at sizes beyond those of training, as multiples of the largest training size.

Exact match comes first. With teacher forcing the model always reads the right prefix, so token accuracy can be high
at sizes at which no answer is right as a whole. Exact match does not depend on the decoding: a row counts if each token
is right after the right prefix, and then greedy decoding gives the same tokens.

The table has two numbers for each row:

- The mean exact match over unseen sizes, which are those above the largest training size. Each run's score is the plain
  mean of its scores at these sizes, so that each size counts once, whatever its number of rows. Then the mean and the
  deviation over seeds are computed, as in the other tables.
- The largest size with at least `ENOUGH` exact match (mean over seeds), such that all smaller evaluated sizes reach it
  too.

Sizes with fewer than `plots.FEW` test rows are in neither number, nor in the figure, because the tail of a
distribution may have a single row.

The figure has two kinds of intervals (`stats`): a band is the 95% interval over seeds, and a bar that over inputs, for
exact match only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from ape_cli.core.errors import ApeError
from ape_cli.core.numbers import spans
from ape_cli.reports import aggregation, plots, stats
from ape_cli.reports.evaluations import CELL, COUNTS, PLACE, Options, arrange, measured
from ape_cli.reports.layout import DATA, by_column, mark
from ape_cli.reports.plots import FEW, Panel, Plot, split
from ape_cli.reports.tables import Table, table
from ape_cli.reports.views import View, by_size
from ape_cli.reports.views.by_size import Sizes
from ape_cli.runs.registry import Registry
from ape_cli.tasks import size_words

ENOUGH = 0.9  # exact match
_METRICS = ("exact_match", "token_accuracy")  # in the order of the panels
_UP_TO = f"""such that it and all smaller evaluated ones reach {ENOUGH:.0%} exact match (mean over seeds); in brackets \
as a multiple of the largest in training. —: not even the smallest reaches it; all: every evaluated one does."""
_FORCING = "Exact match is the same with teacher forcing and with greedy decoding."


class Generalisation(View[pl.DataFrame]):
    """Shows a line for each row, metric and size, with `row`, `column` and `rank` (`layout.label`).

    `multiple` is the size as a multiple of the largest training size, and `counted` says whether it has enough rows.
    """

    about = "at sizes beyond those of training (`ape train --generalise` evaluates them)"
    rank = 12
    metric = _METRICS[0]
    unused = ("against", "metric", "counts")
    caption = """Scores by size, as a multiple of the largest training size. With teacher forcing, token accuracy is
misleadingly high beyond the training sizes, because the model always reads the right prefix."""

    def read(self, registry: Registry, options: Options) -> pl.DataFrame:
        """Read the evaluations by size, also those on other data. Raises `ApeError` if no size is beyond training."""
        return read_beyond(registry, options, _METRICS)

    def frame(self, result: pl.DataFrame) -> pl.DataFrame:
        """A line for each metric and size. `low` to `high` is the interval over seeds."""
        columns = ["on", "size", "multiple", "seen", "counted"]
        return arrange(result, columns, [*COUNTS, *aggregation.OVER_ROWS])

    def tables(self, result: pl.DataFrame, *, interval: bool = False) -> list[Table]:
        """A table for each column of the other tables and each preset."""
        exact = result.filter(metric=_METRICS[0])
        return [_table(group, interval) for group in by_column(exact)]

    def plot(self, result: pl.DataFrame, options: Options) -> Plot | None:
        """A plot with a panel for each metric and each table."""
        drawn = []
        for metric in _METRICS:
            lines = result.filter("counted", metric=metric).drop("tokens")  # counts above the small sizes would overlap
            ends = {"least": "low", "most": "high"}  # the interval of two seeds is too wide to say anything
            shown = {end: pl.when(pl.col("seeds") > 2).then(of).fill_null(pl.col("mean")) for end, of in ends.items()}
            for title, panel in split(lines.with_columns(x="multiple", **shown)):
                first = panel.row(0, named=True)
                axis = f"{size_words(first['task'], first['structure'])[0]} / largest in training"
                largest, seen = first["largest"], (first["smallest"] / first["largest"], 1.0)
                wide = [(low, high, 0.5 * (low == high)) for low, high in first["areas"]]  # a single size is visible
                areas = [((low - beside) / largest, (high + beside) / largest) for low, high, beside in wide]
                name = measured(metric, [first["task"]])[0]
                drawn.append(Panel(f"{title}, {name}", axis, panel, seen, areas, multiples=True))
        return plots.plot(drawn, _METRICS[0], score="score")


def read_beyond(registry: Registry, options: Options, metrics: Sequence[str]) -> pl.DataFrame:
    """The scores of some metrics at each size, without tables that have no counted size beyond training.

    Raises `ApeError` if there are none, which names the first metric.
    """
    of_metrics = [
        aggregation.read_parts(registry, "size", replace(options, metric=metric, own=False)) for metric in metrics
    ]
    seen: dict[str, by_size.Seen | None] = {}
    drawn: aggregation.Rows = {}
    for parts in of_metrics:
        seen |= by_size.seen_by(registry, parts.values, parts.trained)
        drawn |= parts.drawn
    lines = _beyond(Sizes(pl.concat(parts.values for parts in of_metrics), seen, drawn, of_metrics[0].settings))
    if lines.is_empty():
        raise ApeError(
            f"no run was evaluated on {FEW} test rows of a size beyond its training data",
            got=replace(options, metric=metrics[0]).choice(registry),
            fix="`ape train … --generalise`, also for runs that are finished, evaluates at other sizes",
        )
    return lines


def _beyond(sizes: Sizes) -> pl.DataFrame:
    """The scores of each size, without the tables of `by_size` that have no counted size beyond training."""
    ranges = [(f, seen.smallest, seen.largest, seen.areas, str(seen)) for f, seen in sizes.seen.items() if seen]
    schema: dict[str, Any] = {"trained_fingerprint": pl.String, "smallest": pl.Int64, "largest": pl.Int64}
    schema |= {"areas": pl.List(pl.List(pl.Int64)), "sizes": pl.String}
    limits = pl.DataFrame(ranges, schema=schema, orient="row")
    pooled = by_size.pool(sizes).rename({"first": "size"})
    lines = pooled.join(limits, on="trained_fingerprint", maintain_order="left").with_columns(
        multiple=pl.col("size") / pl.col("largest"), counted=pl.col("rows") >= FEW
    )
    beyond = (pl.col("counted") & (pl.col("size") > pl.col("largest"))).any()
    return lines.filter(beyond.over("structure", "preset", "column"))


def over_unseen(lines: pl.DataFrame) -> pl.DataFrame:
    """The mean over unseen sizes, for each row of each table, with the place of its lines (`layout`).

    The score of a run is the plain mean of its scores at the counted sizes above the largest training size. `unseen`
    lists these sizes, and `chance` is the mean over them, null if it is not known at each. `sizes` names the training
    sizes.
    """
    unseen = lines.filter(pl.col("counted") & (pl.col("size") > pl.col("largest")))
    column = [*DATA, "metric", "decode", "split"]
    chance = pl.when(pl.col("chance").is_not_null().all()).then(pl.col("chance").mean())
    line = [*column, *CELL, "column"]  # a cell may be in several tables
    sizes = unseen.group_by(line).agg(chance, pl.col("sizes").first(), unseen=pl.col("size").unique().sort())
    values = unseen.select(*column, *CELL, *PLACE, *COUNTS, "by_seed").explode("by_seed").unnest("by_seed")
    by_run = values.group_by([*column, *CELL, *PLACE, "seed"], maintain_order=True).agg(
        pl.col("value").mean(), pl.col(*COUNTS).sum()
    )
    means = aggregation.over_seeds(by_run, [*column, *PLACE], [pl.col(*COUNTS).first()])
    means = means.join(sizes, on=line, nulls_equal=True, maintain_order="left")
    return mark(means.sort("rank", maintain_order=True))


def reach(group: pl.DataFrame) -> dict[str, tuple[int | None, bool]]:
    """The largest size with at least `ENOUGH`, by row, and whether it is the largest that was evaluated.

    All smaller evaluated sizes reach it too. None if not even the smallest does. Only counted sizes are looked at.
    """
    reached: dict[str, tuple[int | None, bool]] = {}
    for (row,), lines in group.filter("counted").sort("size").group_by("row", maintain_order=True):
        last: int | None = None
        for size, mean in lines.select("size", "mean").iter_rows():
            if mean < ENOUGH - stats.ROUNDING:
                break
            last = size
        reached[str(row)] = last, last == lines["size"].max()
    return reached


def _table(group: pl.DataFrame, interval: bool) -> Table:
    """The table of one column of the other tables and one preset."""
    first = group.row(0, named=True)
    word = size_words(first["task"], first["structure"])[0]
    reached, largest = reach(group), first["largest"]
    sizes = group.filter(pl.col("counted") & (pl.col("size") > largest))["size"].unique().sort().to_list()
    notes = [f"Training data: {word} {first['sizes']}; unseen: {spans(sizes)}.", *by_size.evaluated(first)]
    rules = [
        "Unseen: the mean over the sizes above those of training, each with the same weight.",
        f"Up to: the largest {word} {_UP_TO}",
        *([f"Sizes with fewer than {FEW} test rows are not counted."] if not group["counted"].all() else []),
        *([_FORCING] if first["decode"] == "teacher" else []),
        *by_size.only_of(group, word),
    ]
    title, names = f"{first['column']} beyond the training {word}", ["unseen", f"up to {word} (at {ENOUGH:.0%})"]
    made = table(
        title, over_unseen(group), "column", [first["column"]], interval, names=names[:1], notes=notes, rules=rules
    )
    up_to = dict.fromkeys((row for row, _ in made.rows), "—")  # for example `50 (5×), all`
    for row, (size, is_largest) in reached.items():
        if size is not None:
            up_to[row] = f"{size} ({size / largest:.3g}×)" + ", all" * is_largest
    return replace(made, columns=names, rows=[(row, [*cells, up_to[row]]) for row, cells in made.rows])

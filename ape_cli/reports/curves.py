"""Learning curves: validation scores over steps, from the history of each finished run, over its seeds.

Panels are the columns of the tables, lines their rows. Scores are fractions, or nats a token or an image. Of images the
test split is scored as well while a run trains: a curve beside the other, that decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ape_cli.reports.columns import CELL, LINES
from ape_cli.reports.evaluations import described
from ape_cli.reports.tables import column_rank, row_rank, with_row_names
from ape_cli.runs.registry import Registry

MEASURED = {"token_accuracy": "token_accuracy", "cross_entropy": "loss"}  # while a run trains: names in its history

# what a line of a plot is: a row of the tables on the data that it was trained on
KEYS = ["task", "order", "preset", "structure", "form", "trained_fingerprint", *CELL]

# of a finished run: what `described` says of it, its run.json, and its validations
History = tuple[dict[str, Any], dict[str, Any], pl.DataFrame]


@dataclass(frozen=True)
class Panel:
    """One set of axes.

    `lines`: task, row, scheme, x, mean, least, most, seeds; rows in the order of the tables, x ascending. `least` and
    `most` are those over seeds. Of learning curves also `test`, a mean; null where not every seed has that.
    Of scores by size also `rows`, the number of test rows that each seed was scored on at this point.
    """

    title: str
    axis: str  # what x is, with its unit
    lines: pl.DataFrame
    seen: tuple[int, int] | None = None  # the smallest and the largest x that training saw


def learning(found: list[History]) -> list[Panel]:
    """The learning curves of runs by their histories."""
    if not found:
        return []
    validation, test = pl.col("validation"), pl.col("test")
    over_seeds = (
        pl.concat(history.with_columns(run=pl.lit(i, pl.UInt32)) for i, (_, _, history) in enumerate(found))
        .join(numbered([of_run for of_run, _, _ in found]), on="run")
        .group_by([*KEYS, "trained_on", "step"], maintain_order=True)
        .agg(
            validation.mean().alias("mean"),
            validation.min().alias("least"),
            validation.max().alias("most"),
            pl.when(test.null_count() == 0).then(test.mean()).alias("test"),
            pl.len().cast(pl.Int64).alias("seeds"),
        )
        .rename({"step": "x"})
    )
    return [Panel(title, "steps", lines) for title, lines in split(label(over_seeds))]


def histories(registry: Registry, metric: str, bad: list[str]) -> Iterator[History]:
    """Each finished run: what `described` says of it, its run.json, and its history, step, validation, test, kept.

    test: null where it was not looked at. kept: whether the weights were the best so far. `bad` gets a line about each
    run without a history.
    """
    for run, about, of_run in described(registry, bad):
        if run.status_in(about) != "finished":
            continue
        try:
            history = run.history()
            validation, test = (f"{split}_{MEASURED[metric]}" for split in ("validation", "test"))
            tested = pl.col(test) if test in history.columns else pl.lit(None)
            scores = {"validation": pl.col(validation).cast(pl.Float64), "test": tested.cast(pl.Float64)}
            kept = pl.col("kept") if "kept" in history.columns else pl.lit(None, pl.Boolean)
            history = history.select("step", **scores, kept=kept).sort("step")
        except (pl.exceptions.PolarsError, OSError):
            bad.append(f"{run.name}: no history.parquet, or a damaged one: it has no learning curve")
        else:
            yield of_run, about, history


def numbered(runs: list[dict[str, Any]]) -> pl.DataFrame:
    """What `described` says of runs, one line each, with its number as `run`."""
    schema = {k: LINES[k] for k in (*KEYS, "trained_on")} | {"seed": pl.Int64}
    lines = [{k: run[k] for k in schema} for run in runs]
    return pl.DataFrame(lines, schema=schema, orient="row").with_row_index("run")


def split(lines: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """Lines with a `label` and x as the panels of a plot: the title and the lines of each.

    A title is the column's name in the tables, with the preset where there are several.
    """
    several = lines["preset"].n_unique() > 1
    panels = []
    for panel in lines.partition_by("structure", "preset", "column", maintain_order=True):
        first = panel.row(0, named=True)
        title = first["column"] + (f", preset {first['preset']}" if several else "")
        panels.append((title, panel.sort("rank", "x")))
    return panels


def label(lines: pl.DataFrame, keys: Sequence[str] = KEYS) -> pl.DataFrame:
    """The lines with the `row` and the `column` that they have in the tables, in the order of those.

    `rank` is a row's place among all. `keys`: what tells cells apart; with `fingerprint` also the evaluated data.
    """
    cells = lines.unique(keys, keep="first", maintain_order=True)
    if "fingerprint" not in keys:
        cells = cells.with_columns(fingerprint="trained_fingerprint", dataset="trained_on")
    cells = with_row_names(cells)
    places = [(x["structure"], x["preset"], column_rank(x), row_rank(x)) for x in cells.iter_rows(named=True)]
    cells = cells[sorted(range(cells.height), key=places.__getitem__)].with_row_index("rank")
    kept = cells.select(*keys, "row", "column", "rank")
    return kept.join(lines, on=keys, nulls_equal=True, maintain_order="left_right")

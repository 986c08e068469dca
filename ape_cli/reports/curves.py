"""Learning curves: validation scores over steps, from the histories of finished runs, aggregated over seeds.

Each column of the tables has a panel, and each row of the tables is a line. Scores are fractions, or nats for each
token or image. For images the test split is scored as well while a run trains. It has a second curve, and it decides
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ape_cli.core.errors import RunError
from ape_cli.reports.columns import CELL, LINES
from ape_cli.reports.run_descriptions import described
from ape_cli.reports.tables import column_rank, row_rank, with_row_names
from ape_cli.runs.record import RunRecord
from ape_cli.runs.registry import Registry

# metrics that are measured while a run trains, and their names in its history
MEASURED = {"token_accuracy": "token_accuracy", "cross_entropy": "loss"}

# these identify a line of a plot: a row of the tables and its training data
KEYS = ["task", "order", "preset", "structure", "form", "trained_fingerprint", *CELL]

# a finished run: its description (`described`), its run.json, and its validations
History = tuple[dict[str, Any], RunRecord, pl.DataFrame]


@dataclass(frozen=True)
class Panel:
    """One set of axes.

    `lines` has the columns task, row, scheme, x, mean, least, most and seeds. Rows are in the order of the tables, and
    x is ascending. `least` and `most` are the smallest and the largest score over seeds. Learning curves also have
    `test`, the mean on the test split, which is null unless every seed has one. Scores by size also have `rows`, the
    number of test rows that each seed was scored on at this point.
    """

    title: str
    axis: str  # the label of the x axis, with its unit
    lines: pl.DataFrame
    seen: tuple[int, int] | None = None  # the smallest and the largest x in the training split


def learning(found: list[History]) -> list[Panel]:
    """The panels of the learning curves of runs."""
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
    """The history of each finished run, with the columns step, validation, test and kept.

    test: null if the test split was not scored. kept: whether the weights were the best so far. A line of text about
    each run without a readable history is appended to `bad`.
    """
    for run, known, of_run in described(registry, bad):
        if run.status_in(known) != "finished":
            continue
        try:
            history = run.history()
            validation, test = (f"{split}_{MEASURED[metric]}" for split in ("validation", "test"))
            tested = pl.col(test) if test in history.columns else pl.lit(None)
            scores = {"validation": pl.col(validation).cast(pl.Float64), "test": tested.cast(pl.Float64)}
            kept = pl.col("kept") if "kept" in history.columns else pl.lit(None, pl.Boolean)
            history = history.select(pl.col("step").cast(pl.Int64), **scores, kept=kept).sort("step")
        except pl.exceptions.PolarsError:
            bad.append(f"{run.name}: history.parquet is missing or damaged, so there is no learning curve")
        except RunError as error:
            bad.append(f"{run.name}: {error.what} ({error.got}), so there is no learning curve")
        else:
            yield of_run, known, history


def numbered(runs: list[dict[str, Any]]) -> pl.DataFrame:
    """The descriptions of runs (`described`) as one line each, numbered by the column `run`."""
    schema = {k: LINES[k] for k in (*KEYS, "trained_on")} | {"seed": pl.Int64}
    lines = [{k: run[k] for k in schema} for run in runs]
    return pl.DataFrame(lines, schema=schema, orient="row").with_row_index("run")


def split(lines: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """Split lines from `label`, with x, into the panels of a plot. Returns the title and the lines of each panel.

    A title is the name of the column in the tables, and of the preset if there are several.
    """
    several = lines["preset"].n_unique() > 1
    panels = []
    for panel in lines.partition_by("structure", "preset", "column", maintain_order=True):
        first = panel.row(0, named=True)
        title = first["column"] + (f", preset {first['preset']}" if several else "")
        panels.append((title, panel.sort("rank", "x")))
    return panels


def label(lines: pl.DataFrame, keys: Sequence[str] = KEYS) -> pl.DataFrame:
    """Add the `row` and the `column` that each line has in the tables, and sort the lines in the order of the tables.

    `rank` is the position of a cell among all cells. `keys` are the columns that identify a cell. If `fingerprint` is
    one of them, the evaluated data identify it too.
    """
    cells = lines.unique(keys, keep="first", maintain_order=True)
    if "fingerprint" not in keys:
        cells = cells.with_columns(fingerprint="trained_fingerprint", dataset="trained_on")
    cells = with_row_names(cells)
    places = [(x["structure"], x["preset"], column_rank(x), row_rank(x)) for x in cells.iter_rows(named=True)]
    cells = cells[sorted(range(cells.height), key=places.__getitem__)].with_row_index("rank")
    kept = cells.select(*keys, "row", "column", "rank")
    return kept.join(lines, on=keys, nulls_equal=True, maintain_order="left_right")

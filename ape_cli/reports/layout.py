"""The layout of tables: the table, the row and the column of each line of a report, and which scores are marked.

Everything that is said about a table is decided for the lines that it shows. `label` gives each line its place, and
`mark` then compares the lines of one column.

As in the preprint, every mean is underlined (`best`) that is at most one standard deviation worse than the best mean of
its column. The best mean is that of all rows, whatever their numbers of seeds, and the deviation is that of its row. Of
several rows with the best mean, the largest deviation counts. A row with one seed has no deviation. If it is the best,
only the rows that equal it are underlined. Nothing is underlined in a column (`untuned`) in which a scheme has several
settings of training (`runs.config.TRAINING`), because the best of them would be chosen on the scores that it shows. Nor
is a single score of a column, because there is nothing to compare it with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import polars as pl

from ape_cli.reports import choices, stats
from ape_cli.reports.builtin import SCHEMES, TASKS, is_image, rank
from ape_cli.reports.descriptions import joined, read_settings
from ape_cli.reports.evaluations import CELL, IS_SHARE, task_of
from ape_cli.structure.linearisation import NAMES

TABLE = ["is_image", "structure", "preset"]  # these identify a table of scores
_DATA = ["task", "order", "trained_fingerprint", "fingerprint"]  # these identify a column of a table
_COLUMN = [*TABLE, "column"]
PLACE = ["is_image", "row", "column", "shared", "of_preset", "rank"]  # what `label` adds

# these identify a line of a plot: a row of the tables and its training data
KEYS = ["task", "order", "preset", "structure", "form", "trained_fingerprint", *CELL]


def label(lines: pl.DataFrame, keys: Sequence[str] = KEYS, table: Sequence[str] = TABLE) -> pl.DataFrame:
    """Add the place of each line, and sort the lines in the order of the tables.

    `is_image` is whether its task has images. `row` and `column` are their names, and `rank` is the position of a cell
    among all cells. `shared` has the settings that all rows of the table share (`choices.row_names`), and `of_preset`
    the preset for the title of a table, which is empty if all lines have one.

    `keys` are the columns that identify a cell. If `fingerprint` is one of them, the evaluated data identify it too.
    `table` are the columns that identify a table, in which names are unique.
    """
    several = lines["preset"].n_unique() > 1
    cells = lines.unique(keys, keep="first", maintain_order=True)
    if "fingerprint" not in keys:
        cells = cells.with_columns(fingerprint="trained_fingerprint", dataset="trained_on")
    cells = cells.with_columns(
        is_image=pl.col("task").map_elements(is_image, pl.Boolean),
        of_preset=pl.format(", preset {}", "preset") if several else pl.lit(""),
    )
    cells = pl.concat([_named(group) for group in cells.partition_by(*table, maintain_order=True)])
    places = [(*(x[k] for k in TABLE), column_rank(x), row_rank(x)) for x in cells.iter_rows(named=True)]
    cells = cells[sorted(range(cells.height), key=places.__getitem__)].with_row_index("rank")
    kept = cells.select(*keys, *PLACE)
    return kept.join(lines, on=keys, nulls_equal=True, maintain_order="left_right")


def by_column(lines: pl.DataFrame) -> list[pl.DataFrame]:
    """The lines from `label` of each column of the tables."""
    return lines.partition_by(_COLUMN, maintain_order=True)


def mark(lines: pl.DataFrame, across: Sequence[str] = (), measures: Sequence[str] = ()) -> pl.DataFrame:
    """Add `untuned` and `best` to the lines from `label`, as this module describes them.

    Without `across`, the columns that are shown are those of the tables of scores. Otherwise, such a column has a table
    of its own, or one for each value of `measures`, and `across` identifies the columns of this table; `untuned` is
    then decided for the table.
    """
    table = [*_COLUMN, *measures]
    settings = {text: read_settings(text) for text in lines["settings"].unique()}
    texts, shown = pl.col("settings").cast(pl.String), [*table, "metric", *across]
    method, training = (
        texts.replace_strict({text: joined(getattr(of, name)) for text, of in settings.items()}, return_dtype=pl.String)
        for name in ("method", "training")
    )
    score = pl.when(IS_SHARE).then("mean").otherwise(-pl.col("mean"))
    ranked = lines.with_columns(method=method, training=training, score=score)
    several = pl.col("training").n_unique().over(*table, "scheme", "method") > 1
    ranked = ranked.with_columns(top=pl.col("score").max().over(shown), several=several)
    tied = pl.col("score") >= pl.col("top") - stats.ROUNDING
    ranked = ranked.with_columns(slack=pl.when(tied).then(pl.col("std").fill_null(0.0)))
    limit = pl.col("top") - pl.col("slack").max().over(shown) - stats.ROUNDING
    near = (pl.col("score") >= limit) & (pl.len().over(shown) > 1)
    ranked = ranked.with_columns(untuned=pl.col("several").any().over(table), near=near)
    return lines.hstack(ranked.select("untuned", best=pl.col("near") & ~pl.col("untuned")))


def row_rank(line: dict[str, Any]) -> tuple[int, str]:
    """The sort key of a row among the rows of its table. `line`: one of its lines, with names."""
    return rank(line["scheme"], SCHEMES), line["row"]


def column_rank(line: dict[str, Any]) -> tuple[int, int, str]:
    """The sort key of a column among the columns of its table. `line`: one of its lines, with names."""
    place = len(TASKS) if line["form"] else rank(line["task"], TASKS)  # other forms of a task come last
    of_order = NAMES.index(line["order"]) if line["order"] in NAMES else 0
    return place, of_order, line["column"]


def _named(cells: pl.DataFrame) -> pl.DataFrame:
    """Add `row`, `column` and `shared` to the cells of one table."""
    columns, (rows, shared) = _column_names(cells), choices.row_names(cells)
    places = [
        (rows[cell["scheme"], cell["settings"]], columns[tuple(cell[k] for k in _DATA)])
        for cell in cells.iter_rows(named=True)
    ]
    several = Counter(places)  # if a preset or a scheme has changed, two configurations share a name
    names = [
        (f"{row} #{configuration}" if several[row, column] > 1 else row, column)
        for (row, column), configuration in zip(places, cells["configuration"], strict=True)
    ]
    return cells.hstack(pl.DataFrame(names, ["row", "column"], orient="row")).with_columns(shared=pl.lit(shared))


def _column_names(cells: pl.DataFrame) -> dict[tuple[Any, ...], str]:
    """A name for each column. It includes the dataset only if the task alone does not identify the column."""
    columns = cells.group_by(_DATA, maintain_order=True).agg(pl.col("form", "dataset").min())
    trained = cells.group_by("task", "order", "form", "trained_fingerprint").agg(pl.col("trained_on").min())
    several = Counter(trained.select("task", "order", "form").rows())
    called = dict(trained.select("trained_fingerprint", "trained_on").rows())
    names: dict[tuple[Any, ...], str] = {}
    for line in columns.iter_rows(named=True):
        name = task_of(line)
        if several[line["task"], line["order"], line["form"]] > 1:
            name += f" [{called[line['trained_fingerprint']]}]"
        if line["fingerprint"] != line["trained_fingerprint"]:
            name += f" on {line['dataset']}"
        names[tuple(line[k] for k in _DATA)] = name
    alike = Counter(names.values())
    return {data: f"{name} {data[-1][:6]}" if alike[name] > 1 else name for data, name in names.items()}

"""The layout of tables: the table, the row and the column of each line of a report, and which scores are marked.

Everything that is said about a table is decided for the lines that it shows. `label` gives each line its place, and
`mark` then compares the lines of one column.

A row is named by its scheme and by the settings in which it differs from its preset. What all rows of a table share is
left out, and the caption has it. If a row of a scheme sets a setting of training
(`runs.config.TRAINING`), the other rows of the scheme name their own value of it, which is the preset's:
`rope (lr_peak=0.001)`.

As in the preprint, every mean is underlined (`best`) that is at most one standard deviation worse than the best mean of
its column. The best mean is that of all rows, whatever their numbers of seeds, and the deviation is that of its row. Of
several rows with the best mean, the largest deviation counts. A row with one seed has no deviation. If it is the best,
only the rows that equal it are underlined. Nothing is underlined in a column (`untuned`) in which a scheme has several
settings of training, because the best of them would be chosen on the scores that it shows. Nor is a single score of a
column, because there is nothing to compare it with, nor any score of a column of zeros (`ZERO`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from ape_cli.core.errors import UsageError, pick
from ape_cli.reports import stats
from ape_cli.reports.descriptions import CODE, RowKey, Settings, is_image, joined
from ape_cli.reports.evaluations import CELL, COLUMN, COLUMNS, IS_SHARE, task_of
from ape_cli.structure.linearisation import NAMES

SCHEMES = (  # in the order of the preprint's tables, then the others
    *("none", "sinusoidal", "learned", "relative", "tree", "rope"),
    *("orthogonal-seq", "orthogonal-tree", "orthogonal-grid"),
    *("alibi", "matrix-power", "orthogonal", "t5", "transformer-xl"),
)
TASKS = ("copy", "reverse", "repeat", "tree-copy", "tree-rotate", "c3", "tree-ops")  # those of the preprint's tables

TABLE = ["is_image", "structure", "preset"]  # these identify a table of scores
_DATA = ["task", "order", "trained_fingerprint", "fingerprint"]  # these identify a column of a table
ZERO = 0.0005  # a smaller share is 0.0%
_PLACED = ["is_image", "row", "column", "shared", "of_preset", "rank"]
_TOLD = ["method", "training", "tried", "tuning_seeds", "is_default", "setting", "trials", "moved"]

# these identify a row of the tables and its training data: a line of a plot
DATA = [name for name in COLUMN if name not in ("decode", "split", "metric", "fingerprint")]
KEYS = [*DATA, *CELL]


def label(
    lines: pl.DataFrame,
    settings: Mapping[RowKey, Settings],
    keys: Sequence[str] = KEYS,
    table: Sequence[str] = TABLE,
) -> pl.DataFrame:
    """Add the columns for `layout` and `choice` (`evaluations.COLUMNS`), and sort the lines in the order of the tables.

    `settings` are those of the lines. `keys` are the columns that identify a cell. If `fingerprint` is one of them, the
    evaluated data identify it too. `table` are the columns that identify a table, in which names are unique.
    """
    several = lines["preset"].n_unique() > 1
    cells = lines.unique(keys, keep="first", maintain_order=True)
    if "fingerprint" not in keys:
        cells = cells.with_columns(fingerprint="trained_fingerprint", dataset="trained_on")
    cells = cells.with_columns(
        is_image=pl.col("task").map_elements(is_image, pl.Boolean),
        of_preset=pl.format(", preset {}", "preset") if several else pl.lit(""),
    )
    cells = pl.concat([_named(group, settings) for group in cells.partition_by(*table, maintain_order=True)])
    sort_keys = [(*(x[k] for k in TABLE), column_rank(x), row_rank(x)) for x in cells.iter_rows(named=True)]
    cells = cells[sorted(range(cells.height), key=sort_keys.__getitem__)].with_row_index("rank")
    placed = cells.select(*keys, *_PLACED).join(lines, on=keys, nulls_equal=True, maintain_order="left_right")
    return placed.join(_told(placed, settings), on=["configuration", "variant", "split"], maintain_order="left")


def _told(lines: pl.DataFrame, settings: Mapping[RowKey, Settings]) -> pl.DataFrame:
    """The columns of `_TOLD` for each configuration, variant and split of some lines."""
    rows = []
    for configuration, variant, split in lines.select("configuration", "variant", "split").unique().rows():
        row = settings[configuration, variant]
        told: tuple[Any, ...] = (None,) * 6
        if choice := row.choice:
            tried = "; ".join(choice.tried)
            told = tried, choice.seeds, choice.is_default, choice.setting, choice.trials, dict(choice.moved).get(split)
        rows.append((configuration, variant, split, joined(row.method), joined(row.training), *told))
    names = ("configuration", "variant", "split", *_TOLD)
    return pl.DataFrame(rows, {name: COLUMNS[name][0] for name in names}, orient="row")


def by_column(lines: pl.DataFrame) -> list[pl.DataFrame]:
    """The lines from `label` of each column of the tables."""
    return lines.partition_by([*TABLE, "column"], maintain_order=True)


def mark(lines: pl.DataFrame, across: Sequence[str] = (), measures: Sequence[str] = ()) -> pl.DataFrame:
    """Add `untuned` and `best` to the lines from `label`, as this module describes them.

    Without `across`, the columns that are shown are those of the tables of scores. Otherwise, such a column has a table
    of its own, or one for each value of `measures`, and `across` identifies the columns of this table; `untuned` is
    then decided for the table.
    """
    table = [*TABLE, "column", *measures]
    shown = [*table, "metric", *across]
    score = pl.when(IS_SHARE).then("mean").otherwise(-pl.col("mean"))
    ranked = lines.with_columns(score=score)
    several = pl.col("training").n_unique().over(*table, "scheme", "method") > 1
    ranked = ranked.with_columns(top=pl.col("score").max().over(shown), several=several)
    tied = pl.col("score") >= pl.col("top") - stats.ROUNDING
    ranked = ranked.with_columns(slack=pl.when(tied).then(pl.col("std").fill_null(0.0)))
    limit = pl.col("top") - pl.col("slack").max().over(shown) - stats.ROUNDING
    near = (pl.col("score") >= limit) & (pl.len().over(shown) > 1) & ~(IS_SHARE & (pl.col("top") < ZERO))
    ranked = ranked.with_columns(untuned=pl.col("several").any().over(table), near=near)
    return lines.hstack(ranked.select("untuned", best=pl.col("near") & ~pl.col("untuned")))


def rank(name: str, order: tuple[str, ...]) -> int:
    """The place of a scheme or a task in an order; after all others if it is not in it."""
    return order.index(name) if name in order else len(order)


def row_rank(line: dict[str, Any]) -> tuple[int, str]:
    """The sort key of a row among the rows of its table. `line`: one of its lines, with names."""
    return rank(line["scheme"], SCHEMES), line["row"]


def column_rank(line: dict[str, Any]) -> tuple[int, int, str]:
    """The sort key of a column among the columns of its table. `line`: one of its lines, with names."""
    of_task = len(TASKS) if line["form"] else rank(line["task"], TASKS)  # other forms of a task come last
    of_order = NAMES.index(line["order"]) if line["order"] in NAMES else 0
    return of_task, of_order, line["column"]


def _named(cells: pl.DataFrame, settings: Mapping[RowKey, Settings]) -> pl.DataFrame:
    """Add `row`, `column` and `shared` to the cells of one table."""
    columns, (rows, shared) = _column_names(cells), row_names(cells, settings)
    keys = cells.select("configuration", "variant").rows()
    pairs = [
        (rows[cell["scheme"], settings[key]], columns[tuple(cell[k] for k in _DATA)])
        for cell, key in zip(cells.iter_rows(named=True), keys, strict=True)
    ]
    several = Counter(pairs)  # if a preset or a scheme has changed, two configurations share a name
    names = [
        (f"{row} #{configuration}" if several[row, column] > 1 else row, column)
        for (row, column), (configuration, _) in zip(pairs, keys, strict=True)
    ]
    return cells.hstack(pl.DataFrame(names, ["row", "column"], orient="row")).with_columns(shared=pl.lit(shared))


def row_names(lines: pl.DataFrame, settings: Mapping[RowKey, Settings]) -> tuple[dict[tuple[str, Settings], str], str]:
    """The name of each row of a table, by its scheme and settings, and the settings that all rows share as text."""
    keys = lines.select("scheme", "configuration", "variant").unique(maintain_order=True).rows()
    rows = list(dict.fromkeys((scheme, settings[configuration, variant]) for scheme, configuration, variant in keys))
    shared = set.intersection(*(set(row.variant) for _, row in rows))
    shared = {item for item in shared if item[0] != CODE}
    names = {}
    for scheme, row in rows:
        own = set(row.variant) - shared
        of_others = {key for other, other_row in rows if other == scheme for key, _ in set(other_row.variant) - shared}
        items = {key: text for key, text in row.training if key in of_others} | dict(own)
        names[scheme, row] = f"{scheme} ({joined(items.items())})" if items else scheme
    return names, joined(shared)


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


def two_rows(a: str, b: str, lines: pl.DataFrame) -> dict[tuple[Any, ...], str]:
    """The rows that a user calls `a` and `b`, of the lines from `layout.label`: the side of each table and row.

    A row may be named as its table names it, with all of its settings, or by its scheme alone if no other row of its
    table has this scheme. If both names are of one row in a table, the row is of the name that has its settings.
    Raises `UsageError` if a row is unknown, or if both are the same everywhere.
    """
    sides: dict[tuple[Any, ...], str] = {}
    called = set[str]()
    for table, group in lines.partition_by(TABLE, as_dict=True).items():
        rows = group.select("row", "scheme", "variant").unique().sort("row").rows()
        schemes = Counter(scheme for _, scheme, _ in rows)
        exact: dict[str, tuple[int, str]] = {}  # how exactly a name is that of a row, and the row
        for name in (a, b):
            names = [
                (2 if name == f"{scheme} ({variant})" else 1 if name == row else 0, row)
                for row, scheme, variant in rows
                if name in (f"{scheme} ({variant})", row) or (name == scheme and schemes[scheme] == 1)
            ]
            if names:
                exact[name] = max(names)
        called |= exact.keys()
        if len(exact) == 2 and exact[a][1] == exact[b][1]:
            lower = min(level for level, _ in exact.values())
            exact = {name: of for name, of in exact.items() if of[0] > lower}
        sides |= {(*table, row): "a" if name == a else "b" for name, (_, row) in exact.items()}
    for name in (a, b):
        if name not in called:
            pick("row of the tables", name, lines["row"].unique())
    if set(sides.values()) != {"a", "b"}:
        raise UsageError("a row compared with itself", got=f"{a} and {b}", allowed="two different rows of the tables")
    return sides

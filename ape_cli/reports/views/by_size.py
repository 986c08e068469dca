"""Scores by the size of the source. They show how a scheme does on longer words and deeper trees than in training.

The score of a run is computed over all datasets of a table. It is a ratio of sums over the rows of a size (token
accuracy and cross-entropy over tokens, exact match over rows), not a mean of the datasets' means. Then the mean and the
deviation over seeds are computed, as in the other tables. All scores of a table use the same test rows. A dataset that
only some of the runs were evaluated on has its own table. So has a dataset whose options differ from those of the
training data in more than sizes. No row counts twice: of datasets that share rows of a size, one is pooled
(`aggregation`).

Sizes count as seen in training if they are listed, or from the smallest to the largest size in the training split.
The rows of this split are a function of the task, its parameters and the seed. They are drawn again, so the dataset
need not exist any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import polars as pl

from ape_cli import tasks
from ape_cli.core import plugins
from ape_cli.core.errors import ApeError
from ape_cli.core.numbers import span, spans, without_gaps
from ape_cli.reports import aggregation, plots
from ape_cli.reports.descriptions import RowKey, Settings, once, whole
from ape_cli.reports.evaluations import CELL, COUNTS, arrange
from ape_cli.reports.layout import DATA, by_column, label, mark
from ape_cli.reports.plots import Panel, Plot, split
from ape_cli.reports.tables import Table, table
from ape_cli.reports.views import Options, View
from ape_cli.runs.record import DatasetRecord
from ape_cli.runs.registry import Registry

Range = tuple[int, int]  # sizes, both ends included


class Seen(NamedTuple):
    """The sizes in a training split: the smallest, the largest, and all of them if the task lists them."""

    smallest: int
    largest: int
    listed: tuple[int, ...] = ()

    def has(self, size: int) -> bool:
        """Whether the training split has a size. Between the ends, it has all sizes, or those that are listed."""
        return size in self.listed if self.listed else self.smallest <= size <= self.largest

    @property
    def areas(self) -> list[Range]:
        """The ranges of sizes, without gaps."""
        return without_gaps(self.listed) if self.listed else [(self.smallest, self.largest)]

    def __str__(self) -> str:
        """The sizes as text, for example `1–20, 30`."""
        return spans(self.listed) if self.listed else span(self.smallest, self.largest)


_COLUMNS, _POINTS = 10, 16  # the largest numbers of bins in a table and in a line of a plot
_BLOCK = 8192  # rows that are drawn at a time
_MOST_DRAWN = 5_000_000  # rows; drawing them takes seconds


@dataclass(frozen=True)
class Sizes:
    """The scores by size, and the sizes in the training data.

    `values` are those of `aggregation.read_parts`, by `size`. `seen` has the sizes in training data, by its
    fingerprint. It is None if the task is not known here. `drawn` has the rows of the evaluated datasets, and
    `settings` those of the runs.
    """

    values: pl.DataFrame
    seen: dict[str, Seen | None]
    drawn: aggregation.Rows
    settings: Mapping[RowKey, Settings]

    @cached_property
    def apart(self) -> pl.DataFrame:
        """The values of each table (`apart`)."""
        return apart(self.values, self.drawn)


class BySize(View[Sizes]):
    """Shows the evaluations by size. Its tables and plots pool sizes in bins."""

    about = "by length or depth, over all evaluated datasets"
    by = "size"
    rank = 10
    unused = ("against",)
    caption = "Scores by the size of the source. All lines in a panel use the same test rows."

    def read(self, registry: Registry, options: Options) -> Sizes:
        """Read the evaluations by size, also those on other data, because `options.own` has no effect.

        Raises `ApeError` if there are none.
        """
        parts = aggregation.read_parts(registry, "size", replace(options, own=False))
        return Sizes(parts.values, seen_by(registry, parts.values, parts.trained), parts.drawn, parts.settings)

    def frame(self, result: Sizes) -> pl.DataFrame:
        """A line for each size. `on` has the names of the datasets of its table.

        `weight` is the number of evaluated tokens over all seeds, or of rows for exact match. Equal rows count each.
        """
        pooled = pool(result).rename({"first": "size"})
        return arrange(pooled, ["on", "size", "seen"], ["weight", *COUNTS, *aggregation.OVER_ROWS])

    def tables(self, result: Sizes, *, interval: bool = False) -> list[Table]:
        """A table for each column of the other tables and each preset, with sizes as columns."""
        return [_table(group, result, interval) for group in by_column(pool(result, _COLUMNS))]

    def plot(self, result: Sizes, options: Options) -> Plot | None:
        """A plot with a panel for each table that has several sizes, or None without one."""
        drawn = panels(result)
        if not options.counts:
            drawn = [replace(panel, lines=panel.lines.drop("tokens")) for panel in drawn]
        return plots.plot(drawn, options.metric)


def panels(sizes: Sizes) -> list[Panel]:
    """The panels of a plot. x is the middle of a bin. Tables with a single size have no panel."""
    pooled = pool(sizes, _POINTS).with_columns(x=(pl.col("first") + pl.col("last")) / 2)
    drawn_panels = []
    for title, drawn in split(pooled):
        if drawn["x"].n_unique() == 1:
            continue
        first = drawn.row(0, named=True)
        axis = tasks.size_words(first["task"], first["structure"])[1]
        trained = sizes.seen[first["trained_fingerprint"]]
        drawn_panels.append(Panel(title, axis, drawn, trained and trained[:2], trained.areas if trained else ()))
    return drawn_panels


def seen_by(registry: Registry, values: pl.DataFrame, trained: Mapping[str, DatasetRecord]) -> dict[str, Seen | None]:
    """The sizes in the training data of `values`, by its fingerprint. `trained` describes all training data."""
    fingerprints = values["trained_fingerprint"].unique(maintain_order=True)
    return {f: once(whole(registry), seen, trained[f], key=f) for f in fingerprints}


def seen(trained: DatasetRecord) -> Seen | None:
    """The sizes in a training split.

    Unless they are listed, the rows are drawn again. None if that takes too long, or if the task is not known here, is
    a user's own that has changed, or lacks a file that it reads.
    """
    rows, listed = trained.rows["train"], trained.parameters.get("sizes")
    if listed and not trained.parameters.get("binarise"):
        return Seen(min(listed), max(listed), tuple(sorted(listed)))
    if not 0 < rows <= _MOST_DRAWN:
        return None
    try:
        if plugins.has_changed(tasks.load(trained.task), trained.code):
            return None
        task = tasks.recorded(trained.task, trained.order, trained.parameters)
        blocks = (range(first, min(rows, first + _BLOCK)) for first in range(0, rows, _BLOCK))
        drawn = [task.row_sizes(rows=block, split="train", seed=trained.seed) for block in blocks]
    except ApeError:
        return None
    return Seen(min(int(x.min()) for x in drawn), max(int(x.max()) for x in drawn))


def bins(sizes: list[int], trained: Seen | None, maximum: int) -> dict[int, Range]:
    """The bin of each size. Bins are 1, 2, 5, 10, 20 … sizes wide: the smallest that give at most `maximum` bins.

    A bin is given by the smallest and the largest size in it. It never mixes sizes in training with others.

    >>> bins([3, 4, 8, 11, 12, 30], Seen(4, 11), maximum=5)
    {3: (3, 3), 4: (4, 8), 8: (4, 8), 11: (11, 11), 12: (12, 12), 30: (30, 30)}
    """
    trained = trained or Seen(min(sizes), max(sizes))
    step = 1
    while True:
        for width in (step, 2 * step, 5 * step):
            members: list[tuple[tuple[Any, ...], list[int]]] = []
            for size in sorted(sizes):
                key = size < trained.smallest, size > trained.largest, trained.has(size), size // width
                if not members or members[-1][0] != key:
                    members.append((key, []))
                members[-1][1].append(size)
            if len(members) <= maximum or width > max(sizes):  # sizes in training may alternate with others
                return {size: (group[0], group[-1]) for _, group in members for size in group}
        step *= 10


def pool(sizes: Sizes, maximum: int | None = None) -> pl.DataFrame:
    """Aggregate the scores of each row of the tables and each bin over seeds (`aggregation.pool`).

    A table has at most `maximum` bins. If that is None, each size has its own bin. A bin reaches from `first` to
    `last`. `seen` is whether the training split has its sizes, null if that is not known. `on` has the names of the
    evaluated datasets (`apart`). If a column of the other tables has several tables here, `column` includes `on`.
    """
    values = sizes.apart
    ends = list[tuple[Any, ...]]()
    present = values.group_by("place").agg(pl.col("trained_fingerprint").first(), pl.col("size").unique())
    for index, fingerprint, of_place in present.iter_rows():
        trained = sizes.seen[fingerprint]
        of_bins = bins(of_place, trained, maximum or len(of_place)).items()
        ends += [(index, size, *bin, trained and trained.has(size)) for size, bin in of_bins]
    schema = {name: values.schema[name] for name in ("place", "size")}
    schema |= {"first": schema["size"], "last": schema["size"], "seen": pl.Boolean()}
    binned = values.join(pl.DataFrame(ends, schema, orient="row"), on=["place", "size"], maintain_order="left")
    shared = [*DATA, "decode", "split", "table", "on", "only", "evaluated", "runs", "seen", "last", "trained_on"]
    pooled = label(aggregation.pool(binned, ["place", "metric", "first"], shared), sizes.settings)
    alike = ["structure", "preset", "column"]
    several = pl.col("table").n_unique().over(alike) > 1
    pooled = pooled.sort(pl.col("rank").min().over(alike), "table", "rank", "first", maintain_order=True)
    column = pl.when(several).then(pl.format("{} on {}", "column", "on")).otherwise("column")
    return mark(pooled.with_columns(column=column), ["first"])


def apart(values: pl.DataFrame, drawn: aggregation.Rows) -> pl.DataFrame:
    """Assign the lines of each column to tables, so that all scores of a table use the same test rows, each once.

    Datasets that the same runs were evaluated on are pooled in one table. A dataset that other runs were evaluated on,
    or that was drawn with other options (`other`), is in another table. `table` is the number of the table in its
    column; the training data is in the first one. `on` has the names of its datasets, and `evaluated` is how many of
    the `runs` of the column were evaluated on them. A table has the same `place` in all of its lines, which no other
    table has. Lines of datasets that would repeat rows at a size are left out; `only` has the names of the others
    there, and is null if none is left out.
    """
    values = _named_once(values)
    assigned = list[tuple[Any, ...]]()
    evaluations = values.unique([*DATA, *CELL, "seed", "fingerprint"], keep="last", maintain_order=True)
    for column, part in evaluations.partition_by(DATA, maintain_order=True, as_dict=True).items():
        runs = part.with_columns(id=pl.struct(*CELL, "seed").rank("dense"))
        total = runs["id"].n_unique()
        of_data = runs.group_by("fingerprint", maintain_order=True).agg("id", pl.col("dataset", "other").last())
        sets: dict[tuple[frozenset[int], str], dict[str, str]] = {}
        for fingerprint, evaluated, name, other in of_data.iter_rows():
            sets.setdefault((frozenset(evaluated), other), {})[fingerprint] = name
        own = part["trained_fingerprint"][0]
        tables = [
            (own not in names, ", ".join(sorted(names.values())), len(of), names) for (of, _), names in sets.items()
        ]
        tables.sort(key=lambda table: table[:2])
        for number, (_, on, count, names) in enumerate(tables):
            index = len(assigned)
            assigned += [(*column, fingerprint, index, number, on, count, total) for fingerprint in names]
    keys = [*DATA, "fingerprint"]
    schema = {name: values.schema[name] for name in keys} | dict.fromkeys(("place", "table"), pl.Int64())
    schema |= {"on": pl.String(), "evaluated": pl.Int64(), "runs": pl.Int64()}
    indices = pl.DataFrame(assigned, schema, orient="row")
    placed = values.join(indices, on=keys, nulls_equal=True, maintain_order="left")
    return placed.join(_pooled(placed, drawn), on=["place", "size", "fingerprint"], maintain_order="left")


def _named_once(values: pl.DataFrame) -> pl.DataFrame:
    """The lines with one name for each dataset, whatever its copies are called.

    Datasets of a column with the same name are told apart by the first digits of their fingerprints.
    """
    data = {"fingerprint": "dataset", "trained_fingerprint": "trained_on"}
    copies = pl.concat(values.select(fingerprint=key, name=name) for key, name in data.items())
    names = dict(copies.group_by("fingerprint").agg(pl.col("name").min()).iter_rows())
    named = values.with_columns(pl.col(key).replace_strict(names).alias(name) for key, name in data.items())
    is_alike = pl.col("fingerprint").n_unique().over(*DATA, "dataset") > 1
    longer = pl.format("{} {}", "dataset", pl.col("fingerprint").str.head(6))
    return named.with_columns(dataset=pl.when(is_alike).then(longer).otherwise("dataset"))


def _pooled(placed: pl.DataFrame, drawn: aggregation.Rows) -> pl.DataFrame:
    """The datasets that each table pools at each size: lines with `place`, `size`, `fingerprint` and `only`."""
    key = ["place", "size", "fingerprint"]
    sets = placed.unique(key, keep="last", maintain_order=True)
    is_own = pl.col("fingerprint") == pl.col("trained_fingerprint")
    sets = sets.select("place", "size", "rows", is_own.alias("own"), "dataset", "fingerprint")
    pooled = list[tuple[Any, ...]]()
    for (index, size), group in sets.group_by("place", "size", maintain_order=True):
        lines = group.drop("place", "size").rows()
        taken = aggregation.without_repetition(lines, size, drawn)
        names = sorted(name for _, _, name, fingerprint in lines if fingerprint in taken)
        only = None if len(taken) == len(lines) else ", ".join(names)
        pooled += [(index, size, fingerprint, only) for fingerprint in taken]
    schema = {name: sets.schema[name] for name in key} | {"only": pl.String()}
    return pl.DataFrame(pooled, schema, orient="row")


def only_of(sizes: pl.DataFrame, word: str) -> list[str]:
    """The rule on sizes at which datasets are left out, if there are any. Each line of `sizes` has a `size` and `only`.

    `word` is what a size is.
    """
    left = sizes.drop_nulls("only").group_by("only").agg(pl.col("size").unique()).sort(pl.col("size").list.min())
    parts = [f"{word} {spans(of)} comes only from {only}" for only, of in left.iter_rows()]
    return [f"No row counts twice: {'; '.join(parts)}."] if parts else []


def evaluated(line: dict[str, Any]) -> list[str]:
    """The note on a table that only some runs of its column were evaluated for. `line` is one of its lines."""
    return [f"Evaluated: {line['evaluated']} of {line['runs']} runs."] * (line["evaluated"] != line["runs"])


def _table(group: pl.DataFrame, sizes: Sizes, interval: bool) -> Table:
    """The table of the lines of one title and preset."""
    first = group.row(0, named=True)
    word = tasks.size_words(first["task"], first["structure"])[0]
    ends = group.select("first", "last", "seen").unique().sort("first").rows()
    trained = sizes.seen[first["trained_fingerprint"]]
    firsts = [a for a, _, _ in ends]
    foot, rule = aggregation.counts(group, "first", firsts)
    pooled = any(a != b for a, b, _ in ends)
    notes = [
        f"Training data: {word} {trained} (seen)."
        if trained
        else f"The {word} in training is unknown, because its rows cannot be regenerated here.",
        *evaluated(first),
    ]
    rules = [
        *([f"A column of more than one {word} pools its rows."] if pooled else []),
        *only_of(sizes.apart.filter(place=first["place"]), word),
        rule,
    ]
    names = [span(a, b) + " (seen)" * bool(inside) for a, b, inside in ends]
    title = f"{first['column']} by {word}"
    return table(title, group, "first", firsts, interval, names=names, notes=notes, rules=rules, foot=foot)

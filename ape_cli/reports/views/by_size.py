"""Scores by the size of the source: how a scheme does on longer words and deeper trees than it was trained on.

A score is that of one run over all datasets of a table: a ratio of sums over the rows of a size (token accuracy and
cross-entropy by tokens, exact match by rows), not a mean of the datasets' means. Then mean and deviation over seeds, as
in the other tables. All scores of a table are of the same test rows: a dataset that only some of the runs were
evaluated on has a table of its own.

Seen in training: sizes from the smallest to the largest one among the rows of the training split. Those rows are a
function of the task, its parameters and the seed, so they are drawn again, and the dataset need not be there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from ape_cli import tasks
from ape_cli.core.errors import ApeError, UsageError
from ape_cli.reports import line_plots, parts
from ape_cli.reports.columns import CELL, arrange
from ape_cli.reports.curves import KEYS, Panel, label, split
from ape_cli.reports.evaluations import measured
from ape_cli.reports.legend import LINE_STYLES
from ape_cli.reports.plots import Plot
from ape_cli.reports.tables import Table, cell, standing_notes
from ape_cli.reports.views import Options, View
from ape_cli.runs.registry import Registry
from ape_cli.structure import linearisation

Range = tuple[int, int]  # sizes, both ends included

_COLUMN = [key for key in KEYS if key not in CELL]  # what the rows of a table share
_COLUMNS, _POINTS = 10, 16  # of a table, of a line of a plot: at most
_BLOCK = 8192  # rows
_WORDS = {  # of structures: what a size is, and its axis
    "seq": ("length", "length of the source, symbols"),
    "tree": ("depth", "depth of the source, steps from the root"),
    "grid": ("longer side", "longer side of the source, cells"),
    "cyclic": ("ring", "places of the ring"),
}


@dataclass(frozen=True)
class Sizes:
    """`values`: those of `parts.Parts`, by `size`.

    `seen`: by the fingerprint of the training data; None where its task is not known here.
    """

    values: pl.DataFrame
    seen: dict[str, Range | None]


class BySize(View[Sizes]):
    """Finds the evaluations size by size. Its tables and lines pool sizes into bins."""

    about = "by length or depth, over all evaluated datasets"
    by = "size"
    comparison = "over all sizes"
    rank = 10
    caption = f"""These are scores by the size of the source. All lines of a plot are of the same test rows: a dataset
that only some runs were evaluated on has a plot of its own. The training split holds the sizes in the shaded area. A
band, or a bar at a single point, reaches from the smallest to the largest score over seeds. A hollow point has fewer
than {line_plots.FEW} test rows and is not connected to its neighbours. {LINE_STYLES}"""

    def rejects(self, options: Options) -> Iterator[UsageError]:
        """Refuses the paper's numbers."""
        if options.against:
            got = f"--against {options.against} {options.asked}"
            yield UsageError("the paper has no scores by size", got=got, fix="leave one out")
        yield from super().rejects(options)

    def read(self, registry: Registry, options: Options) -> tuple[Sizes, list[str]]:
        """All evaluations of this kind (`parts.read`). It reads those on other data too, whatever `own` says."""
        found, bad = parts.read(registry, "size", **options.scores, needed=options.needed)
        fingerprints = found.values["trained_fingerprint"].unique(maintain_order=True)
        return Sizes(found.values, {f: seen(found.trained[f]) for f in fingerprints}), bad

    def frame(self, found: Sizes) -> pl.DataFrame:
        """Every size by itself. `weight`: tokens, of exact match rows, over all seeds."""
        pooled = pool(found).rename({"first": "size"})
        return arrange(pooled, ["on", "size", "seen"], ["weight", *parts.COUNTS, *parts.OVER_ROWS])

    def tables(self, found: Sizes, *, interval: bool = False) -> list[Table]:
        """A table for each column of the other tables and each preset: schemes down, sizes across."""
        if found.values.is_empty():
            return []
        groups = pool(found, _COLUMNS).partition_by("structure", "preset", "column", maintain_order=True)
        return [_table(group, found, interval) for group in groups]

    def plot(self, found: Sizes, options: Options) -> Plot | None:
        """A panel for each table with several sizes."""
        return line_plots.plot(panels(found), options.metric)


def panels(sizes: Sizes) -> list[Panel]:
    """The same as lines of a plot; x is the middle of a bin. What has one size alone is no line."""
    if sizes.values.is_empty():
        return []
    found = pool(sizes, _POINTS).with_columns(x=(pl.col("first") + pl.col("last")) / 2)
    made = []
    for title, drawn in split(found):
        if drawn["x"].n_unique() == 1:
            continue
        first = drawn.row(0, named=True)
        axis = _word(first["structure"])[1]
        made.append(Panel(title, axis, drawn, sizes.seen[first["trained_fingerprint"]]))
    return made


def seen(trained: dict[str, Any]) -> Range | None:
    """The smallest and the largest size in a training split; None if its task is not known here."""
    try:
        task = tasks.make(trained["task"], *linearisation.parse(trained["order"]), **trained["parameters"])
    except ApeError:
        return None
    rows = trained["rows"]["train"]
    blocks = (range(first, min(rows, first + _BLOCK)) for first in range(0, rows, _BLOCK))
    found = [task.sample(rows=block, split="train", seed=trained["seed"])["size"].to_numpy() for block in blocks]
    return min(int(x.min()) for x in found), max(int(x.max()) for x in found)


def bins(sizes: list[int], limits: Range | None, most: int) -> dict[int, Range]:
    """The bin of each size: of equal steps of 1, 2, 5, 10, 20 … sizes, the smallest that make at most `most`.

    A bin is named by the smallest and the largest size in it, and never reaches across `limits`.

    >>> bins([3, 4, 8, 11, 12, 30], limits=(4, 11), most=5)
    {3: (3, 3), 4: (4, 8), 8: (4, 8), 11: (11, 11), 12: (12, 12), 30: (30, 30)}
    """
    low, high = limits or (min(sizes), max(sizes))
    step = 1
    while True:
        for width in (step, 2 * step, 5 * step):
            members: dict[tuple[bool, bool, int], list[int]] = {}
            for size in sorted(sizes):
                members.setdefault((size < low, size > high, size // width), []).append(size)
            if len(members) <= most:
                return {size: (group[0], group[-1]) for group in members.values() for size in group}
        step *= 10


def pool(sizes: Sizes, most: int | None = None) -> pl.DataFrame:
    """Mean, deviation and number over seeds (`parts.pool`) of each row of the tables and each bin, `first` to `last`.

    At most `most` bins for each table; without it each size is its own. `seen`: whether the training split reaches to
    there; null if that is not known. `on`: the evaluated datasets (`apart`), which are also named in `column` where a
    column of the other tables has several tables here.
    """
    binned = []
    values = apart(sizes.values)
    for part in values.partition_by(*_COLUMN, "on", maintain_order=True):
        limits = sizes.seen[part["trained_fingerprint"][0]]
        there = part["size"].unique().to_list()
        ends = [{"size": s, "first": a, "last": b} for s, (a, b) in bins(there, limits, most or len(there)).items()]
        within = pl.lit(None, pl.Boolean) if limits is None else pl.col("size").is_between(*limits)
        in_bins = part.join(pl.DataFrame(ends), on="size", maintain_order="left")
        binned.append(in_bins.with_columns(within.alias("seen")))
    column = [*_COLUMN, "metric", "decode", "split", "table", "on", "evaluated", "runs", "seen", "first", "last"]
    found = label(parts.pool(pl.concat(binned), column))
    alike = ["structure", "preset", "column"]
    several = pl.col("table").n_unique().over(alike) > 1
    found = found.sort(pl.col("rank").min().over(alike), "table", "rank", "first")
    return found.with_columns(column=pl.when(several).then(pl.format("{} on {}", "column", "on")).otherwise("column"))


def apart(values: pl.DataFrame) -> pl.DataFrame:
    """The lines, with what tells tables apart, so that all scores of a table are of the same test rows.

    Datasets that the same runs of a column were evaluated on are pooled in one table; a dataset that other runs were
    evaluated on is in another one. `table`: its number in the column, the one with the data of training first. `on`:
    the names of its datasets. `evaluated`: how many of the column's `runs` were evaluated on them.
    """
    found = []
    for part in values.partition_by(_COLUMN, maintain_order=True):
        runs = part.with_columns(id=pl.struct(*CELL, "seed").rank("dense"))
        total = runs["id"].n_unique()
        sets: dict[frozenset[int], list[str]] = {}
        for fingerprint in part["fingerprint"].unique(maintain_order=True):
            sets.setdefault(frozenset(runs.filter(fingerprint=fingerprint)["id"]), []).append(fingerprint)
        tables = []
        for evaluated, fingerprints in sets.items():
            lines = part.filter(pl.col("fingerprint").is_in(fingerprints))
            names = sorted(lines.unique("fingerprint", keep="last")["dataset"])
            other = part["trained_fingerprint"][0] not in fingerprints
            tables.append((other, ", ".join(names), len(evaluated), lines))
        tables.sort(key=lambda table: table[:2])
        for number, (_, on, count, lines) in enumerate(tables):
            found.append(lines.with_columns(table=number, on=pl.lit(on), evaluated=count, runs=total))
    return pl.concat(found)


def _table(group: pl.DataFrame, sizes: Sizes, interval: bool) -> Table:
    first = group.row(0, named=True)
    word = _word(first["structure"])[0]
    ends = group.select("first", "last", "seen").unique().sort("first").rows()
    cells = {(line["row"], line["first"]): cell(line) for line in group.iter_rows(named=True)}
    limits = sizes.seen[first["trained_fingerprint"]]
    has, of = first["evaluated"], first["runs"]
    few = f"Only {has} of the {of} runs of this column were evaluated on it: `ape eval --data …` does what is missing."
    notes = [
        *standing_notes(group, interval),
        f"(seen): {word} {_span(*limits)} is what the training split holds."
        if limits
        else f"What {word} training saw is not known: its task is not known here.",
        *([f"Columns of more than one {word} pool its rows."] if any(a != b for a, b, _ in ends) else []),
        f"Evaluated on {first['on']}.",
        *([few] if has != of else []),
        parts.counted(group),
    ]
    columns = [_span(a, b) + " (seen)" * bool(inside) for a, b, inside in ends]
    rows = group["row"].unique(maintain_order=True)
    body = [(row, [cells.get((row, a)) for a, _, _ in ends]) for row in rows]
    foot = parts.counts(group, "first", [a for a, _, _ in ends])
    name, unit = measured(first["metric"], group["task"])
    return Table(f"{first['column']} by {word}, {name}", notes, columns, body, unit, interval, foot=foot)


def _word(structure: str) -> tuple[str, str]:
    """What a size is, and its axis."""
    return _WORDS.get(structure.partition("(")[0], ("size", "size of the source"))


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"

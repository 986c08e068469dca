"""Tables in the form of the paper: one row for each scheme, one column for each task.

Two kinds of text belong to a table. Its `notes` are its caption: what it shows, and what is special about it. A caption
has at most three lines of 80 characters, so a note counts what would be a long list. Its `rules` say how to read it,
and list what notes count. A report prints notes of all tables, and each rule, once (`captions`, `rules`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from ape_cli.core.numbers import counted, perplexity_text
from ape_cli.reports import baselines, best_by, published
from ape_cli.reports.descriptions import is_image
from ape_cli.reports.evaluations import DECODED, METRICS, measured
from ape_cli.reports.layout import TABLE, row_rank

_SMALL = 0.1  # a ratio that is written with significant digits
# numbers, also with a power of ten, intervals and ratios
_NUMBER = re.compile(r"(?=.*\d|inf)([-+±–\d.,:%\[\] ]|(?<=\d)e(?=[-+]\d)|inf)+")


def number(value: float, unit: str, digits: int, sign: str = "") -> str:
    """A score as text. `digits` are those of a percentage. Without a unit, it is a perplexity.

    With the sign `+` it is a difference of scores, and positive numbers get a sign too. Of perplexities, it is a ratio.

    >>> number(0.5, "%", 2), number(0.5, "nats a token", 2, "+"), number(64.859, "", 1), number(0.01234, "", 2, "+")
    ('50.00', '+0.500', '64.86', '0.0123')
    """
    if not unit:
        return f"{value:.3g}" if sign and value < _SMALL else perplexity_text(value)
    return f"{100 * value:{sign}.{digits}f}" if unit == "%" else f"{value:{sign}.{digits + 1}f}"


def is_number(cell: str) -> bool:
    """Whether the text of a cell is a number, an interval or a ratio.

    >>> [text for text in ("0.5", "[1.00, 2.5e+09]", "inf", "3 : 1", "1e5", "rope") if is_number(text)]
    ['0.5', '[1.00, 2.5e+09]', 'inf', '3 : 1']
    """
    return bool(_NUMBER.fullmatch(cell))


@dataclass(frozen=True)
class Cell:
    """One score of a table. Numbers are fractions, nats for cross-entropy, or perplexities."""

    mean: float
    std: float | None
    seeds: int
    best: bool  # whether it is underlined
    paper: tuple[float, float | None] | None  # the published value and its spread
    interval: tuple[float, float] | None = None  # the 95% interval of the mean over seeds
    doubted: bool = False  # whether the published number has the mark of a note
    by_seed: tuple[tuple[int, float], ...] = ()  # each seed and its score; empty if they are not known
    split: str = ""
    rows: int = 0  # evaluated rows of the split, and target tokens
    tokens: int | None = None
    distinct: bool = False  # whether these count distinct rows


@dataclass(frozen=True)
class Table:
    """A table of scores, with notes below it."""

    title: str
    notes: Sequence[str]  # what it shows, and what is special about it
    columns: list[str]
    rows: Sequence[tuple[str, Sequence[Cell | str | None]]]  # a score, text, or None for an empty cell
    unit: str  # the unit of its scores, for example % or nats a token; empty for perplexities
    interval: bool = False  # show the interval over seeds after a mean, not the deviation
    head: str = "scheme"
    foot: Sequence[tuple[str, Sequence[str]]] = ()  # lines below the rows, as text: counts, and scores without a model
    rules: Sequence[str] = ()  # how to read it

    def __post_init__(self) -> None:
        """Check the cells of each row. Raises `ValueError`."""
        for label, cells in self.rows:
            if len(cells) != len(self.columns):
                raise ValueError(f"row {label!r} of a table has {len(cells)} cells for {len(self.columns)} columns")
            for cell in cells:
                if not isinstance(cell, Cell | str | None):
                    raise ValueError(f"a cell of a table is a `Cell`, text or None, not {cell!r}")

    def number(self, value: float, digits: int) -> str:
        """A score as text. `digits` are those after the point of a percentage."""
        return number(value, self.unit, digits)

    @cached_property
    def underlines(self) -> bool:
        """Whether a score is underlined."""
        return any(cell.best for cell in self.scores())

    def scores(self) -> list[Cell]:
        """The cells that are scores."""
        return [cell for _, cells in self.rows for cell in cells if isinstance(cell, Cell)]

    @cached_property
    def most_seeds(self) -> int:
        """The largest number of seeds of a cell, or 0 if the table has no scores."""
        return max((cell.seeds for cell in self.scores()), default=0)

    def is_text(self, column: int) -> bool:
        """Whether a column has text that is no number."""
        return any(isinstance(cell := cells[column], str) and not is_number(cell) for _, cells in self.rows)

    def underlining(self, best: str = "Underlined") -> list[str]:
        """The rule of underlining (`layout.py`), if a score is underlined. `best` says how the best scores look."""
        which = "mean of each column, and all within its deviation" if self.most_seeds > 1 else "score of each column"
        return [f"{best}: the best {which}."] * self.underlines


def captions(tables: Sequence[Table]) -> tuple[list[str], str]:
    """The caption of each of several tables, and what all of them share, which is said once. One may be empty."""
    first = tables[0].notes if len(tables) > 1 else []
    shared = [note for note in first if all(note in table.notes for table in tables)]
    own = [" ".join(note for note in table.notes if note not in shared) for table in tables]
    return own, f"All tables: {' '.join(shared)}" if shared else ""


def rules(tables: Iterable[Table], best: str = "Underlined") -> list[str]:
    """How to read some tables: the rules that something in them needs, each once. `best` is as for `underlining`."""
    return list(dict.fromkeys(rule for table in tables for rule in (*table.underlining(best), *table.rules)))


_LONG = 40  # characters of a list that a note does not count instead
_UNTUNED = """Not tuned{}: a scheme has several settings of training, and the best would be chosen on these scores. \
`--best-by validation` chooses by validation scores."""


def tables(lines: pl.DataFrame, *, interval: bool = False) -> list[Table]:
    """The tables of scores of the lines of a report: one for each preset and structure, and separate ones for images.

    `interval`: show the 95% interval after a mean, not the standard deviation.
    """
    return [_scores(group, interval) for group in lines.partition_by(TABLE, maintain_order=True)]


def _scores(lines: pl.DataFrame, interval: bool) -> Table:
    """The table of scores of one preset and structure."""
    columns = lines["column"].unique(maintain_order=True).to_list()
    first = lines.row(0, named=True)
    usual = {"seq": "Sequence tasks", "tree(2)": "Tree tasks"}
    title = "Images" if first["is_image"] else usual.get(first["structure"], f"Tasks on {first['structure']}")
    (notes, rules), (foot, of_foot) = brackets(lines, interval), baselines.rows(lines, columns)
    return table(title, lines, "column", columns, interval, notes=notes, rules=[*rules, *of_foot], foot=foot)


def table(
    title: str,
    lines: pl.DataFrame,
    across: str,
    columns: Sequence[Any],
    interval: bool,
    *,
    names: Sequence[str] = (),
    notes: Sequence[str] = (),
    rules: Sequence[str] = (),
    foot: Sequence[tuple[str, Sequence[str]]] = (),
    end: str = "",
) -> Table:
    """A table of the lines from `layout.mark` that it shows, and of no others.

    `columns` are values of the field `across`, which identifies a column, and `names` their names if they have others.
    `notes` and `rules` follow those of every table. The title begins with `title`, which the preset and the metric
    follow, and then `end`.
    """
    name, unit = measured(lines["metric"][0], lines["task"])
    cells = {(line["row"], line[across]): cell(line) for line in lines.iter_rows(named=True)}
    ordered = dict.fromkeys(line["row"] for line in sorted(lines.iter_rows(named=True), key=row_rank))
    rows = [(row, [cells.get((row, key)) for key in columns]) for row in ordered]
    title = f"{title}{lines['of_preset'][0]}, {name}{end}"
    chosen, of_choice = best_by.notes(lines)
    (untuned, of_untuned), (shown, of_settings) = _untuned(lines), settings(lines, _over(lines, interval))
    notes = [*shown, *untuned, *chosen, *notes]
    rules = [*_spread(lines, interval), *of_settings, *of_untuned, *of_choice, *rules]
    return Table(title, notes, list(names or columns), rows, unit, interval, foot=foot, rules=rules)


def cell(line: dict[str, Any]) -> Cell:
    """The cell of a line of a report."""
    paper = None if line.get("paper_mean") is None else (line["paper_mean"], line["paper_spread"])
    interval = None if line["high"] is None else (line["low"], line["high"])
    by_seed = tuple((seed["seed"], seed["score"]) for seed in line["by_seed"])
    doubted = False
    if paper is not None:
        source = published.load(line["paper"])
        doubted = source.is_doubted(source.row(line["scheme"], line["variant"]), line["paper_column"])
    behind = by_seed, line["split"], line["rows"], line["tokens"], line.get("distinct", False)
    return Cell(line["mean"], line["std"], line["seeds"], line["best"], paper, interval, doubted, *behind)


def _untuned(lines: pl.DataFrame) -> tuple[list[str], list[str]]:
    """The note and the rule on columns in which a scheme has several settings of training."""
    untuned = lines.filter("untuned")["column"].unique(maintain_order=True).to_list()
    named = "" if lines["untuned"].all() else f" in {', '.join(untuned)}"
    where = named if len(named) <= _LONG else f" in {counted(len(untuned), 'column')}"
    note = f"Not tuned{where}: nothing is underlined{' there' * bool(where)}."
    return ([note], [_UNTUNED.format(named)]) if untuned else ([], [])


def _over(lines: pl.DataFrame, interval: bool) -> str:
    """The meaning of the numbers in a cell, for example `Mean ± standard deviation over 3 seeds`."""
    low, *_, high = sorted(lines["seeds"]) * 2
    if high == 1:
        return "One seed"
    spread = "(95% interval)" if interval else "± standard deviation"
    return f"Mean {spread} over {high if low == high else f'{low} to {high}'} seeds"


def _spread(lines: pl.DataFrame, interval: bool) -> list[str]:
    """The rules of reading the intervals and the numbers of seeds in cells."""
    metric = METRICS[lines["metric"][0]]
    how = f"cut off at {'0 and 100%' if metric.is_share else '0'}"
    if metric.exponential:
        how = "computed on the logarithm and then transformed, cut off at 1"
    several, differ = (lines["seeds"] > 1).any(), lines["seeds"].n_unique() > 1
    found = [f"95% interval: of the mean over seeds, by Student's t, {how}."] * (interval and several)
    return found + ["×n: the number of seeds, where it is smaller than in other cells."] * differ


def brackets(group: pl.DataFrame, interval: bool) -> tuple[list[str], list[str]]:
    """The notes and the rules on numbers in brackets. There are none unless published numbers are wanted."""
    if "paper" not in group.columns:
        return [], []
    return published.load(group["paper"][0]).notes(group, interval=interval)


def settings(group: pl.DataFrame, over: str) -> tuple[list[str], list[str]]:
    """What a table shows: its metric, split, seeds (`over`) and shared settings, which a rule lists if many."""
    line, (name, unit) = group.row(0, named=True), measured(group["metric"][0], group["task"])
    # an image has one label, so all decodings are the same
    decoding = "" if all(map(is_image, group["task"])) else f", {DECODED[line['decode']]}"
    what = f"{name[0].upper()}{name[1:]}{unit and f' in {unit}'}{decoding}, {line['split']} split."
    shared = line.get("shared") or ""
    changes = shared if len(shared) <= _LONG else f"{shared.count(', ') + 1} changes"
    rules = [f"Changes to preset {line['preset']}: {shared}."] * (changes != shared)
    return [what, f"{over}.", f"Preset {line['preset']}{changes and f' with {changes}'}."], rules

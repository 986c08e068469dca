"""Tables that fit the width of a terminal: a wide one is divided, or printed as one block of lines for each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

_SHORT = 14  # characters of the name of a column that is not divided
_FRAME = 3  # characters around each cell; one more for the whole table
_WORD = 24  # the longest word that makes a column of a list wider; longer ones are folded


@dataclass
class WideTable:
    """A table with a name and numbers in each row. If it is too wide, its columns are divided among several tables."""

    title: str
    head: str
    columns: Sequence[str]
    rows: list[tuple[Text, list[Text]]] = field(default_factory=list)
    foot: list[tuple[Text, list[Text]]] = field(default_factory=list)  # after a line, dimmed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the groups of columns, each as a table with the names of the rows."""
        lines = [*self.rows, *self.foot]
        first = max(len(self.head), *(label.cell_len for label, _ in lines), 0)
        widths = [
            max(_heading(name), *(cells[i].cell_len for _, cells in lines), 0) for i, name in enumerate(self.columns)
        ]
        groups = _groups(widths, options.max_width - first - _FRAME - 1)
        for number, group in enumerate(groups):
            part = f", columns {group[0] + 1} to {group[-1] + 1} of {len(self.columns)}" if len(groups) > 1 else ""
            yield self._grid(group, f"{self.title}{part}")
            if number < len(groups) - 1:
                yield Text()

    def _grid(self, group: Sequence[int], title: str) -> Table:
        """A table of some of the columns."""
        grid = Table(title=Text(title), title_justify="left", header_style="bold")
        grid.add_column(self.head, overflow="fold")
        for i in group:
            grid.add_column(Text(_breakable(self.columns[i])), justify="right", overflow="fold", min_width=6)
        for label, cells in self.rows:
            grid.add_row(label, *(cells[i] for i in group))
        grid.add_section()
        for label, cells in self.foot:
            grid.add_row(label, *(cells[i] for i in group), style="dim")
        return grid


def _groups(widths: Sequence[int], available: int) -> list[list[int]]:
    """Divide columns into groups that fit into the available width. Each group has at least one column.

    >>> _groups([10, 10, 10, 30], 40)
    [[0, 1, 2], [3]]
    """
    groups: list[list[int]] = [[]]
    left = available
    for i, width in enumerate(widths):
        if groups[-1] and width + _FRAME > left:
            groups.append([])
            left = available
        groups[-1].append(i)
        left -= width + _FRAME
    return groups


def _breakable(name: str) -> str:
    """The name of a column. A long one is in two lines if it has settings in brackets or an order after a slash."""
    if len(name) <= _SHORT:
        return name
    return name.replace(" (", "\n(", 1) if " (" in name else name.replace("/", "/\n", 1)


def _heading(name: str) -> int:
    """The width of the name of a column."""
    return max(map(len, _breakable(name).split("\n")))


@dataclass
class Listing:
    """Rows of text. If they are too wide even when words are folded, each row is printed as a block of lines."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield one table, or the blocks."""
        columns = list(zip(self.heads, *self.rows, strict=True))
        natural = [max(map(len, column)) for column in columns]
        least = [max(len(column[0]), *(min(_longest_word(text), _WORD) for text in column)) for column in columns]
        least[0] = natural[0]  # the names of the rows are not folded
        available = options.max_width - 1 - _FRAME * len(columns)
        if sum(least) <= available:
            yield self._table(_widths(least, natural, available))
        else:
            yield from self._blocks()

    def _table(self, widths: Sequence[int]) -> Table:
        """One table whose columns have these widths."""
        table = Table()
        for head, width in zip(self.heads, widths, strict=True):
            table.add_column(head, overflow="fold", width=width)
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table

    def _blocks(self) -> Iterator[RenderableType]:
        """The name of each row, and below it what it has, with a hanging indent. Empty cells are left out."""
        for name, *cells in self.rows:
            yield Text(name, style="bold")
            grid = Table.grid(padding=(0, 1))
            grid.add_column(no_wrap=True)
            grid.add_column(overflow="fold")
            for head, text in zip(self.heads[1:], cells, strict=True):
                if text:
                    grid.add_row(Text(f"  {head}:"), Text(text))
            yield grid


def _longest_word(text: str) -> int:
    """The length of the longest word."""
    return max(map(len, text.split()), default=0)


def _widths(least: Sequence[int], natural: Sequence[int], available: int) -> list[int]:
    """The widths of columns: at least `least`, at most `natural`, and together at most `available`.

    Columns that lack little are made as wide as they need to be, so that only long texts are folded.

    >>> _widths([4, 5, 5], [4, 8, 30], 24)
    [4, 8, 12]
    """
    widths, left = list(least), available - sum(least)
    for i in sorted(range(len(least)), key=lambda i: natural[i] - least[i]):
        more = min(natural[i] - least[i], left)
        widths[i] += more
        left -= more
    return widths

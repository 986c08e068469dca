"""Tables of numbers that fit the width of a terminal. A wide one is divided. Lists are in `listing.py`."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

_SHORT = 14  # characters of the name of a column that is not folded
_LABEL = 20  # characters of the name of a row that is not folded
_LEAST = 6  # characters of a column of numbers
FRAME = 3  # characters around each cell; one more for the whole table


@dataclass
class WideTable:
    """A table with a name and numbers in each row. If it is too wide, its columns are divided among several tables.

    Names of columns are folded more, and then names of rows, if fewer tables are needed then.
    """

    title: str
    head: str
    columns: list[str]
    rows: list[tuple[Text, list[Text]]]
    foot: list[tuple[Text, list[Text]]] = field(default_factory=list)  # after a line, dimmed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the groups of columns, each as a title and a table with the names of the rows."""
        ways = []
        for label, tight in itertools.product(self._label_widths(), (False, True)):
            heads = [heading(name, tight) for name in self.columns]
            ways.append((column_groups(self._widths(heads), options.max_width - label - FRAME - 1), label, heads))
        groups, label, heads = min(ways, key=lambda way: len(way[0]))  # of equally many groups, the first way
        for number, group in enumerate(groups):
            yield Text(self.title + _part(group, len(self.columns)), style="table.title")
            yield self._grid(group, label, heads)
            if number < len(groups) - 1:
                yield Text()

    def _label_widths(self) -> tuple[int, int]:
        """The widths that the names of the rows may have: that of the longest, and a smaller one if it is long."""
        names = [self.head, *(label.plain for label, _ in (*self.rows, *self.foot))]
        widest = max(map(len, names))
        return widest, min(widest, max(_LABEL, *map(longest_word, names)))

    def _widths(self, heads: Sequence[str]) -> list[int]:
        """The widths of the columns with these names."""
        cells = [cells for _, cells in (*self.rows, *self.foot)]
        widest = [max((line[i].cell_len for line in cells), default=0) for i in range(len(self.columns))]
        return [max(_LEAST, cell, *map(len, head.split("\n"))) for head, cell in zip(heads, widest, strict=True)]

    def _grid(self, group: Sequence[int], label: int, heads: Sequence[str]) -> Table:
        """A table of some of the columns."""
        grid = Table(header_style="bold")
        grid.add_column(self.head, overflow="fold", width=label)
        for i in group:
            grid.add_column(Text(heads[i]), justify="right", overflow="fold", min_width=_LEAST)
        for name, cells in self.rows:
            grid.add_row(name, *(cells[i] for i in group))
        grid.add_section()
        for name, cells in self.foot:
            grid.add_row(name, *(cells[i] for i in group), style="dim")
        return grid


def _part(group: Sequence[int], columns: int) -> str:
    """Which columns a group has, in words; empty if it has all.

    >>> _part([0, 1], 3), _part([2], 3), _part([0], 1)
    (', columns 1 to 2 of 3', ', column 3 of 3', '')
    """
    if len(group) == columns:
        return ""
    numbers = f"columns {group[0] + 1} to {group[-1] + 1}" if len(group) > 1 else f"column {group[0] + 1}"
    return f", {numbers} of {columns}"


def column_groups(widths: Sequence[int], available: int) -> list[list[int]]:
    """Divide columns into groups that fit into the available width. Each group has at least one column.

    >>> column_groups([10, 10, 10, 30], 40)
    [[0, 1, 2], [3]]
    """
    groups: list[list[int]] = [[]]
    left = available
    for i, width in enumerate(widths):
        if groups[-1] and width + FRAME > left:
            groups.append([])
            left = available
        groups[-1].append(i)
        left -= width + FRAME
    return groups


def heading(name: str, tight: bool) -> str:
    r"""The name of a column. A long one is in several lines; if it is `tight`, it is also folded after hyphens.

    >>> heading("tree-ops/breadth-to-depth", False), heading("tree-ops/breadth-to-depth", True)
    ('tree-ops/\nbreadth-to-depth', 'tree-ops/\nbreadth-to-\ndepth')
    >>> heading("copy on copy-longer (decay=0.98)", False)
    'copy\non copy-longer\n(decay=0.98)'
    """
    if len(name) <= _SHORT:
        return name
    lines = re.split(r"(?<=/)| (?=\()| (?=on )", name)
    if tight:
        lines = [part for line in lines for part in textwrap.wrap(line, _SHORT, break_long_words=False)]
    return "\n".join(lines)


def longest_word(text: str) -> int:
    """The length of the longest word."""
    return max(map(len, text.split()), default=0)

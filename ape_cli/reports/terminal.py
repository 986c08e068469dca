"""Tables and lists that fit the width of a terminal: tables of numbers, which are divided, and lists of texts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Sequence
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

    Names of columns and rows are folded further if it is too wide.
    """

    title: str
    head: str
    columns: list[str]
    rows: list[tuple[Text, list[Text]]]
    foot: list[tuple[Text, list[Text]]] = field(default_factory=list)  # after a line, dimmed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the groups of columns, each as a title and a table with the names of the rows."""
        lines = [*self.rows, *self.foot]
        labels = [self.head, *(label.plain for label, _ in lines)]
        natural = max(map(len, labels))
        folded = min(natural, max(_LABEL, *(len(word) for label in labels for word in label.split())))
        for label, tight in ((natural, False), (folded, True)):
            heads = [heading(name, tight) for name in self.columns]
            widths = [
                FRAME + max(_LEAST, *map(len, head.split("\n")), *(cells[i].cell_len for _, cells in lines))
                for i, head in enumerate(heads)
            ]
            parts = groups(widths, options.max_width - label - FRAME - 1)
            if len(parts) == 1:
                break
        for number, group in enumerate(parts):
            yield from [Text()] * (number > 0)
            yield Text(self.title + part_of(group, len(heads)), style="table.title")
            yield self._grid(group, label, heads)

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


def part_of(group: Sequence[int], columns: int) -> str:
    """Which columns a group has, in words; empty if it has all.

    >>> part_of([0, 1], 3), part_of([2], 3), part_of([0], 1)
    (', columns 1 to 2 of 3', ', column 3 of 3', '')
    """
    if len(group) == columns:
        return ""
    numbers = f"columns {group[0] + 1} to {group[-1] + 1}" if len(group) > 1 else f"column {group[0] + 1}"
    return f", {numbers} of {columns}"


def groups(sizes: Sequence[int], available: int) -> list[list[int]]:
    """Divide columns of these widths into groups that fit into the available width. A group has at least one column.

    >>> groups([10, 10, 10, 30], 30)
    [[0, 1, 2], [3]]
    """
    fitting: list[list[int]] = [[]]
    for i, size in enumerate(sizes):
        if fitting[-1] and sum(sizes[j] for j in fitting[-1]) + size > available:
            fitting.append([])
        fitting[-1].append(i)
    return fitting


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


def listing(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[str] = ()) -> Table:
    """Rows of text, of which the first column has names. `numbers`: heads of columns that are aligned on the right."""
    table = Table()
    for head in heads:
        table.add_column(
            head, overflow="fold", justify="right" if head in numbers else "left", no_wrap=head == heads[0]
        )
    for row in rows:
        table.add_row(*map(Text, row))
    return table

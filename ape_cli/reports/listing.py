"""Lists of things in words that fit the width of a terminal: a table, or a block of lines for each row."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from ape_cli.reports.fitting import FRAME, longest_word

_WORD = 24  # a word is divided only if it is longer
_PARTS = re.compile(r"[^-/_,=]*[-/_,=]+|[^-/_,=]+")  # of a long word, which may be divided between them
_LINES = 5  # of a cell; a row with longer ones is easier to read as a block


@dataclass
class Listing:
    """Rows of text, of which the first column has names. `numbers`: heads of columns that are aligned on the right.

    If the rows are too wide even when texts are folded to five lines, each row is printed as a block of lines. Words of
    more than 24 characters are divided if the table fits only then.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield one table, or the blocks."""
        columns = list(zip(self.heads, *self.rows, strict=True))
        natural = [max(map(len, column)) for column in columns]
        available = options.max_width - 1 - FRAME * len(columns)
        for limit in (max(natural), _WORD):
            least = [max(len(head), *(min(longest_word(text), limit) for text in cells), 0) for head, *cells in columns]
            least[0] = natural[0]  # the names of the rows are not folded
            widths = _widths(columns, least, available) if sum(least) <= available else None
            if widths is not None:
                yield self._table(widths)
                return
        yield from self._blocks()

    def _table(self, widths: Sequence[int]) -> Table:
        """One table whose columns have these widths."""
        table = Table()
        for head, width in zip(self.heads, widths, strict=True):
            table.add_column(head, overflow="fold", width=width, justify="right" if head in self.numbers else "left")
        for row in self.rows:
            cells = (_folded(text, width) for text, width in zip(row, widths, strict=True))
            table.add_row(*(Text("\n".join(lines)) for lines in cells))
        return table

    def _blocks(self) -> Iterator[RenderableType]:
        """What the rows are, and then each name with what it has, with a hanging indent. Empty cells are left out."""
        yield Text(self.heads[0], style="dim")
        for name, *cells in self.rows:
            yield Text(name, style="bold")
            grid = Table.grid(padding=(0, 1))
            grid.add_column(no_wrap=True)
            grid.add_column(overflow="fold")
            for head, text in zip(self.heads[1:], cells, strict=True):
                if text:
                    grid.add_row(Text(f"  {head}:"), Text(text))
            yield grid


def _widths(columns: Sequence[Sequence[str]], least: Sequence[int], available: int) -> list[int] | None:
    """The widths of columns, each at least `least`, together at most `available`, so that the rows have few lines.

    None if a cell would need more than `_LINES` lines.

    >>> _widths([["name"], ["a b c d"], ["one two three four"]], [4, 1, 5], 18)
    [4, 4, 10]
    """
    for lines in range(1, _LINES + 1):
        widths = [_least(set(column), lines, width) for column, width in zip(columns, least, strict=True)]
        left = available - sum(widths)
        if left >= 0:
            for i, column in enumerate(columns):  # the rest avoids folds
                more = min(max(0, max(map(len, column)) - widths[i]), left)
                widths[i] += more
                left -= more
            return widths
    return None


def _least(texts: Collection[str], lines: int, least: int) -> int:
    """The smallest width, at least `least`, in which each text has at most this many lines."""
    for text in texts:
        low, high = least, max(least, len(text))
        while low < high:
            middle = (low + high) // 2
            if len(_folded(text, middle)) <= lines:
                high = middle
            else:
                low = middle + 1
        least = low
    return least


def _folded(text: str, width: int) -> list[str]:
    """A text in lines of at most this width. A word that is longer than a line is divided, if possible after a hyphen.

    >>> _folded("ab cd tree-ops-small", 8)
    ['ab cd', 'tree-', 'ops-', 'small']
    """
    lines = [""]
    for word in text.split():
        if len(word) <= width:
            joined = f"{lines[-1]} {word}".lstrip()
            lines[-1:] = [joined] if len(joined) <= width else [lines[-1], word]
            continue
        if lines[-1]:
            lines.append("")
        for part in _PARTS.findall(word):
            if lines[-1] and len(lines[-1]) + len(part) > width:
                lines.append("")
            whole = lines[-1] + part
            lines[-1:] = [whole[at : at + width] for at in range(0, len(whole), width)]
    return lines

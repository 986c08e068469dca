"""Lists of things in words that fit the width of a terminal: a table, or a block of lines for each row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from ape_cli.reports.fitting import FRAME, longest_word

_WORD = 24  # a word is divided only if it is longer


@dataclass
class Listing:
    """Rows of text, of which the first column has names. `numbers`: heads of columns that are aligned on the right.

    If the rows are too wide even when texts are folded, each row is printed as a block of lines. Words of more than 24
    characters are divided if the table fits only then.
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
            if sum(least) <= available:
                yield self._table(_widths(least, natural, available))
                return
        yield from self._blocks()

    def _table(self, widths: Sequence[int]) -> Table:
        """One table whose columns have these widths."""
        table = Table()
        for head, width in zip(self.heads, widths, strict=True):
            table.add_column(head, overflow="fold", width=width, justify="right" if head in self.numbers else "left")
        for row in self.rows:
            table.add_row(*map(Text, row))
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

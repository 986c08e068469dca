"""Tables of a report as text: for a terminal, and in Markdown. LaTeX is in `latex.py`, and HTML in `html_table.py`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.text import Text

from ape_cli.core import escaping
from ape_cli.reports.cells import Markup, most_seeds, number, paper_of, rows_of, spread_of
from ape_cli.reports.fitting import WideTable
from ape_cli.reports.latex import latex
from ape_cli.reports.tables import Cell, Table

FORMATS = ("rich", "markdown", "latex", "csv", "json", "html")
_MARKDOWN = Markup(
    "%s%s", "<ins>%s</ins>%s", " ±%s", " (%s to %s)", " ×%s", " [%s]", " ±%s", "—", "%s", escaping.markdown
)


def rich(tables: list[Table]) -> RenderableType:
    """The tables for a terminal."""
    parts: list[RenderableType] = []
    for table in tables:
        most = most_seeds(table)
        grid = WideTable(
            table.title,
            table.head,
            table.columns,
            [(Text(label), [_styled(cell, table, most) for cell in cells]) for label, cells in table.rows],
            [(Text(label), [Text(count) for count in counts]) for label, counts in table.foot],
        )
        parts += [grid, _Captions(table), Text()]
    return Group(*parts)


@dataclass(frozen=True)
class _Captions:
    """The notes of a table. The rule of underlining is left out in a pipe or a file, where text has no underlines."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the notes."""
        styled = console.color_system is not None
        yield from (Text(note, style="dim") for note in self.table.captions(styled=styled))


def _styled(cell: Cell | str | None, table: Table, most: int) -> Text:
    """A cell for a terminal. `most` is the largest number of seeds of a cell of the table."""
    if cell is None:
        return Text("—", style="dim")
    if isinstance(cell, str):
        return Text(cell)
    best = cell.best and table.underlines
    text = Text(number(cell.mean, table.percent, 2), style="bold underline" if best else "")
    text.append(spread_of(cell, table, _MARKDOWN), style="not bold not underline dim")
    if cell.seeds < most:
        text.append(f" ×{cell.seeds}", style="not bold not underline dim")
    text.append(paper_of(cell, table, _MARKDOWN), style="not bold not underline cyan")
    return text


def markdown(tables: list[Table]) -> str:
    """The tables in Markdown."""
    out = []
    for table in tables:
        out += [f"### {escaping.markdown(table.title)}", ""]
        out.append("| " + " | ".join(map(escaping.markdown, [table.head, *table.columns])) + " |")
        out.append("|" + "|".join(["---", *["---:"] * len(table.columns)]) + "|")
        out += ["| " + " | ".join([escaping.markdown(name), *row]) + " |" for name, *row in rows_of(table, _MARKDOWN)]
        out += ["| " + " | ".join([f"*{escaping.markdown(label)}*", *counts]) + " |" for label, counts in table.foot]
        out += ["", escaping.markdown_prose(" ".join(table.captions())), ""]
    return "\n".join(out)


def text(style: str, tables: list[Table]) -> str:
    """The tables in the format `rich`, `markdown` or `latex`. The HTML page is written by `html_page.py`."""
    if style == "rich":
        plain = io.StringIO()
        Console(file=plain, width=200, force_terminal=False).print(rich(tables))
        return escaping.terminal(plain.getvalue())
    return {"markdown": markdown, "latex": latex}[style](tables)

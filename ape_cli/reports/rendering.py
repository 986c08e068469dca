"""Tables of a report as text: for a terminal, in Markdown, and in LaTeX (booktabs). HTML is in `html_page.py`."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.markup import escape as rich_escape
from rich.text import Text

from ape_cli.core import escaping
from ape_cli.reports.tables import Cell, Table, captions, is_number, rules
from ape_cli.reports.terminal import WideTable, heading

FORMATS = ("rich", "markdown", "latex", "csv", "json", "html")


@dataclass(frozen=True)
class Markup:
    """How a format writes a cell. Each field is a template with %s."""

    best: str  # mean and deviation, underlined
    escape: Callable[[str], str]  # writes text that is no number
    plain: str = "%s%s"  # mean and deviation
    std: str = " ±%s"
    interval: str = " (%s to %s)"  # with both ends
    seeds: str = " ×%s"  # the number of seeds, if a cell has fewer than others
    paper: str = " [%s]"  # the published score
    empty: str = "—"
    number: str = "%s"  # a number that is text already
    dagger: str = "†"  # after a published number that is doubted

    def spread(self, cell: Cell, table: Table) -> str:
        """The text after a mean: the deviation, or the interval if the table shows intervals. Empty for one seed."""
        if table.interval:
            ends = cell.interval and tuple(table.number(end, 1) for end in cell.interval)
            return self.interval % ends if ends else ""
        return "" if cell.std is None else self.std % table.number(cell.std, 1)

    def beside(self, cell: Cell, table: Table) -> str:
        """The published score, with its deviation and a mark if it is doubted. Empty if there is none."""
        if cell.paper is None:
            return ""
        mean, std = cell.paper
        spread = "" if std is None else self.std % table.number(std, 1)
        return self.paper % (table.number(mean, 2) + self.dagger * cell.doubted + spread)

    def cell(self, cell: Cell | str | None, table: Table) -> str:
        """A cell as text."""
        if cell is None:
            return self.empty
        if isinstance(cell, str):
            return self.number % cell if is_number(cell) else self.escape(cell)
        text = self.best if cell.best else self.plain
        text %= table.number(cell.mean, 2), self.spread(cell, table)
        text += self.seeds % cell.seeds if cell.seeds < table.most_seeds else ""
        return text + self.beside(cell, table)

    def rows(self, table: Table) -> list[list[str]]:
        """The rows as text, with their labels, and without the counts."""
        return [[self.escape(label), *(self.cell(cell, table) for cell in cells)] for label, cells in table.rows]


_MARKDOWN = Markup(best="<ins>%s</ins>%s", escape=escaping.markdown)
_RICH = Markup(  # style tags of rich
    best="[bold underline]%s[/][dim]%s[/]",
    escape=rich_escape,
    plain="%s[dim]%s[/]",
    seeds="[dim] ×%s[/]",
    paper=r" [cyan]\[%s][/]",
    empty="[dim]—[/]",
)
_LATEX = Markup(
    best=r"\underline{$%s%s$}",
    escape=escaping.latex,
    plain="$%s%s$",
    std=r"_{\pm %s}",
    interval=r"\ (%s,\,%s)",
    seeds=r" $\times %s$",
    paper=" [$%s$]",
    empty="---",
    number="$%s$",
    dagger=r"^\dagger",
)


def rich(tables: list[Table], *, notes: bool = False) -> RenderableType:
    """The tables for a terminal. `notes`: with all rules of reading at the end."""
    parts: list[RenderableType] = []
    own, shared = captions(tables)
    for table, caption in zip(tables, own, strict=True):
        texts = [
            [Text(cell) if isinstance(cell, str) else Text.from_markup(_RICH.cell(cell, table)) for cell in cells]
            for _, cells in table.rows
        ]
        rows = [(Text(label), cells) for (label, _), cells in zip(table.rows, texts, strict=True)]
        foot = [(Text(label), [Text(count) for count in counts]) for label, counts in table.foot]
        parts += [
            WideTable(table.title, table.head, table.columns, rows, foot),
            *([Text(caption, style="dim")] if caption else []),
            Text(),
        ]
    return Group(*parts, *([Text(shared, style="dim")] if shared else []), _Reading(tables, notes))


def reading(tables: list[Table], *, notes: bool, styled: bool = True) -> list[str]:
    """How to read the tables: all rules, or one line. The rule of underlining is left out if the text is not `styled`.

    There is no line if the tables need no rule.
    """
    every = [rule for rule in rules(tables) if styled or not rule.startswith("Underlined")]
    if notes or not every:
        return every
    deviation = " within one deviation" * any(table.underlines and table.most_seeds > 1 for table in tables)
    underlined = f"Underlined: the best{deviation}. " * (styled and any(table.underlines for table in tables))
    return [f"{underlined}`ape report --notes` explains more."]


@dataclass(frozen=True)
class _Reading:
    """How to read the tables, for rich. In a pipe or a file, text has no underlines."""

    tables: list[Table]
    notes: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the lines."""
        styled = console.color_system is not None
        yield from (Text(line, style="dim") for line in reading(self.tables, notes=self.notes, styled=styled))


def markdown(tables: list[Table], *, notes: bool = False) -> str:
    """The tables in Markdown. `notes`: with all rules of reading at the end."""
    out = []
    own, shared = captions(tables)
    for table, caption in zip(tables, own, strict=True):
        foot = [[f"*{escaping.markdown(label)}*", *counts] for label, counts in table.foot]
        rows = [[*map(escaping.markdown, [table.head, *table.columns])], *_MARKDOWN.rows(table), *foot]
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        lines.insert(1, "|" + "|".join(["---", *["---:"] * len(table.columns)]) + "|")
        out += [f"### {escaping.markdown(table.title)}", "", *lines]
        out += ["", *([escaping.markdown_prose(caption), ""] if caption else [])]
    out += [escaping.markdown_prose(shared), ""] if shared else []
    lines = [escaping.markdown_prose(line) for line in reading(tables, notes=notes)]
    return "\n".join([*out, *([f"- {line}" for line in lines] if notes else lines), ""])


_LATEX_HEAD = r"""% Tables by `ape report --format latex`. The preamble of the document needs:
%   \usepackage{booktabs}
% Names in a script that pdfLaTeX does not have need XeLaTeX or LuaLaTeX.
"""
_LATEX_LONG = r"""%   \usepackage{longtable}
%   \setlength{\LTcapwidth}{\linewidth}
"""
_SMALL = 5  # columns; a table with more has a smaller font
_PAGE = 40  # rows; a table with more is broken across pages, which needs a page of one column


def latex(tables: list[Table], *, bold: bool = False, notes: bool = False) -> str:
    """The tables as LaTeX `table` environments, or as `longtable` beyond `_PAGE` rows. Each has a caption and a label.

    The best scores can be `bold`. The captions have the rule of that, and with `notes` all rules of reading.

    The first lines name the packages that the preamble needs. A label follows from the title of its table; tables with
    the same title are numbered.
    """
    out, labels = [_LATEX_HEAD], set[str]()
    markup = replace(_LATEX, best=r"$\mathbf{%s}%s$") if bold else _LATEX
    best = "In bold" if bold else "Underlined"
    for table in tables:
        caption = " ".join([*table.notes, *(rules([table], best) if notes else table.underlining(best))])
        title, caption = (  # code between backticks has a typewriter font
            re.sub("`([^`]*)`", r"\\texttt{\1}", escaping.latex(text)) for text in (table.title, caption)
        )
        stem = "tab:" + ("-".join(re.findall("[a-z0-9]+", table.title.lower())) or "table")
        numbered = itertools.chain([stem], (f"{stem}-{i}" for i in itertools.count(2)))
        label = next(label for label in numbered if label not in labels)
        labels.add(label)
        names = [_stacked(heading(name, tight=True)) for name in table.columns]
        foot = [[*map(escaping.latex, [name, *counts])] for name, counts in table.foot]
        head, *lines = (
            " & ".join(row) + " \\\\"
            for row in [[escaping.latex(table.head.capitalize()), *names], *markup.rows(table)]
        )
        top = ["\\toprule", head, "\\midrule"]
        lines += ["\\midrule"] * bool(foot) + [" & ".join(row) + " \\\\" for row in foot]
        size = "\\scriptsize\\setlength{\\tabcolsep}{3pt}" * (len(names) > _SMALL)
        columns = f"{{l{'r' * len(names)}}}"
        caption = f"\\caption[{{{title}}}]{{{title}. {caption}}}\\label{{{label}}}"
        if len(lines) > _PAGE:  # `top` is on each page
            out[0] = _LATEX_HEAD.replace("% Names", _LATEX_LONG + "% Names")
            out += [f"{{{size}\\begin{{longtable}}{columns}", f"{caption} \\\\"]
            out += [*top, "\\endfirsthead", *top, "\\endhead"]
            out += ["\\bottomrule", "\\endfoot", *lines, "\\end{longtable}}", ""]
        else:
            out += ["\\begin{table}[htbp]", f"\\centering{size}", caption, f"\\begin{{tabular}}{columns}"]
            out += [*top, *lines, "\\bottomrule", "\\end{tabular}", "\\end{table}", ""]
    return "\n".join(out)


def _stacked(name: str) -> str:
    r"""The name of a column in LaTeX, with its lines below each other.

    >>> _stacked("c3"), _stacked("tree-ops/\nbreadth")
    ('c3', '\\shortstack[r]{tree-ops/\\\\breadth}')
    """
    lines = "\\\\".join(escaping.latex(line) for line in name.split("\n"))
    return rf"\shortstack[r]{{{lines}}}" if "\n" in name else lines


def text(style: str, tables: list[Table], *, bold: bool = False, notes: bool = False) -> str:
    """The tables in the format `rich`, `markdown` or `latex`. The HTML page is written by `html_page.py`.

    `bold` has an effect in LaTeX only. `notes`: with all rules of reading.
    """
    if style == "rich":
        plain = io.StringIO()
        Console(file=plain, width=200, force_terminal=False).print(rich(tables, notes=notes))
        return escaping.terminal(plain.getvalue())
    return latex(tables, bold=bold, notes=notes) if style == "latex" else markdown(tables, notes=notes)

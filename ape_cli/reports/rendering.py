"""Tables of a report as text: for a terminal, in Markdown, and in LaTeX (booktabs). HTML is in `html_table.py`."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.text import Text

from ape_cli.core import escaping
from ape_cli.reports.fitting import WideTable
from ape_cli.reports.tables import Cell, Table

_NUMBER = re.compile(r"(?=.*\d)[-+±–\d.,:%\[\] ]+")  # numbers, intervals and ratios
FORMATS = ("rich", "markdown", "latex", "csv", "json", "html")


@dataclass(frozen=True)
class Markup:
    """How a format writes a cell. Each field is a template with %s."""

    plain: str  # mean and deviation
    best: str  # the same, underlined
    std: str
    seeds: str  # the number of seeds, if a cell has fewer than others
    paper: str  # the score of the paper
    paper_std: str
    empty: str
    number: str  # a number that is text already
    escape: Callable[[str], str]  # writes any other text


_MARKDOWN = Markup("%s%s", "<ins>%s</ins>%s", " ±%s", " ×%s", " [%s]", " ±%s", "—", "%s", escaping.markdown)
_LATEX = Markup(
    "$%s%s$",
    r"\underline{$%s%s$}",
    r"_{\pm %s}",
    r" $\times %s$",
    " [$%s$]",
    r"_{\pm %s}",
    "---",
    "$%s$",
    escaping.latex,
)


def number(value: float, percent: bool, digits: int, sign: str = "") -> str:
    """A score as text. With the sign `+` it is a difference of scores, and positive numbers get a sign too."""
    return f"{100 * value:{sign}.{digits}f}" if percent else f"{value:{sign}.{digits + 1}f}"


def _parts(mean: float, std: float | None, percent: bool, mark: str) -> tuple[str, str]:
    """The mean and the deviation as text. `mark` is the template of the deviation."""
    return number(mean, percent, 2), "" if std is None else mark % number(std, percent, 1)


def most_seeds(table: Table) -> int:
    """The largest number of seeds of a cell, or 0 if the table has no scores."""
    return max((cell.seeds for cell in table.scores()), default=0)


def _spread(cell: Cell, table: Table) -> float | None:
    """The number after ±: half of the interval or the deviation."""
    return cell.half if table.interval else cell.std


def is_number(cell: str) -> bool:
    """Whether the text of a cell is a number, an interval or a ratio."""
    return bool(_NUMBER.fullmatch(cell))


def cell_text(cell: Cell | str | None, table: Table, markup: Markup, most: int) -> str:
    """A cell as text in a markup. `most` is the largest number of seeds of a cell of the table."""
    if cell is None:
        return markup.empty
    if isinstance(cell, str):
        return markup.number % cell if is_number(cell) else markup.escape(cell)
    parts = _parts(cell.mean, _spread(cell, table), table.percent, markup.std)
    text = (markup.best if cell.best and table.underlines else markup.plain) % parts
    text += markup.seeds % cell.seeds if cell.seeds < most else ""
    if cell.paper:
        text += markup.paper % "".join(_parts(*cell.paper, table.percent, markup.paper_std))
    return text


def _rows(table: Table, markup: Markup) -> list[list[str]]:
    """The rows as text in a markup. Their labels are not escaped."""
    most = most_seeds(table)
    return [[label, *(cell_text(cell, table, markup, most) for cell in cells)] for label, cells in table.rows]


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
    if (spread := _spread(cell, table)) is not None:
        text.append(f" ±{number(spread, table.percent, 1)}", style="not bold not underline dim")
    if cell.seeds < most:
        text.append(f" ×{cell.seeds}", style="not bold not underline dim")
    if cell.paper:
        paper = "".join(_parts(*cell.paper, table.percent, "±%s"))
        text.append(f" [{paper}]", style="not bold not underline cyan")
    return text


def markdown(tables: list[Table]) -> str:
    """The tables in Markdown."""
    out = []
    for table in tables:
        out += [f"### {escaping.markdown(table.title)}", ""]
        out.append("| " + " | ".join(map(escaping.markdown, [table.head, *table.columns])) + " |")
        out.append("|" + "|".join(["---", *["---:"] * len(table.columns)]) + "|")
        out += ["| " + " | ".join([escaping.markdown(name), *row]) + " |" for name, *row in _rows(table, _MARKDOWN)]
        out += ["| " + " | ".join([f"*{label}*", *counts]) + " |" for label, counts in table.foot]
        out += ["", escaping.one_line(" ".join(table.captions())).replace("<", "&lt;"), ""]
    return "\n".join(out)


_PAGE_COLUMNS = 4  # a table with more columns is scaled to the width of the line


_LATEX_HEAD = r"""% Tables by `ape report --format latex`. The preamble of the document needs:
%   \usepackage{booktabs}
%   \usepackage{graphicx}
% Names in a script that pdfLaTeX does not have need XeLaTeX or LuaLaTeX.
"""


def latex(tables: list[Table]) -> str:
    """The tables as LaTeX table environments, each with a caption and a label.

    The first lines name the packages that the preamble needs. A label follows from the title of its table; tables with
    the same title are numbered.
    """
    out, labels = [_LATEX_HEAD], list[str]()
    for table in tables:
        body = [" & ".join([escaping.latex(row[0]), *row[1:]]) + " \\\\" for row in _rows(table, _LATEX)]
        head = " & ".join(escaping.latex(name) for name in [table.head.capitalize(), *table.columns]) + " \\\\"
        foot = [" & ".join(map(escaping.latex, [label, *counts])) + " \\\\" for label, counts in table.foot]
        wide = len(table.columns) > _PAGE_COLUMNS
        title, notes = (_latex_prose(text) for text in (table.title, " ".join(table.captions())))
        labels.append(_label(table.title, labels))
        out += [
            "\\begin{table}",
            "\\centering",
            *(["\\resizebox{\\linewidth}{!}{%"] if wide else []),
            f"\\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
            *("\\toprule", head, "\\midrule", *body, *(["\\midrule", *foot] if foot else []), "\\bottomrule"),
            "\\end{tabular}" + ("}" if wide else ""),
            f"\\caption[{{{title}}}]{{{title}. {notes}}}",
            f"\\label{{{labels[-1]}}}",
            "\\end{table}",
            "",
        ]
    return "\n".join(out)


def _latex_prose(text: str) -> str:
    """A title or notes in LaTeX. Code between backticks has a typewriter font."""
    return re.sub("`([^`]*)`", r"\\texttt{\1}", escaping.latex(text))


def _label(title: str, taken: Sequence[str]) -> str:
    """The label of a table with this title, with a number at its end if it is `taken`.

    >>> _label("c3/breadth by depth, token accuracy", []), _label("A", ["tab:a"])
    ('tab:c3-breadth-by-depth-token-accuracy', 'tab:a-2')
    """
    words = re.findall("[a-z0-9]+", title.lower())
    label = "tab:" + ("-".join(words) or "table")
    numbered = (f"{label}-{number}" for number in itertools.count(2))
    return label if label not in taken else next(name for name in numbered if name not in taken)


def text(style: str, tables: list[Table]) -> str:
    """The tables in the format `rich`, `markdown` or `latex`. The HTML page is written by `html_page.py`."""
    if style == "rich":
        plain = io.StringIO()
        Console(file=plain, width=200, force_terminal=False).print(rich(tables))
        return escaping.terminal(plain.getvalue())
    return {"markdown": markdown, "latex": latex}[style](tables)

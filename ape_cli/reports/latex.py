"""Tables of a report in LaTeX (booktabs)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from ape_cli.core import escaping
from ape_cli.reports.cells import Markup, rows_of
from ape_cli.reports.fitting import FRAME, column_groups, heading
from ape_cli.reports.tables import Table

_LATEX = Markup(
    "$%s%s$",
    r"\underline{$%s%s$}",
    r"_{\pm %s}",
    r"\ (%s,\,%s)",
    r" $\times %s$",
    " [$%s$]",
    r"_{\pm %s}",
    "---",
    "$%s$",
    escaping.latex,
    r"^\dagger",
)
_SHRINK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
_LINE = 64  # characters in a line of an article; a wider table is scaled to the line
_PAGE = 60  # lines of parts in one table environment
_MOST_CHARACTERS = 96  # a wider table is divided into parts below each other, because it could not be read

_LATEX_HEAD = r"""% Tables by `ape report --format latex`. The preamble of the document needs:
%   \usepackage{booktabs}
%   \usepackage{graphicx}
% Names in a script that pdfLaTeX does not have need XeLaTeX or LuaLaTeX.
"""


def latex(tables: list[Table]) -> str:
    """The tables as LaTeX table environments, each with a caption and a label.

    The first lines name the packages that the preamble needs. A label follows from the title of its table; tables with
    the same title are numbered. A table with many columns has several parts below each other, each with the rows that
    it has a score for. If they do not fit on a page, they are several tables.
    """
    out, labels = [_LATEX_HEAD], list[str]()
    for table in tables:
        title, notes = (_latex_prose(text) for text in (table.title, " ".join(table.captions())))
        floats = list(_floats(list(_parts(table))))
        for number, parts in enumerate(floats, 1):
            of_part = f"{title}, part {number} of {len(floats)}" if len(floats) > 1 else title
            labels.append(_label(table.title, labels))
            out += [
                "\\begin{table}",
                "\\centering",
                "\n\\par\\medskip\n".join("\n".join(part) for part in parts),
                f"\\caption[{{{of_part}}}]{{{of_part}. {notes}}}",
                f"\\label{{{labels[-1]}}}",
                "\\end{table}",
                "",
            ]
    return "\n".join(out)


def _floats(parts: list[list[str]]) -> Iterator[list[list[str]]]:
    """Divide the parts of a table among as many table environments as they need, so that each fits on a page."""
    found: list[list[str]] = []
    for part in parts:
        if found and sum(map(_height, [*found, part])) > _PAGE:
            yield found
            found = []
        found.append(part)
    yield found


def _height(part: list[str]) -> int:
    """The number of lines that a part of a table takes on a page. The names of columns may have several."""
    cells = [line.removesuffix(" \\\\").split(" & ") for line in part]
    return sum(1 + max(cell.count("\\\\") for cell in line) for line in cells)


def _parts(table: Table) -> Iterator[list[str]]:
    """The lines of each tabular environment of a table: one, or several if it has many columns."""
    names = [heading(name, tight=True) for name in table.columns]
    head = [escaping.latex(table.head.capitalize()), *map(_stacked, names)]
    body = [[escaping.latex(row[0]), *row[1:]] for row in rows_of(table, _LATEX)]
    foot = [[*map(escaping.latex, [label, *counts])] for label, counts in table.foot]
    label = max(map(_printed, [head[0], *(row[0] for row in (*body, *foot))]))
    widths = [
        max([*map(len, name.split("\n")), *(_printed(row[number]) for row in (*body, *foot))])
        for number, name in enumerate(names, 1)
    ]
    room = max(_MOST_CHARACTERS - label, _MOST_CHARACTERS // 2)  # beside a very long name of a row, the table is shrunk
    for part in column_groups(widths, room):

        def line(cells: Sequence[str], chosen: Sequence[int] = part) -> str:
            """The cells of a row in this part."""
            return " & ".join([cells[0], *(cells[1 + i] for i in chosen)]) + " \\\\"

        shown = [row for row in body if any(row[1 + i] != _LATEX.empty for i in part)] or body
        wide = label + sum(widths[i] + FRAME for i in part) > _LINE
        yield [
            *([_SHRINK] if wide else []),
            f"\\begin{{tabular}}{{l{'r' * len(part)}}}",
            *("\\toprule", line(head), "\\midrule", *map(line, shown)),
            *(("\\midrule", *map(line, foot)) if foot else ()),
            "\\bottomrule",
            "\\end{tabular}" + ("}" if wide else ""),
        ]


def _stacked(name: str) -> str:
    r"""The name of a column in LaTeX, with its lines below each other.

    >>> _stacked("c3"), _stacked("tree-ops/\nbreadth")
    ('c3', '\\shortstack[r]{tree-ops/\\\\breadth}')
    """
    lines = "\\\\".join(escaping.latex(line) for line in name.split("\n"))
    return rf"\shortstack[r]{{{lines}}}" if "\n" in name else lines


def _printed(cell: str) -> int:
    r"""About how many characters wide a cell in LaTeX is printed.

    >>> _printed(r"\underline{$77.01_{\pm 0.3}$} $\times 3$")
    11
    """
    signs = re.sub(r"\\(pm|times)", "±", cell)
    return len(re.sub(r"\\[a-z]+|[${}_ \\]", "", signs))


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

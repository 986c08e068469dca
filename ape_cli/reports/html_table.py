"""A table of a report in HTML.

A score has its number in `data-value`, by which the page sorts, and what it was measured on as its `title`. Browsers
show a title when the mouse is on the score. The script of the page also shows it when the score has the focus.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ape_cli.core import escaping
from ape_cli.reports.cells import Markup, cell_text, is_number, most_seeds, number
from ape_cli.reports.tables import Cell, Table

_HTML = Markup(
    "%s%s",
    '<span class="best">%s</span>%s',
    ' <span class="minor">±%s</span>',
    ' <span class="minor">(%s to %s)</span>',
    ' <span class="minor">×%s</span>',
    ' <span class="paper">[%s]</span>',
    " ±%s",
    "—",
    "%s",
    escaping.html,
)


_TEXT = ' class="text"'


def fragment(table: Table, heading: str = "") -> str:
    """A table and its notes. `heading` is the id of the table's heading on the page, if it has one."""
    most = most_seeds(table)
    texts = [any(_is_text(cells[i]) for _, cells in table.rows) for i in range(len(table.columns))]
    head = "".join(
        f'<th scope="col"{_TEXT if is_text else ""}>{escaping.html(name)}</th>'
        for name, is_text in zip([table.head, *table.columns], [False, *texts], strict=True)
    )
    rows = _lines((label, [_cell(cell, table, most) for cell in cells]) for label, cells in table.rows)
    foot = _lines((label, [f"<td>{count}</td>" for count in counts]) for label, counts in table.foot)
    named = f' aria-labelledby="{heading}"' if heading else ""
    best = ' data-best="least"' if table.smaller_is_better else ""
    body = f"<table{named}{best}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>"
    body += f"\n<tfoot>\n{foot}\n</tfoot></table>" if table.foot else "</table>"
    return f"""<div class="wide" role="group"{named} tabindex="0">{body}</div>
<p class="notes">{escaping.html(" ".join(table.captions()))}</p>"""


def _lines(rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Rows from their labels and their cells, which are HTML."""
    return "\n".join(f'<tr><th scope="row">{escaping.html(label)}</th>{"".join(cells)}</tr>' for label, cells in rows)


def _cell(cell: Cell | str | None, table: Table, most: int) -> str:
    """A cell. `most` is the largest number of seeds of a cell of the table."""
    text = cell_text(cell, table, _HTML, most)
    if isinstance(cell, Cell):
        told = "&#10;".join(map(escaping.html, details(cell, table)))
        title = f' title="{told}"' if told else ""
        return f'<td data-value="{cell.mean:.9g}"{title}>{text}</td>'
    return f"<td{_TEXT if _is_text(cell) else ''}>{text}</td>"


def _is_text(cell: Cell | str | None) -> bool:
    """Whether a cell is text that is no number."""
    return isinstance(cell, str) and not is_number(cell)


def details(cell: Cell, table: Table) -> list[str]:
    """What is behind a score, in lines: its spread over seeds, the score of each seed, and the size of the sample."""
    if (basis := cell.basis) is None:
        return []

    def shown(value: float) -> str:
        return number(value, table.percent, 2) + "%" * table.percent

    lines = []
    if cell.std is not None:
        lines.append(f"Mean {shown(cell.mean)}, standard deviation {shown(cell.std)}")
    if cell.interval is not None:
        low, high = cell.interval
        lines.append(f"95% interval of the mean over seeds: {shown(low)} to {shown(high)}")
    lines += [f"Seed {seed}: {shown(score)}" for seed, score in basis.by_seed]
    tokens = "" if basis.tokens in (None, basis.rows) else f", {basis.tokens:,} target tokens"
    return [*lines, f"Sample: {basis.rows:,} {basis.split} rows{tokens}"]

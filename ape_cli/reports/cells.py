"""The cells of tables as text in a markup: scores, deviations, numbers of seeds and the numbers of the paper."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ape_cli.reports.tables import Cell, Table

_NUMBER = re.compile(r"(?=.*\d)[-+±–\d.,:%\[\] ]+")  # numbers, intervals and ratios


@dataclass(frozen=True)
class Markup:
    """How a format writes a cell. Each field is a template with %s."""

    plain: str  # mean and deviation
    best: str  # the same, underlined
    std: str
    interval: str  # with both ends
    seeds: str  # the number of seeds, if a cell has fewer than others
    paper: str  # the score of the paper
    paper_std: str
    empty: str
    number: str  # a number that is text already
    escape: Callable[[str], str]  # writes any other text
    dagger: str = "†"  # after a number of the paper that is doubted


def number(value: float, percent: bool, digits: int, sign: str = "") -> str:
    """A score as text. With the sign `+` it is a difference of scores, and positive numbers get a sign too."""
    return f"{100 * value:{sign}.{digits}f}" if percent else f"{value:{sign}.{digits + 1}f}"


def most_seeds(table: Table) -> int:
    """The largest number of seeds of a cell, or 0 if the table has no scores."""
    return max((cell.seeds for cell in table.scores()), default=0)


def spread_of(cell: Cell, table: Table, markup: Markup) -> str:
    """The text after a mean: the deviation, or the interval if the table shows intervals. Empty for one seed."""
    if table.interval:
        ends = cell.interval and tuple(number(end, table.percent, 1) for end in cell.interval)
        return markup.interval % ends if ends else ""
    return "" if cell.std is None else markup.std % number(cell.std, table.percent, 1)


def paper_of(cell: Cell, table: Table, markup: Markup) -> str:
    """The paper's score beside a mean, with its deviation and a mark if it is doubted. Empty if there is none."""
    if cell.paper is None:
        return ""
    mean, std = cell.paper
    spread = "" if std is None else markup.paper_std % number(std, table.percent, 1)
    return markup.paper % (number(mean, table.percent, 2) + markup.dagger * cell.doubted + spread)


def is_number(cell: str) -> bool:
    """Whether the text of a cell is a number, an interval or a ratio."""
    return bool(_NUMBER.fullmatch(cell))


def cell_text(cell: Cell | str | None, table: Table, markup: Markup, most: int) -> str:
    """A cell as text in a markup. `most` is the largest number of seeds of a cell of the table."""
    if cell is None:
        return markup.empty
    if isinstance(cell, str):
        return markup.number % cell if is_number(cell) else markup.escape(cell)
    parts = number(cell.mean, table.percent, 2), spread_of(cell, table, markup)
    text = (markup.best if cell.best and table.underlines else markup.plain) % parts
    text += markup.seeds % cell.seeds if cell.seeds < most else ""
    return text + paper_of(cell, table, markup)


def rows_of(table: Table, markup: Markup) -> list[list[str]]:
    """The rows as text in a markup. Their labels are not escaped."""
    most = most_seeds(table)
    return [[label, *(cell_text(cell, table, markup, most) for cell in cells)] for label, cells in table.rows]

"""The scores of a table as cells of an HTML page, which name what they share once for the whole table.

A page of thousands of runs has tens of thousands of scores. Its script writes the details of a score from the attribute
`data-of` of its cell, `SCORES|DEVIATION|INTERVAL`:

- the score of each seed, in the order of the table's seeds; `seed:score` if the cell has other seeds; no score if
  there is only one, because it is the number in the cell;
- the deviation and both ends of the interval, as far as they are known.

`data-sample` of a column says how many rows and tokens its scores are of. A cell has its own if that differs.
"""

from __future__ import annotations

from markupsafe import Markup

from ape_cli.reports.tables import Cell, Table


class ScoreCells:
    """The cells of the scores of a table.

    `seeds` are the seeds that most scores have, `sign` follows each number in the details, and `samples` has the sample
    of each column as text, which is empty without scores.
    """

    def __init__(self, table: Table) -> None:
        """Find what the scores share."""
        self.table, self.sign = table, "%" if table.unit == "%" else ""
        most = max(table.scores(), key=lambda cell: cell.seeds, default=None)
        self.seeds = [seed for seed, _ in most.by_seed] if most else []
        columns = [[cells[i] for _, cells in table.rows] for i in range(len(table.columns))]
        firsts = [next((cell for cell in column if isinstance(cell, Cell)), None) for column in columns]
        self.samples = ["" if first is None else _sample(first) for first in firsts]

    def cell(self, cell: Cell, column: int) -> Markup:
        """The HTML of a score in a column, which is counted from 0. It consists of numbers only."""
        table, number = self.table, self.table.number
        mean = number(cell.mean, 2)
        text = f'<span class="best">{mean}</span>' if cell.best else mean
        if table.interval and cell.interval:
            text += " <small>({} to {})</small>".format(*(number(end, 1) for end in cell.interval))
        elif not table.interval and cell.std is not None:
            text += f" <small>±{number(cell.std, 1)}</small>"
        if cell.seeds < table.most_seeds:
            text += f" <small>×{cell.seeds}</small>"
        if cell.paper:
            score, deviation = cell.paper
            spread = "" if deviation is None else f" ±{number(deviation, 1)}"
            text += f' <span class="paper">[{number(score, 2)}{"†" * cell.doubted}{spread}]</span>'
        sample = _sample(cell)
        own = "" if sample == self.samples[column] else f' data-sample="{sample}"'
        return Markup(f'<td data-of="{self._details(cell, mean)}"{own}>{text}</td>')

    def _details(self, cell: Cell, mean: str) -> str:
        """The scores of the seeds, the deviation and the interval of a score."""
        number = self.table.number
        scores = [number(score, 2) for _, score in cell.by_seed]
        of_table = [seed for seed, _ in cell.by_seed] == self.seeds
        if scores == [mean]:
            scores = [""]
        named = scores if of_table else [f"{seed}:{x}" for (seed, _), x in zip(cell.by_seed, scores, strict=True)]
        deviation = "" if cell.std is None else number(cell.std, 2)
        interval = " ".join(number(end, 2) for end in cell.interval or ())
        return "|".join([" ".join(named), deviation, interval]).rstrip("|")


def _sample(cell: Cell) -> str:
    """The rows and tokens that a score is of, as text."""
    tokens = "" if cell.tokens in (None, cell.rows) else f", {cell.tokens:,} target tokens"
    return f"{cell.rows:,} {'distinct ' * cell.distinct}{cell.split} rows{tokens}"

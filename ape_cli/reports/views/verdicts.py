"""Verdicts on each number of the paper's tables 1 to 3: `ape report --against paper --verdicts`.

They are those of `verdicts.toml` in the results folder, with the scores of the runs that the file names. `verdicts.py`
in the folder above has the rule from which they follow.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ape_cli.core.errors import UsageError
from ape_cli.reports import paper, verdicts
from ape_cli.reports.tables import Table
from ape_cli.reports.verdicts import Judged
from ape_cli.reports.views import Options, View
from ape_cli.runs.registry import Registry

MARKS = {"reproduced": "=", "differs, and why": "≠", "differs, cause open": "?", "not run": "—"}
LEGEND = """Our mean minus the paper's, in points of token accuracy. =: reproduced (the means differ by at most twice \
the larger standard deviation). ≠: differs, and runs show a cause. ?: differs, and the cause is open. —: not run."""
_COLUMNS = {
    "table": pl.Int64,
    **dict.fromkeys(("scheme", "column", "verdict", "sentence", "preset"), pl.String),
    "seeds": pl.Int64,
    **dict.fromkeys(("mean", "std", "paper_mean", "paper_std", "difference", "margin", "left"), pl.Float64),
    **dict.fromkeys(("evidence", "cause"), pl.String),
}


class VerdictView(View[list[Judged]]):
    """Shows the cells of `verdicts.toml`. Its page has only its own tables."""

    about = "verdicts on each number of the paper: --against paper --verdicts"
    on_page = False
    title = "Verdicts"
    unused = ("metric", "decode", "split", "interval", "best_by", "plots", "axis", "counts")

    def read(self, registry: Registry, options: Options) -> tuple[list[Judged], list[str]]:
        """Read the verdicts of the results folder.

        Raises `ApeError` if there are none or they are invalid, and `UsageError` for a selection of runs: verdicts name
        their own.
        """
        if registry.names is not None or str(registry.chosen):
            got = str(registry.chosen) or "a sweep"
            raise UsageError(
                "the verdicts name their runs themselves", got=f"a selection of runs: {got}", fix="leave it out"
            )
        return verdicts.read(registry.folder), []

    def frame(self, result: list[Judged]) -> pl.DataFrame:
        """A line for each cell. `left` is what the cause leaves of the difference. Scores are fractions."""
        return pl.DataFrame([_line(cell) for cell in result], schema=_COLUMNS, orient="row")

    def tables(self, result: list[Judged], *, interval: bool = False) -> list[Table]:
        """The three tables, with the paper's columns as rows. The notes have the sentences."""
        return [_table(number, [cell for cell in result if cell.verdict.table == number]) for number in (1, 2, 3)]


def _line(cell: Judged) -> dict[str, object]:
    """The line of a cell for programs."""
    ours = cell.ours
    return {
        **cell.verdict.model_dump(include={"table", "scheme", "verdict", "sentence"}),
        "column": cell.column,
        "preset": ours and ours.preset,
        "seeds": ours and len(ours.by_run),
        "mean": ours and ours.mean,
        "std": ours and ours.std,
        "paper_mean": cell.mean,
        "paper_std": cell.std,
        **{name: getattr(cell, name) for name in ("difference", "margin", "left")},
        **{name: " ".join(getattr(cell.verdict, name).get(cell.column, [])) for name in ("evidence", "cause")},
    }


def _table(number: int, cells: Sequence[Judged]) -> Table:
    """One table of the paper."""
    keys = paper.table(number)
    schemes, columns = (list(dict.fromkeys(key[side] for key in keys)) for side in (0, 1))
    texts = {(cell.verdict.scheme, cell.column): mark(cell) for cell in cells}
    rows = [(column, [texts.get((scheme, column)) for scheme in schemes]) for column in columns]
    smaller = sorted({cell.ours.preset for cell in cells if cell.ours} - {"paper"})
    sizes = [f"*: runs of the paper's size; all others have preset {', '.join(smaller)}."] if smaller else []
    of_cells = dict.fromkeys(f"{_where(cell)}: {cell.verdict.verdict}. {cell.verdict.sentence}" for cell in cells)
    return Table(
        f"Table {number} of the paper", [" ".join([LEGEND, *sizes]), *of_cells], schemes, rows, "%", head="column"
    )


def mark(cell: Judged) -> str:
    """A cell as text: the mark of its verdict, our mean minus the paper's, and * at the paper's size."""
    sign = MARKS[cell.verdict.verdict]
    if cell.ours is None or cell.difference is None:
        return sign
    return f"{sign} {100 * cell.difference:+.2f}" + "*" * (cell.ours.preset == "paper")


def _where(cell: Judged) -> str:
    """The cells that share a sentence, for example `rope on copy and repeat`."""
    *most, last = cell.verdict.columns
    return f"{cell.verdict.scheme} on {', '.join(most)}{' and ' * bool(most)}{last}"

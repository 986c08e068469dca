"""Do the bounds of the authors' scripts explain numbers of the published paper? The rule of the page `bounds`.

A cell is a number for which `verdicts-neurips.toml` names a run of `bounds.toml` as the suspected cause. The verdict
says whether that run explains it.
"""

from __future__ import annotations

import math
from functools import cache

from ape_cli.reports.views.verdicts import Judged
from results import verdicts
from results.numbers import runs
from results.plans import standing

SWEEP = "bounds"


@cache
def cells() -> list[Judged]:
    """The cells in the order of the published tables."""
    return [cell for cell in verdicts.judged("neurips") if cell.caused]


def without(cell: Judged) -> float | None:
    """The perplexity of `none` on the data of the cell's suspected cause; None if there is no such run."""
    assert cell.caused is not None
    (name,) = cell.caused.by_run
    (dataset,) = (record.dataset.name for run, record in runs() if run.name == name)
    found = {
        record.dataset.name: run for run, record in runs() if (record.config.scheme, record.variant) == ("none", {})
    }
    return math.exp(found[dataset].evaluations()[0][0]["overall"]["cross_entropy"]) if dataset in found else None


def answer(of: list[Judged] | None = None) -> str:
    """The answer of the page, and how many runs are finished until all are."""
    of = [cell for cell in (cells() if of is None else of) if cell.follows != "reproduced"]
    rows = dict.fromkeys(cell.number.row for cell in of)
    counts = []
    for row in rows:
        words = [cell.follows for cell in of if cell.number.row == row]
        counts.append(f"{words.count('differs, and why')} of {len(words)} of `{row}`")
    done, planned_runs = standing(SWEEP)
    so_far = "" if done == planned_runs else f" So far, {done} of {planned_runs} runs are finished."
    return f"of the published numbers that our runs do not reproduce, these bounds explain {', '.join(counts)}.{so_far}"


def table() -> str:
    """The perplexities of all cells. Those that the bound explains are in bold."""
    lines = [
        "| column | scheme | published | our bound | the authors' bound | `none` |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for cell in cells():
        assert cell.ours is not None
        assert cell.caused is not None
        mark = "**" * (cell.follows == "differs, and why")
        bounded, none = f"{mark}{cell.caused.mean:.2f}{mark}", without(cell)
        shown = "" if none is None else f"{none:.2f}"
        of, value = cell.number, cell.number.value
        lines.append(f"| {of.column} | `{of.row}` | {value:.2f} | {cell.ours.mean:.2f} | {bounded} | {shown} |")
    return "\n".join(lines) + "\n"

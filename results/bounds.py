"""Do the bounds of the authors' scripts explain numbers of the published paper? The rule of the page `bounds`.

A cell is a number for which `verdicts-neurips.toml` names a run of `bounds.toml` as the suspected cause. The verdict
says whether that run explains it.
"""

from __future__ import annotations

from functools import cache

from ape_cli.reports.views.verdicts import Judged, scores
from results import verdicts
from results.numbers import runs, span


@cache
def cells() -> list[Judged]:
    """The cells in the order of the published tables."""
    return [cell for cell in verdicts.judged("neurips") if cell.caused]


def without(cell: Judged) -> float | None:
    """The perplexity of `none` on the data of the cell's suspected cause; None if there is no such run."""
    assert cell.caused is not None
    (dataset,) = {record.dataset.name for run, record in runs() if run.name in cell.caused.by_run}
    plain = [(run, record) for run, record in runs() if (record.config.scheme, record.variant) == ("none", {})]
    found = scores([of for of in plain if of[1].dataset.name == dataset], cell.number, cell.source)
    return found and found.mean


def share(cell: Judged) -> float:
    """The percentage of the difference from the published number that the bound removes, on the scale of verdicts."""
    assert cell.left is not None
    assert cell.difference
    return 100 * (1 - abs(cell.left / cell.difference))


def answer(of: list[Judged] | None = None) -> str:
    """The answer of the page: what the bounds explain, and what share of the other differences they remove."""
    of = [cell for cell in (cells() if of is None else of) if cell.follows != "reproduced"]
    explained = [f"`{cell.number.row}` on `{cell.number.column}`" for cell in of if cell.follows == "differs, and why"]
    learned: list[float] = []  # on trees
    others: list[float] = []
    for cell in (cell for cell in of if cell.follows != "differs, and why"):
        (learned if cell.number.row == "learned" and "/" in cell.number.column else others).append(share(cell))
    return (
        f"of {len(of)} published numbers that our runs do not reproduce, these bounds explain {len(explained)}: "
        f"{' and '.join(explained)}. They also remove {span(learned)}% of each difference of `learned` on trees, and "
        f"at most {max(others):.0f}% of any other."
    )


def table() -> str:
    """The perplexities of all cells, and the `share`. Those that the bound explains are in bold."""
    names = ["column", "scheme", "published", "our bound", "the authors' bound", "removes", "`none`"]
    lines = [f"| {' | '.join(names)} |", f"|---|---|{'---:|' * 5}"]
    for cell in cells():
        assert cell.ours is not None
        assert cell.caused is not None
        mark = "**" * (cell.follows == "differs, and why")
        of, none = cell.number, without(cell)
        shown = [f"{of.value:.2f}", f"{cell.ours.mean:.2f}", f"{mark}{cell.caused.mean:.2f}{mark}"]
        shown += [f"{round(share(cell))}%", "" if none is None else f"{none:.2f}"]
        lines.append(f"| {of.column} | `{of.row}` | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"

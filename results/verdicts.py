"""The verdicts on the paper's numbers as parts of the pages of results, by the names of their files."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import get_args

from ape_cli.reports import rendering, verdicts
from ape_cli.reports.verdicts import Judged
from ape_cli.reports.views.verdicts import VerdictView


def parts(folder: Path) -> dict[str, str]:
    """Three tables, a count of each verdict, and a list of sentences, from the `verdicts.toml` in a folder."""
    cells = verdicts.read(folder)
    tables = [replace(table, notes=[]) for table in VerdictView().tables(cells)]
    words = [word for word in get_args(verdicts.Word) if any(cell.verdict.verdict == word for cell in cells)]
    counts = ["| table | " + " | ".join(words) + " |", "|---|" + "---:|" * len(words)]
    for number in (1, 2, 3):
        of_table = [cell.verdict.verdict for cell in cells if cell.verdict.table == number]
        counts.append(f"| {number} | " + " | ".join(str(of_table.count(word)) for word in words) + " |")
    sentences = [_told(cells_of) for cells_of in _by_verdict(cells)]
    return {
        "verdicts.md": rendering.markdown(tables).replace("\n\n\n", "\n\n"),
        "verdict-counts.md": "\n".join(counts) + "\n",
        "verdict-sentences.md": "\n".join(sentences) + "\n",
    }


def _by_verdict(cells: list[Judged]) -> list[list[Judged]]:
    """The cells that share an entry of the file."""
    return [list(group) for _, group in itertools.groupby(cells, lambda cell: cell.verdict)]


def _told(cells: list[Judged]) -> str:
    """An entry of `verdicts.toml` as an item of a list, with the size, the seeds and the margin of each cell."""
    about = cells[0].verdict
    lines = []
    for cell in cells:
        if cell.ours is not None and cell.difference is not None and cell.margin is not None:
            seeds = f"{len(cell.ours.by_run)} seeds" if len(cell.ours.by_run) > 1 else "1 seed"
            size = "the paper's size" if cell.ours.preset == "paper" else f"`{cell.ours.preset}`"
            left = f", with the cause {100 * cell.left:+.2f}" if cell.left is not None else ""
            difference = f"{100 * cell.ours.mean:.2f} here and {100 * cell.mean:.2f} in the paper"
            lines.append(f"  - `{cell.column}`: {difference}; margin {100 * cell.margin:.2f}{left} ({size}, {seeds})")
    columns = ", ".join(f"`{cell.column}`" for cell in cells)
    return "\n".join(
        [f"- Table {about.table}, `{about.scheme}`, {columns}: **{about.verdict}.** {about.sentence}", *lines]
    )

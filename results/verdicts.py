"""The verdicts on published numbers as parts of the pages of results, by the names of their files."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

from ape_cli.reports import published, rendering
from ape_cli.reports.views import verdicts
from ape_cli.reports.views.verdicts import Judged, VerdictView
from ape_cli.runs.registry import open_registry
from results.plans import RESULTS


@cache
def judged(source: str) -> list[Judged]:
    """A verdict on each number of a source."""
    return verdicts.read(open_registry(RESULTS), published.load(source))


def parts() -> dict[str, str]:
    """The tables of each source, a count of each verdict, and a list of sentences."""
    made = {}
    for name in published.names():
        cells = judged(name)
        *tables, count = (replace(table, notes=[]) for table in VerdictView().tables(cells))
        made[f"verdicts-{name}.md"] = rendering.markdown(tables).replace("\n\n\n", "\n\n")
        made[f"verdict-counts-{name}.md"] = rendering.markdown([count]).partition("\n\n")[2].strip() + "\n"
        made[f"verdict-sentences-{name}.md"] = "\n".join(map(_told, _by_entry(cells))) + "\n"
    return made


def _by_entry(cells: list[Judged]) -> list[list[Judged]]:
    """The cells that share an entry of the file; those without one and without runs are left out."""
    told = [cell for cell in cells if cell.entry or cell.ours]
    keys = [id(cell.entry) if cell.entry else -number for number, cell in enumerate(told, 1)]
    groups: dict[int, list[Judged]] = {}
    for key, cell in zip(keys, told, strict=True):
        groups.setdefault(key, []).append(cell)
    return list(groups.values())


def _told(cells: list[Judged]) -> str:
    """Cells that share an entry as an item of a list, with the size, the seeds and the margin of each."""
    first = cells[0]
    lines = [line for cell in cells if (line := _measured(cell))]
    columns = ", ".join(f"`{cell.number.column}`" for cell in cells)
    sentence = f" {first.entry.sentence}" if first.entry else ""
    head = f"- {first.number.table.split(' of ')[0]}, `{first.number.row}`, {columns}: **{first.follows}.**{sentence}"
    return "\n".join([head, *lines])


def _measured(cell: Judged) -> str:
    """A line about the scores behind a cell; empty without runs."""
    if cell.ours is None or cell.margin is None:
        return ""
    seeds = f"{len(cell.ours.by_run)} seeds" if len(cell.ours.by_run) > 1 else "1 seed"
    size = "its own size" if cell.ours.preset in cell.source.presets[:1] else f"`{cell.ours.preset}`"
    size += ", other sizes of trees" * (not cell.ours.published_data)
    if cell.number.metric == "perplexity":
        values = f"{cell.ours.mean:.2f} here and {cell.number.value:.2f} published"
        margin = f"a factor of {math.exp(cell.margin):.2f}"
        left = f"; the cause leaves a factor of {math.exp(cell.left):.2f}" if cell.left is not None else ""
    else:
        values = f"{100 * cell.ours.mean:.2f} here and {100 * cell.number.value:.2f} published"
        margin = f"{100 * cell.margin:.2f}"
        left = f"; the cause leaves {100 * cell.left:+.2f}" if cell.left is not None else ""
    return f"  - `{cell.number.column}`: {values}; margin {margin}{left} ({size}, {seeds})"

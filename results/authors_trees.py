"""Do the trees of the authors' programs explain numbers of the published paper? The rule of the page `authors-trees`.

A cell is a number of table 2b with two of our runs at preset medium and seed 42, which differ in the trees alone. It is
*nearer* if the logarithm of our perplexity is nearer to the published one with the authors' trees. It is *explained* if
the verdict is that they reproduce it, and that the usual trees do not.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ape_cli.reports import published
from ape_cli.reports.descriptions import has_preset_data
from ape_cli.reports.views.verdicts import Judged, scores
from ape_cli.runs.record import settings_text
from results.numbers import span
from results.plans import planned, registered, so_far, standing

SWEEP = "authors-trees"
SEED = 42
ORDERS = {"breadth": "breadth", "breadth-to-depth": "depth"}  # ours, and the published columns


class Cell(NamedTuple):
    """A published number, judged by our run on the usual trees and by the one on the authors' trees."""

    usual: Judged
    authors: Judged

    @property
    def is_nearer(self) -> bool:
        """Whether the authors' trees bring our perplexity nearer to the published one."""
        assert self.usual.difference is not None
        assert self.authors.difference is not None
        return abs(self.authors.difference) < abs(self.usual.difference)

    @property
    def is_explained(self) -> bool:
        """Whether the number is reproduced with the authors' trees alone."""
        return is_reproduced(self.authors) and not is_reproduced(self.usual)


def is_reproduced(judged: Judged) -> bool:
    """Whether a single run reproduces the published number."""
    return judged.follows == "reproduced"


def mean(judged: Judged) -> float:
    """Our perplexity."""
    assert judged.ours is not None
    return judged.ours.mean


@cache
def cells() -> list[Cell]:
    """The cells with both runs, in the order of the published table."""
    paper = published.load("neurips")
    numbers = {(number.row, number.column): number for number in paper.numbers}
    found: dict[tuple[str, str], dict[bool, Judged]] = {}
    authors = {item.run.name for item in planned(SWEEP).trials if item.state == "finished" and item.run}
    for run, record in registered(SWEEP).readable():
        config, data = record.config, record.dataset
        if (config.preset, config.seed, record.status) != ("medium", SEED, "finished") or data.order not in ORDERS:
            continue
        usual = has_preset_data("medium", data)
        right = data.task != "tree-rotate" or data.parameters.get("mirror") == "search-tree"
        key = paper.row(config.scheme, settings_text(record.variant)), f"{data.task}/{ORDERS[data.order]}"
        if right and key in numbers and (usual or run.name in authors):
            found.setdefault(key, {})[usual] = Judged(numbers[key], paper, scores([(run, record)], numbers[key], paper))
    return [Cell(of[True], of[False]) for key in numbers if len(of := found.get(key, {})) == 2]


def answer(of: list[Cell] | None = None) -> str:
    """The answer of the page, and how many runs are finished until all are."""
    of = cells() if of is None else of
    missed = [cell for cell in of if not is_reproduced(cell.usual)]
    lost = sum(is_reproduced(cell.usual) and not is_reproduced(cell.authors) for cell in of)
    ratios = span((mean(cell.authors) / mean(cell.usual) for cell in of), 2)
    return (
        f"with the authors' trees, perplexities are {ratios} times as large, and {sum(cell.is_nearer for cell in of)} "
        f"of {len(of)} are nearer to the published ones. They reproduce {sum(cell.is_explained for cell in missed)} of "
        f"the {len(missed)} numbers that the usual trees do not, and miss {lost} of the {len(of) - len(missed)} that "
        f"these do.{so_far(*standing(SWEEP))}"
    )


def table() -> str:
    """The table of all cells. Perplexities that are reproduced are in bold."""
    lines = ["| column | scheme | published | usual trees | the authors' trees |", "|---|---|---:|---:|---:|"]
    for cell in cells():
        number, marks = cell.usual.number, ["**" * is_reproduced(of) for of in cell]
        ours = [f"{mark}{mean(of):.2f}{mark}" for of, mark in zip(cell, marks, strict=True)]
        lines.append(f"| {number.column} | `{number.row}` | {number.value:.2f} | {' | '.join(ours)} |")
    return "\n".join(lines) + "\n"

"""Do the trees of the authors' programs explain numbers of the published paper? The rule of the page `authors-trees`.

A cell is a number of table 2b with two of our runs at preset medium and seed 42, which differ in the trees alone. Its
distance is how far the logarithm of our perplexity is from the published one. It is *nearer* if the distance is smaller
with the authors' trees. It is *explained* if it is reproduced with them and not with the usual trees: within twice the
published deviation, plus half of the last digit.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

from ape_cli.reports import published, stats
from ape_cli.reports.published import LAST_DIGIT, Number
from ape_cli.reports.views import verdicts
from ape_cli.runs.record import settings_text
from results.numbers import span
from results.plans import planned, registered, source, standing

SWEEP = "authors-trees"
SEED = 42
ORDERS = {"breadth": "breadth", "breadth-to-depth": "depth"}  # ours, and the published columns


class Cell(NamedTuple):
    """A published number and our perplexities."""

    number: Number
    usual: float
    authors: float

    def distance(self, ours: float) -> float:
        """How far a perplexity is from the published one, in nats."""
        return abs(math.log(ours) - math.log(self.number.value))

    def is_reproduced(self, ours: float) -> bool:
        """Whether a perplexity is within the margin of the published one."""
        deviation = published.load("neurips").deviation(self.number)
        margin = (verdicts.DEVIATIONS * deviation + LAST_DIGIT["perplexity"] / 2) / self.number.value
        return self.distance(ours) <= margin + stats.ROUNDING

    @property
    def is_nearer(self) -> bool:
        """Whether the authors' trees bring it nearer to the published number."""
        return self.distance(self.authors) < self.distance(self.usual)

    @property
    def is_explained(self) -> bool:
        """Whether it is reproduced with the authors' trees alone."""
        return self.is_reproduced(self.authors) and not self.is_reproduced(self.usual)


@cache
def cells() -> list[Cell]:
    """The cells with both runs, in the order of the published table."""
    paper = published.load("neurips")
    ours: dict[tuple[str, str], dict[bool, float]] = {}
    registry = registered(source(SWEEP))[0]
    authors = {item.run.name for item in planned(SWEEP).trials if item.state == "finished" and item.run}
    for run, record in registry.readable():
        config, data = record.config, record.dataset
        if (config.preset, config.seed, record.status) != ("medium", SEED, "finished") or data.order not in ORDERS:
            continue
        drawn = data.parameters
        usual = (drawn.get("depth_mean"), drawn.get("redraw", False)) == (7.0, False)
        right = data.task != "tree-rotate" or drawn.get("mirror") == "search-tree"
        if right and (usual or run.name in authors):
            row = paper.row(config.scheme, settings_text(record.variant)), f"{data.task}/{ORDERS[data.order]}"
            number = next((n for n in paper.numbers if (n.row, n.column) == row), None)
            if number and (scores := verdicts.scores([(run, record)], number)):
                ours.setdefault(row, {})[usual] = scores.mean
    return [
        Cell(number, of[True], of[False])
        for number in paper.numbers
        if len(of := ours.get((number.row, number.column), {})) == 2
    ]


def answer(of: list[Cell] | None = None) -> str:
    """The answer of the page, and how many runs are finished until all are."""
    of = cells() if of is None else of
    missed = [cell for cell in of if not cell.is_reproduced(cell.usual)]
    done, planned_runs = standing(SWEEP)
    so_far = "" if done == planned_runs else f" So far, {done} of {planned_runs} runs are finished."
    ratios = span((cell.authors / cell.usual for cell in of), 2)
    return (
        f"with the authors' trees, perplexities are {ratios} times as large, and {sum(cell.is_nearer for cell in of)} "
        f"of {len(of)} are nearer to the published ones. Of the {len(missed)} that the usual trees do not reproduce, "
        f"they reproduce {sum(cell.is_explained for cell in missed)}.{so_far}"
    )


def table() -> str:
    """The table of all cells. Perplexities that are reproduced are in bold."""
    lines = ["| column | scheme | published | usual trees | the authors' trees |", "|---|---|---:|---:|---:|"]
    for cell in cells():
        ours = [f"{'**' * of}{x:.2f}{'**' * of}" for x in (cell.usual, cell.authors) for of in [cell.is_reproduced(x)]]
        lines.append(f"| {cell.number.column} | `{cell.number.row}` | {cell.number.value:.2f} | {' | '.join(ours)} |")
    return "\n".join(lines) + "\n"

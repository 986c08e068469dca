"""The rule for the trees of the authors' programs, by hand, and the runs that it compares."""

from __future__ import annotations

import math

import pytest

from ape_cli.reports import published
from ape_cli.reports.views.verdicts import Judged, RunScores
from results import authors_trees, plans
from results.authors_trees import Cell

PAPER = published.load("neurips")
ROPE = PAPER.number("rope", "", "tree-copy/breadth-to-depth", "perplexity")  # 2.46 ±0.59, of three seeds


def cell_of(*perplexities: float) -> Cell:
    """A cell with these perplexities: on the usual trees and on the authors'."""
    assert ROPE is not None
    return Cell(*(Judged(ROPE, PAPER, RunScores("medium", {"run": of})) for of in perplexities))


@pytest.mark.parametrize(
    ("usual", "authors", "nearer", "explained"),
    [
        (3.29, 2.80, True, True),  # reproduced up to a factor of exp((2 * 0.59 / 2.484 + 0.005) / 2.46) = 1.2155: 2.990
        (3.29, 3.00, True, False),
        (2.50, 2.80, False, False),
        (2.90, 2.50, True, False),  # both are reproduced
        (2.00, 3.00, True, False),  # 0.207 and 0.198 nats
        (3.29, 1.50, False, False),
    ],
)
def test_a_number_is_explained_if_only_the_authors_trees_reproduce_it(
    usual: float, authors: float, nearer: bool, explained: bool
) -> None:
    assert ROPE is not None
    assert (ROPE.value, ROPE.spread) == (2.46, 0.59)
    cell = cell_of(usual, authors)
    assert (cell.is_nearer, cell.is_explained) == (nearer, explained)
    assert cell.usual.difference == pytest.approx(math.log(usual / 2.46))


def test_the_answer_counts_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authors_trees, "standing", lambda _: (3, 49))
    of = [cell_of(3.29, 2.80), cell_of(3.29, 1.50), cell_of(2.90, 2.50), cell_of(2.50, 1.50)]
    assert authors_trees.answer(of) == (
        "with the authors' trees, perplexities are 0.46 to 0.86 times as large, and 2 of 4 are nearer to the published "
        "ones. They reproduce 1 of the 2 numbers that the usual trees do not, and miss 1 of the 2 that these do. So "
        "far, 3 of 49 runs are finished."
    )


def test_the_sweep_differs_in_the_trees_alone() -> None:
    for item in plans.planned(authors_trees.SWEEP).trials:
        drawn = item.data.plan.parameters
        rotation = "search-tree" if item.data.task == "tree-rotate" else None
        assert (drawn["depth_mean"], drawn["redraw"], drawn.get("mirror")) == (6.5, True, rotation)
        assert item.config.preset == "medium"

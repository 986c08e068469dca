"""The figures of the findings have the numbers of the committed runs. `tests/nightly/test_results.py` draws them again.

The numbers are read from the committed SVG files, and computed from the raw evaluations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from results import record
from results.numbers import FLAT, SCHEMES, TREE_TASKS, Preset, medium, paper, preprint, small
from results.queries.tables import same_order
from tests.figures import text_lines

METRICS = ("token_accuracy", "exact_match")


@cache
def lines(name: str) -> list[list[str]]:
    """The lines of text of a figure from top to bottom: the label of a row, and what is printed in its columns."""
    return text_lines((record.FINDINGS / f"{name}.svg").read_text(encoding="utf-8"))


def rows(name: str) -> dict[str, list[list[str]]]:
    """The numbers of each row, without seeds and notes. Several blocks may have rows of the same name."""
    found: dict[str, list[list[str]]] = {}
    for label, *cells in lines(name):
        numbers = [re.match(r"[+-]?\d+\.\d\d(?![\d.])", cell) for cell in cells]
        if cells and all(numbers):
            found.setdefault(label, []).append([number[0] for number in numbers if number])
    return found


def plain(*values: Any) -> list[list[str]]:
    return [[f"{value:.2f}" for value in values]]


def signed(*values: float) -> list[list[str]]:
    return [[f"{round(value, 2) + 0:+.2f}" for value in values]]


def test_scores() -> None:
    rotated, copied = "tree-rotate/breadth", "copy"
    assert rows("sinusoidal") == {
        "sinusoidal, in the preprint": plain(*(preprint(column, "sinusoidal") for column in (rotated, copied))),
        "none, medium": plain(medium(rotated, "none"), medium(copied, "none")),
        "sinusoidal, medium": plain(medium(rotated, "sinusoidal"), medium(copied, "sinusoidal")),
        "sinusoidal, the preprint’s size": plain(paper(rotated, "sinusoidal")),
    }
    assert rows("order") == {s: signed(*(same_order(task, s).mean for task in TREE_TASKS)) for s in SCHEMES}


def lead(preset: Preset, column: str, own: str, others: Iterable[str], metric: str, changed: str = "") -> float:
    """The mean difference, by seed, between a scheme and the row of others with the best mean."""
    best = max((preset(column, scheme, changed, metric) for scheme in others), key=float)
    return (preset(column, own, changed, metric) - best).mean


def test_structure() -> None:
    shown, tree = rows("structure"), "orthogonal-tree"
    for column in (f"{task}/breadth-to-depth" for task in TREE_TASKS):
        leads = [lead(medium, column, tree, among, METRICS[0]) for among in ((*FLAT, "tree"), FLAT)]
        assert shown.pop(column) == signed(*leads)
    for what, changed in (("copy", ""), ("rotate", ""), ("mask", "steps=3000")):
        for labels in ("token", "anonymous"):
            column = f"trees-stdlib-{what}-{labels}-depth"
            leads = [lead(small, column, tree, among, METRICS[0], changed) for among in ((*FLAT, "tree"), FLAT)]
            steps = ", 3,000 steps" * (what == "mask")
            assert shown.pop(f"{what}, {labels} labels{steps}") == signed(*leads)
    composite = ("forest-reverse/depth", "forest-rotate/depth", "word-grid-rotate", "quadtree-expand")
    for column in (*composite, "box-rotate", "grid-path"):
        own = "orthogonal" if column in composite else "orthogonal-grid"
        gap = small.exact(column, own).mean - small.best_other(column, own)
        assert shown.pop(column) == signed(gap, gap)
    assert not shown
    (line,) = (line for line in lines("structure") if line[0] == "rotate, anonymous labels")
    assert [cell.partition(" ")[2] for cell in line[1:]] == ["(tree)", "(sinusoidal)"]

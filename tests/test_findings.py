"""The figures of the findings have the numbers of the committed runs. `tests/nightly/test_results.py` draws them again.

The numbers are read from the committed SVG files, and computed from the raw evaluations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import pytest

from ape_cli.runs.record import evaluation_name
from ape_cli.runs.registry import open_registry
from results import figures, record, worth
from results.figures import sweeps
from results.numbers import FLAT, RUNS, SCHEMES, TREE_TASKS, Preset, evaluations, medium, paper, preprint, small
from results.queries.sizes import chosen_by_size
from results.queries.tables import bias, same_order
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
    bound = {scheme: plain(paper.exact(rotated, scheme)) for scheme in SCHEMES}
    bound["tree (max_size=7)"] = plain(paper.exact(rotated, "tree", "max_size=7"))
    assert rows("bound") == bound
    assert any("one seed, so there is no interval" in line[0] for line in lines("bound"))
    settings = {"sinusoidal": ["", "structure=grid(2)"], "orthogonal-grid": ["", "distance=euclidean"]}
    assert rows("images") == {
        f"{scheme} ({changed})" if changed else scheme: plain(small("images", scheme, changed))
        for scheme in ("none", "sinusoidal", "learned", "orthogonal-seq", "orthogonal-grid")
        for changed in settings.get(scheme, [""])
    }


def test_metric() -> None:
    """The rows are in the order of token accuracy, which is not that of exact match."""
    shown = rows("metric")
    assert shown == {s: plain(*(small("tree-ops/breadth", s, "", metric) for metric in METRICS)) for s in SCHEMES}
    tokens, whole = zip(*([float(cell) for cell in found[0]] for found in shown.values()), strict=True)
    assert list(tokens) == sorted(tokens, reverse=True)
    assert list(whole) != sorted(whole, reverse=True)


def lead(preset: Preset, column: str, own: str, others: Iterable[str], metric: str, changed: str = "") -> float:
    """The mean difference, by seed, between a scheme and the row of others with the best mean."""
    best = max((preset(column, scheme, changed, metric) for scheme in others), key=float)
    return (preset(column, own, changed, metric) - best).mean


def test_structure() -> None:
    shown, tree = rows("structure"), "orthogonal-tree"
    for column in (f"{task}/breadth-to-depth" for task in TREE_TASKS):
        others = [medium.schemes(column) - {tree}, FLAT]
        assert shown.pop(column) == signed(*(lead(medium, column, tree, among, METRICS[0]) for among in others))
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


def test_ingredients() -> None:
    """All rows but the tuned ones, in which validation scores choose a learning rate."""
    shown = {label: found[0] for label, found in rows("ingredients").items()}
    for name, pair in worth.INGREDIENTS.items():
        columns = [c for c in worth.COLUMNS if all(("small", c, *side) in evaluations() for side in pair)]
        differences = [small(column, *pair[0]) - small(column, *pair[1]) for column in columns]
        assert shown.pop(name.replace("`", ""), []) == [signed(of.mean)[0][0] for of in differences if of]
    assert shown.keys() <= {name.replace("`", "") for name in worth.TUNED}


def test_locality() -> None:
    shown = rows("locality")
    words, trees = ("reverse", "repeat"), ("tree-rotate/depth", "c3/breadth", "tree-ops/breadth")
    cells = (words, "none"), (words, "orthogonal-seq"), (trees, "orthogonal-seq"), (trees, "orthogonal-tree")
    for columns, scheme in cells:
        without, biased = (shown[f"{scheme}, {which}"].pop(0) for which in ("no bias", "bias"))
        for column, low, high in zip(columns, without, biased, strict=True):
            assert float(high) - float(low) == pytest.approx(bias(column, scheme).mean, abs=0.011)
            changed, given = ("decay=0.98", high) if scheme == "none" else ("decay=1", low)
            assert given == f"{small(column, scheme, changed).three}"
    assert not any(shown.values())


def unseen(sweep: str, largest: int, model: str = "encoder-decoder") -> dict[str, list[str]]:
    """The mean over sizes and over three seeds, by row, of the cells whose runs are all finished."""
    found: dict[str, list[str]] = {}
    for item, by_seed in chosen_by_size(sweep):
        config = item.config
        if config.model == model:
            means = [fmean(score for size, score in of.items() if size > largest) for of in by_seed]
            assert len(means) == 3
            name = config.scheme + ", randomised" * (config.positions == "randomised")
            found.setdefault(name, []).append(f"{fmean(means) + 1e-9:.2f}")
    return found


def test_beyond() -> None:
    wanted: dict[str, list[list[str]]] = {}
    for of in (unseen("length", 40, "decoder"), unseen("length", 40), unseen("depth", 5)):
        for row, cells in of.items():
            wanted.setdefault(row, []).append(sorted(cells))
    assert {row: [sorted(cells) for cells in found] for row, found in rows("beyond").items()} == wanted
    assert "depth above 5" in [line[0] for line in lines("beyond")]


def fake_run(
    scheme: str, data: str, steps: int, seed: int, by_op: list[dict[str, Any]], **variant: Any
) -> tuple[Any, Any]:
    dataset = SimpleNamespace(name=data, fingerprint=data)
    evaluations = {evaluation_name(data, "test", "teacher"): {"by_op": by_op}}
    about = SimpleNamespace(
        config=SimpleNamespace(scheme=scheme, steps=steps, seed=seed),
        dataset=dataset,
        status="finished",
        variant=variant,
    )
    return SimpleNamespace(evaluation=evaluations.get), about


def of_op(op: str, tokens: float, whole: float) -> dict[str, Any]:
    return {"op": op, "token_accuracy": tokens, "exact_match": whole}


def test_extraction_is_drawn_when_its_runs_are_there() -> None:
    usual = ("orthogonal-tree", "tree-ops-breadth-to-depth-small", 800)
    both = [of_op("no-op", 1.0, 1.0), of_op("extract", 0.5, 0.25), of_op("flip-extract", 0.1, 0.1)]
    runs = [fake_run(*usual, 42, both), fake_run(*usual, 43, [of_op("extract", 0.7, 0.35)])]
    runs.append(fake_run(*usual, 44, [of_op("extract", 0.9, 0.9)], decay=1))  # another row of table 2
    registry: Any = SimpleNamespace(readable=lambda: runs)
    assert not sweeps.extraction(registry).cells
    flipped = "orthogonal-tree", "tree-ops-flip-extract", 800
    runs.append(fake_run(*flipped, 42, [of_op("flip-extract", 0.2, 0.1)]))
    found = {row.label: row.cells for row in sweeps.extraction(registry).blocks[0].rows if row.cells}
    assert found.keys() == {"tree-ops, as in table 2 (800 steps)", "flip-extract only"}
    means = {name: [(column, round(cell.mean, 9)) for column, cell in of.items()] for name, of in found.items()}
    assert means == {
        "tree-ops, as in table 2 (800 steps)": [("token accuracy", 60), ("exact match", 30)],
        "flip-extract only": [("token accuracy", 20), ("exact match", 10)],
    }


def test_extraction() -> None:
    shown = rows("extraction")
    for label, data, steps in (
        ("3,200 steps", "tree-ops/breadth-to-depth", "steps=3200"),
        ("pointers to inner nodes only", "tree-ops-inner", ""),
        ("extract only, inner nodes", "tree-ops-extract-inner", ""),
        ("… 3,200 steps", "tree-ops-extract-inner", "steps=3200"),
        ("… 3,200 steps, 4 times the rows", "tree-ops-extract-inner-80000", "steps=3200"),
    ):
        scores = [small.by("op", "extract", data, "orthogonal-tree", steps, metric) for metric in METRICS]
        assert shown[label] == plain(*scores)


def test_a_figure_without_runs_is_left_out() -> None:
    digits = open_registry(RUNS / "digits.parquet")
    assert set(figures.findings(digits, {})) == {"images"}
    assert figures.findings(digits.only([]), {}) == {}


def test_a_row_without_runs_is_left_out() -> None:
    """The runs of table 1 at preset medium have words only."""
    found = figures.findings(open_registry(RUNS / "table1-medium.parquet"), {})
    assert {row.label: list(row.cells) for row in found["sinusoidal"].blocks[0].rows} == {
        "sinusoidal, in the preprint": ["tree-rotate/breadth", "copy"],
        "none, medium": ["copy"],
        "sinusoidal, medium": ["copy"],
    }

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
from tests.figures import text_lines
from tests.record.beyond import other_sizes
from tests.record.ingredients import extracted
from tests.record.paper_tasks import FLAT, TASKS, gains, mirrored
from tests.record.scores import RUNS, SCHEMES, evaluations, mean, preprint, scores
from tests.record.summary import TF32, best_beside, exact

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


def plain(*values: float) -> list[list[str]]:
    return [[f"{value:.2f}" for value in values]]


def signed(*values: float) -> list[list[str]]:
    return [[f"{round(value, 2) + 0:+.2f}" for value in values]]


def test_sinusoidal() -> None:
    columns = ("tree-rotate/breadth", "copy")
    assert rows("sinusoidal") == {
        "sinusoidal, in the preprint": plain(*(100 * preprint("sinusoidal", column).value for column in columns)),
        "none, medium": plain(*(mean(column, "none", preset="medium") for column in columns)),
        "sinusoidal, medium": plain(*(mean(column, "sinusoidal", preset="medium") for column in columns)),
        "sinusoidal, the preprint’s size": plain(mean(columns[0], "sinusoidal", TF32, "paper")),
    }


def test_order() -> None:
    assert rows("order") == {scheme: signed(*(mirrored(task, scheme) for task in TASKS)) for scheme in SCHEMES}


def by_seed(preset: str, column: str, scheme: str, variant: str, metric: str) -> dict[int, float]:
    runs = evaluations()[preset, column, scheme, variant]
    return {seed: 100 * own[0]["overall"][metric] for seed, own in runs.items()}


def lead(column: str, own: str, among: Iterable[str], preset: str, metric: str, variants: Iterable[str]) -> float:
    """The mean difference, by seed, between a scheme and the row of others with the best mean."""
    found = {
        (scheme, variant): by_seed(preset, column, scheme, variant, metric)
        for of, at, scheme, variant in evaluations()
        if (of, at) == (preset, column) and variant in variants and scheme in {own, *among}
    }
    (ours,) = (found.pop(row) for row in list(found) if row[0] == own)
    best = max(found.values(), key=lambda of: fmean(of.values()))
    return fmean(ours[seed] - best[seed] for seed in ours.keys() & best.keys())


def test_structure() -> None:
    shown = rows("structure")
    for task in TASKS:
        column = f"{task}/breadth-to-depth"
        given: tuple[Any, ...] = ("medium", METRICS[0], ("",))
        leads = [lead(column, "orthogonal-tree", among, *given) for among in ((*FLAT, "tree", "none"), FLAT)]
        assert shown.pop(column) == signed(*leads)
    for what, variants in (("copy", ("",)), ("rotate", ("",)), ("mask", ("steps=3000",))):
        for labels in ("token", "anonymous"):
            column, given = f"trees-stdlib-{what}-{labels}-depth", ("small", METRICS[0], variants)
            leads = [lead(column, "orthogonal-tree", among, *given) for among in ((*FLAT, "tree"), FLAT)]
            steps = ", 3,000 steps" * (what == "mask")
            assert shown.pop(f"{what}, {labels} labels{steps}") == signed(*leads)
    for column, own in {
        **dict.fromkeys(("forest-reverse/depth", "forest-rotate/depth"), "orthogonal"),
        **dict.fromkeys(("word-grid-rotate", "quadtree-expand"), "orthogonal"),
        **dict.fromkeys(("box-rotate", "grid-path"), "orthogonal-grid"),
    }.items():
        gap = exact(column, own) - best_beside(column, own, METRICS[1])
        assert shown.pop(column) == signed(gap, gap)
    assert not shown


def test_structure_names_the_other_row() -> None:
    (line,) = (line for line in lines("structure") if line[0] == "rotate, anonymous labels")
    assert [cell.partition(" ")[2] for cell in line[1:]] == ["(tree)", "(sinusoidal)"]


def test_ingredients() -> None:
    """All rows but the tuned ones, in which validation scores choose a learning rate."""
    shown = {label: found[0] for label, found in rows("ingredients").items()}
    for name, pair in worth.INGREDIENTS.items():
        found = []
        for column in worth.COLUMNS:
            sides = [("small", column, *side) for side in pair]
            if all(side in evaluations() for side in sides):
                ours, theirs = (by_seed(*side, METRICS[0]) for side in sides)
                if common := ours.keys() & theirs.keys():
                    found.append(signed(fmean(ours[seed] - theirs[seed] for seed in common))[0][0])
        assert shown.pop(name.replace("`", ""), []) == found
    assert shown.keys() <= {name.replace("`", "") for name in worth.TUNED}


def test_locality() -> None:
    shown = rows("locality")
    words, trees = ("reverse", "repeat"), ("tree-rotate/depth", "c3/breadth", "tree-ops/breadth")
    for columns, scheme in (
        (words, "none"),
        (words, "orthogonal-seq"),
        (trees, "orthogonal-seq"),
        (trees, "orthogonal-tree"),
    ):
        without, biased = (shown[f"{scheme}, {which}"].pop(0) for which in ("no bias", "bias"))
        for column, low, high in zip(columns, without, biased, strict=True):
            assert float(high) - float(low) == pytest.approx(fmean(gains(column, scheme)), abs=0.011)
            variant = "decay=1" if scheme.startswith("orthogonal") else "decay=0.98"
            given = high if scheme == "none" else low
            assert given == f"{fmean(scores(column, scheme, variant)[:3]):.2f}"
    assert not any(shown.values())


def test_metric() -> None:
    """The rows are in the order of token accuracy, which is not that of exact match."""
    column, shown = "tree-ops/breadth", rows("metric")
    assert shown == {scheme: plain(*(mean(column, scheme, metric=m) for m in METRICS)) for scheme in SCHEMES}
    tokens, whole = zip(*([float(cell) for cell in found[0]] for found in shown.values()), strict=True)
    assert list(tokens) == sorted(tokens, reverse=True)
    assert list(whole) != sorted(whole, reverse=True)


def test_bound() -> None:
    found = {scheme: exact("tree-rotate/breadth", scheme, TF32, "paper") for scheme in SCHEMES}
    found["tree (max_size=7)"] = exact("tree-rotate/breadth", "tree", f"max_size=7, {TF32}", "paper")
    assert rows("bound") == {row: plain(score) for row, score in found.items()}
    assert any("one seed, so there is no interval" in line[0] for line in lines("bound"))


def test_images() -> None:
    variants = {"sinusoidal": ["", "structure=grid(2)"], "orthogonal-grid": ["", "distance=euclidean"]}
    assert rows("images") == {
        f"{scheme} ({variant})" if variant else scheme: plain(mean("images", scheme, variant))
        for scheme in ("none", "sinusoidal", "learned", "orthogonal-seq", "orthogonal-grid")
        for variant in variants.get(scheme, [""])
    }


def unseen(sweep: str, largest: int, model: str = "encoder-decoder") -> dict[str, list[str]]:
    """The mean over sizes and over three seeds, by row, of the cells whose runs are all finished."""
    found: dict[str, list[str]] = {}
    for choice in record.planned(sweep).choices:
        config = choice.runs[0].config
        if config.model == model and all(item.state == "finished" for item in choice.runs):
            means = [
                fmean(score for size, score in other_sizes(item).items() if size > largest) for item in choice.runs
            ]
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
        tokens, whole = (extracted(data, "extract", steps, metric=metric) for metric in METRICS)
        assert shown[label] == plain(tokens, whole)


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

"""Each verdict of record follows from its runs, and each number in its sentence is one of them."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import pytest

from ape_cli.core.errors import left_out
from ape_cli.reports import published
from ape_cli.reports.views import verdicts
from ape_cli.runs.registry import open_registry
from results.numbers import Preset, evaluations, medium
from results.plans import RESULTS
from tests.test_results_page import NUMBER

HIGH = ("tree-copy", "tree-rotate")  # where interleaved powers leave the scores high


def judged(source: str) -> list[verdicts.Judged]:
    with left_out() as bad:
        cells = verdicts.read(open_registry(RESULTS), published.load(source))
    assert bad == []
    return cells


@pytest.fixture(scope="module")
def cells() -> list[verdicts.Judged]:
    """Returns the verdicts on the preprint."""
    return judged("paper")


@pytest.mark.parametrize("source", ["paper", "neurips"])
def test_each_verdict_of_a_file_follows_from_its_runs(source: str) -> None:
    of_source = judged(source)
    told = [cell for cell in of_source if cell.entry]
    assert [(c.number.row, c.number.column, c.follows) for c in told if c.follows != c.entry.verdict] == []
    if source == "paper":
        assert len(told) == len(of_source) == 60
        assert {c.follows for c in of_source} == {"reproduced", "differs, and why", "differs, cause open", "not run"}


def test_each_number_of_a_sentence_is_a_score_of_its_scheme_on_its_task(cells: list[verdicts.Judged]) -> None:
    wrong, seen = list[tuple[str, str]](), 0
    by_sentence = sorted(cells, key=lambda cell: cell.entry.sentence if cell.entry else "")
    for sentence, found in itertools.groupby(by_sentence, lambda cell: cell.entry.sentence if cell.entry else ""):
        group = list(found)
        own = {f"{abs(100 * value):.{digits}f}" for cell in group for value in _values(cell) for digits in (1, 2)}
        own |= {number for cell in group for number in _related(cell)}
        bounds = re.findall(r"[Ww]ithin (\S+) points", sentence)
        own |= {bound for bound in bounds if _bounds(float(bound) / 100, group)}
        own |= {f"{medium(f'{task}/breadth', 'tree-interleaved')}" for task in HIGH}
        asked = set(NUMBER.findall(re.sub(r"±\S+", "", sentence))) - {"85.46"}  # the paper's own
        seen += len(asked)
        wrong += [(number, sentence) for number in asked - own]
    assert wrong == []
    assert seen > 30


def _related(cell: verdicts.Judged) -> set[str]:
    """Returns the mean scores of all forms of its scheme on all forms of its task, at these two sizes."""
    task = cell.number.column.split("/")[0]
    return {
        f"{Preset(preset)(column, scheme, variant)}"
        for preset, column, scheme, variant in evaluations()
        if preset in ("paper", "medium") and column.startswith(task) and scheme.startswith((cell.number.row, "none"))
    }


def _values(cell: verdicts.Judged) -> list[float]:
    """Returns what a sentence may say of a cell: its numbers, the scores of its runs, and their range."""
    values = [x for x in (cell.difference, cell.left, cell.margin) if x is not None]
    for scores in (cell.ours, cell.caused):
        if scores:
            each = list(scores.by_run.values())
            values += [*each, scores.mean, max(each) - min(each)]
    return values + ([2 * cell.number.spread, cell.number.spread] if cell.number.spread is not None else [])


def _bounds(most: float, cells: list[verdicts.Judged]) -> bool:
    """Returns whether all differences are at most `most`, as in `within 0.2 points`. What a cause leaves counts."""
    return all(abs(x) <= most for c in cells if (x := c.difference if c.left is None else c.left) is not None)


def _judged(**changes: Any) -> verdicts.Judged:
    """Returns a cell of the preprint with 97.0 ±0.8, and runs around 99.97."""
    number = published.Number("Table 1", "reverse", "rope", "token_accuracy", 0.97, changes.pop("std", 0.008))
    fields: dict[str, Any] = {"ours": _scores(0.9997, 0.9998, 0.9996)} | changes
    return verdicts.Judged(number, published.load("paper"), **fields)


def _scores(*values: float) -> verdicts.RunScores:
    return verdicts.RunScores("medium", {str(number): value for number, value in enumerate(values)})


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "differs, cause open"),  # 2.97 points, and the margin is 1.6
        ({"std": 0.015}, "reproduced"),  # the margin is 3.0
        ({"ours": _scores(0.95, 1.0)}, "reproduced"),  # 0.5 points, and the seeds differ
        ({"ours": _scores(0.985)}, "reproduced"),  # one seed: the paper's deviation alone
        ({"std": None, "ours": _scores(0.9712)}, "differs, cause open"),  # no deviation: 0.1 points, and 0.005
        ({"std": 0.004, "ours": _scores(0.97805)}, "reproduced"),  # the margin itself: 0.805 points, but for rounding
        ({"caused": _scores(0.986)}, "differs, and why"),  # 1.6 points, but for rounding
        ({"caused": _scores(0.953)}, "differs, cause open"),  # 1.7 points
        ({"caused": verdicts.RunScores("paper", {"0": 0.97})}, "differs, cause open"),  # at another size
        ({"caused": _scores(0.90, 1.0)}, "differs, cause open"),  # scatter of the cause does not help it
        ({"ours": _scores(0.13), "caused": _scores(0.88)}, "differs, cause open"),  # 9 of 84 points
        ({"ours": _scores(0.13), "caused": _scores(0.89)}, "differs, and why"),  # 8 of 84 points
        ({"ours": None}, "not run"),
    ],
)
def test_the_rule(changes: dict[str, Any], verdict: str) -> None:
    assert _judged(**changes).follows == verdict


@pytest.mark.parametrize(
    ("value", "spread", "ours", "verdict"),
    [
        # the published deviation is 0.63 / 2.484138 / 5.68 = 0.0446; the margin 0.0893 + 0.005 / 5.68 = 0.0902
        (5.68, 0.63, (5.2,), "reproduced"),  # ln(5.2 / 5.68) = -0.0883
        (5.68, 0.63, (5.18,), "differs, cause open"),  # -0.0921
        # 64.86 ±6.41: the margin is 0.0797; 5 points are 8% there
        (64.86, 6.41, (60.0,), "reproduced"),  # -0.0779
        (64.86, 6.41, (59.8,), "differs, cause open"),  # -0.0812
        # 1.00 ±0.00: the margin is 2 · 0.005 / 2.484138 + 0.005 = 0.0090
        (1.00, 0.00, (1.0092,), "differs, cause open"),
        # our own deviation: ln 1.0 and ln 1.2 deviate by 0.1289, so the margin is 0.2578 + 0.005
        (1.00, 0.00, (1.0, 1.2), "reproduced"),  # the mean is 1.1: 0.0953
    ],
)
def test_the_rule_for_perplexity(value: float, spread: float, ours: tuple[float, ...], verdict: str) -> None:
    number = published.Number("Table 2b", "tree-copy/depth", "sinusoidal", "perplexity", value, spread)
    assert verdicts.Judged(number, published.load("neurips"), _scores(*ours)).follows == verdict


def test_each_cell_of_the_published_paper_has_a_verdict() -> None:
    """No run translates. A perplexity divides the sum of the nats by the count of the authors' program."""
    found = {(cell.number.row, cell.number.column): cell for cell in judged("neurips")}
    assert len(found) == 120
    assert {cell.follows for cell in found.values() if cell.number.metric == "bleu"} == {"not run"}
    cell = found["sinusoidal", "reverse"]
    assert cell.ours is not None
    runs = evaluations()["medium", "reverse", "sinusoidal", ""].values()
    overall = [run[0]["overall"] for run in runs]
    nats = [(of["cross_entropy"] * of["tokens"], of["tokens"] + 31 / 32 * of["rows"]) for of in overall]
    expected = sorted(math.exp(of / count) for of, count in nats)
    assert sorted(cell.ours.by_run.values()) == pytest.approx(expected)

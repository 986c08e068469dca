"""Each verdict of record follows from its runs, and each number in its sentence is one of them."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import Any

import pytest

from ape_cli.reports import paper, verdicts
from ape_cli.runs.record import settings_text
from ape_cli.runs.registry import open_registry
from tests.record.scores import NUMBER, RESULTS, RUNS, evaluations, mean

HIGH = ("tree-copy", "tree-rotate")  # where interleaved powers leave the scores high
SIZES = (("paper", "precision=tf32"), ("paper", ""), ("medium", ""))  # from the largest, with the settings of its runs


@pytest.fixture(scope="module")
def cells() -> list[verdicts.Judged]:
    return verdicts.read(RESULTS)


@pytest.fixture(scope="module")
def finished() -> dict[tuple[str, str, str, str], list[str]]:
    """Returns the names of the finished runs of record by preset, column, scheme and settings."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for run, about in open_registry(RUNS).readable([]):
        data = about.dataset
        usual = "mirror" not in data.parameters and "truncated" not in data.name
        if about.status == "finished" and usual:
            column = f"{data.task}/{data.order}" if data.order else data.task
            key = about.config.preset, column, about.config.scheme, settings_text(about.variant)
            found.setdefault(key, []).append(run.name)
    return found


def test_each_cell_of_the_paper_has_one_verdict(cells: list[verdicts.Judged]) -> None:
    every = Counter((number, *key) for number in (1, 2, 3) for key in paper.table(number))
    assert Counter((cell.verdict.table, cell.verdict.scheme, cell.column) for cell in cells) == every
    assert every.total() == 60


def test_each_verdict_follows_from_its_runs(cells: list[verdicts.Judged]) -> None:
    assert [(c.verdict.scheme, c.column, c.follows) for c in cells if c.follows != c.verdict.verdict] == []
    assert {c.follows for c in cells} == {"reproduced", "differs, and why", "differs, cause open", "not run"}


def test_the_evidence_is_every_run_of_the_largest_size(
    cells: list[verdicts.Judged], finished: dict[tuple[str, str, str, str], list[str]]
) -> None:
    """A new run at the paper's size makes its cell fail, so that someone looks at the verdict again."""
    for cell in cells:
        if cell.verdict.table < 3:
            keys = [(preset, cell.column, cell.verdict.scheme, settings) for preset, settings in SIZES]
            largest = next(finished[key] for key in keys if key in finished)
            assert (cell.column, cell.verdict.evidence[cell.column]) == (cell.column, sorted(largest))


def test_the_runs_of_a_cause_are_all_of_their_kind(
    cells: list[verdicts.Judged], finished: dict[tuple[str, str, str, str], list[str]]
) -> None:
    kinds = {name: key for key, names in finished.items() for name in names}
    for cell in cells:
        names = cell.verdict.cause.get(cell.column, [])
        if usual := [kinds[name] for name in names if name in kinds]:  # the others have a dataset of their own
            (key,) = set(usual)
            assert names == sorted(finished[key])
            larger = [(p, *key[1:3], s) for p, s in SIZES[: [p for p, _ in SIZES].index(key[0])]]
            assert not any(of in finished for of in larger), "there are larger runs of this cause"


def test_each_number_of_a_sentence_is_a_score_of_its_scheme_on_its_task(cells: list[verdicts.Judged]) -> None:
    wrong, seen = list[tuple[str, str]](), 0
    for sentence, found in itertools.groupby(cells, lambda cell: cell.verdict.sentence):
        group = list(found)
        own = {f"{abs(100 * value):.{digits}f}" for cell in group for value in _values(cell) for digits in (1, 2)}
        own |= {number for cell in group for number in _related(cell)}
        bounds = re.findall(r"[Ww]ithin (\S+) points", sentence)
        own |= {bound for bound in bounds if _bounds(float(bound) / 100, group)}
        own |= {f"{mean(f'{task}/breadth', 'tree-interleaved', preset='medium'):.2f}" for task in HIGH}
        asked = set(NUMBER.findall(re.sub(r"±\S+", "", sentence))) - {"85.46"}  # the paper's own
        seen += len(asked)
        wrong += [(number, sentence) for number in asked - own]
    assert wrong == []
    assert seen > 30


def _related(cell: verdicts.Judged) -> set[str]:
    """Returns the mean scores of all forms of its scheme on all forms of its task, at these two sizes."""
    task = cell.column.split("/")[0]
    return {
        f"{mean(column, scheme, variant, preset):.2f}"
        for preset, column, scheme, variant in evaluations()
        if preset in ("paper", "medium")
        and column.startswith(task)
        and scheme.startswith((cell.verdict.scheme, "none"))
    }


def _values(cell: verdicts.Judged) -> list[float]:
    """Returns what a sentence may say of a cell: its numbers, the scores of its runs, and their range."""
    values = [x for x in (cell.difference, cell.left, cell.margin) if x is not None]
    for scores in (cell.ours, cell.caused):
        if scores:
            each = list(scores.by_run.values())
            values += [*each, scores.mean, max(each) - min(each)]
    return values + ([2 * cell.std, cell.std] if cell.std is not None else [])


def _bounds(most: float, cells: list[verdicts.Judged]) -> bool:
    """Returns whether all differences are at most `most`, as in `within 0.2 points`. What a cause leaves counts."""
    return all(abs(x) <= most for c in cells if (x := c.difference if c.left is None else c.left) is not None)


def _judged(**changes: Any) -> verdicts.Judged:
    """Returns a cell of the paper with 97.0 ±0.8, and runs around 99.97."""
    about = verdicts.Verdict(table=1, scheme="rope", columns=["reverse"], verdict="not run", sentence="")
    fields: dict[str, Any] = {"verdict": about, "column": "reverse", "mean": 0.97, "std": 0.008, "caused": None}
    return verdicts.Judged(**fields | {"ours": _scores(0.9997, 0.9998, 0.9996)} | changes)


def _scores(*values: float) -> verdicts.RunScores:
    return verdicts.RunScores("medium", {str(number): value for number, value in enumerate(values)})


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "differs, cause open"),  # 2.97 points, and the margin is 1.6
        ({"std": 0.015}, "reproduced"),  # the margin is 3.0
        ({"ours": _scores(0.985, 0.986)}, "reproduced"),  # 1.55 points
        ({"ours": _scores(0.95, 1.0)}, "reproduced"),  # 0.5 points, and the seeds differ
        ({"ours": _scores(0.985)}, "reproduced"),  # one seed: the paper's deviation alone
        ({"std": None, "ours": _scores(0.9712)}, "differs, cause open"),  # no deviation: 0.1 points
        ({"std": None, "ours": _scores(0.9709)}, "reproduced"),
        ({"caused": _scores(0.957)}, "differs, and why"),  # the cause leaves 1.3 points
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

"""The rule of the page "Free group or distance?", by hand."""

from __future__ import annotations

import itertools

import pytest

from results import controls
from results.controls import CONTROLS, on_task, standing, verdict
from results.numbers import TREE_TASKS, Scores, medium


def scores(*gaps: float) -> Scores:
    return Scores(enumerate(gaps, 42))


def test_standings_by_hand() -> None:
    """Six gaps of deviation 1 have an interval of half width 2.570582 / sqrt(6) = 1.049436."""
    even = (-1.0, 1.0) * 3  # deviation sqrt(6 / 5)
    half = 1.049436 * (6 / 5) ** 0.5
    assert scores(*even).half == pytest.approx(half, abs=1e-5)
    for mean, said in ((0.99 - half, "enough"), (1.01 - half, "open"), (half - 0.01, "open"), (half + 0.01, "behind")):
        assert standing(scores(*(mean + x for x in even))) == said
    assert standing(scores(*[0.0] * 6)) == standing(scores(*[-9.0] * 6)) == "enough"
    assert standing(scores(*(0.5 + x / 10 for x in even))) == "enough"  # above 0, but by less than a point
    assert standing(scores(9, 9, 9, 9, 9)) == standing(scores()) == ""


def test_a_task_has_both_metrics() -> None:
    assert on_task(["enough", "enough"]) == "enough"
    assert on_task(["enough", "open"]) == "open"
    assert on_task(["open", "behind"]) == on_task(["behind", "enough"]) == "behind"
    assert on_task(["behind", ""]) == ""


def answer(default: str, changed: dict[tuple[str, str], str]) -> str:
    return verdict({(c, t): default for c in CONTROLS for t in TREE_TASKS} | changed).split(".")[0].strip("*").lower()


def test_the_first_answer_that_holds() -> None:
    path, learned, tree = ({(c, t): "enough" for t in TREE_TASKS} for c in ("tree-path", "tree-learned", "tree"))
    assert answer("behind", path | tree) == "distance suffices"
    assert answer("behind", learned) == "the group is not needed, but distance does not suffice"
    assert answer("open", {(c, "c3"): "behind" for c in CONTROLS}) == "the group matters"
    behind = {c: {(c, t): "behind" for t in TREE_TASKS} for c in CONTROLS}
    assert verdict(behind["tree"] | behind["wire"] | behind["tree-path"]).endswith(
        "All controls are behind on all four tasks."
    )
    assert verdict(behind["tree"] | behind["wire"]).endswith("Both controls are behind on all four tasks.")
    assert verdict(behind["tree"] | behind["wire"] | {("tree", "c3"): "open"}).endswith(
        "`tree-copy`, `tree-rotate`, `tree-ops`."
    )
    assert answer("behind", {("tree", t): "open" for t in TREE_TASKS}) == "open"
    assert answer("enough", {(c, "c3"): "open" for c in CONTROLS}) == "open"
    assert answer("enough", {("tree", "c3"): ""}) == "not decided yet"


def test_the_words_of_the_pages_follow_from_the_runs() -> None:
    """The README says that distance does not suffice, and on which tasks `tree-learned` is close."""
    assert controls.answer() == "**The group matters.** All controls are behind on all four tasks."
    assert controls.best() == ["tree-learned", "tree"]
    assert controls.answer(medium) == controls.answer().replace("All", "Both")
    copy, rotate, c3, ops = controls.gaps("tree-learned")
    assert max(copy, rotate) < 0.5 < ops < c3
    assert all(learned < of for learned, of in zip(controls.gaps("tree-learned"), controls.gaps("tree"), strict=True))
    assert min(controls.gaps(*controls.DISTANCES, *controls.SPECTRA)) > 25
    for metric, task in itertools.product(controls.METRICS, TREE_TASKS):
        closer = controls.scores("tree", task, metric, medium) - controls.scores("tree-learned", task, metric, medium)
        assert {gap > 0 for gap in closer.values()} == {task != "tree-ops"}


def test_a_gap_is_paired_by_seed() -> None:
    """`tree` has run with the seeds of `orthogonal-tree`; the words of a cell are those of its interval."""
    gap = controls.gap("tree", "c3", "token_accuracy")
    assert sorted(gap) == list(range(42, 48))
    assert controls.cell(gap).endswith(", behind")
    assert controls.gap("no such row", "c3", "token_accuracy") == {}
    assert controls.cell(Scores()) == "—"


def test_the_two_best_controls_are_those_with_the_best_exact_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tree-path` and `wire` are equal by exact match. The mean is over tasks, so one good task is not enough."""
    exact = {"tree": 50.0, "tree-path": 40.0, "wire": 40.0}
    token = {"wire": 60.0, "tree-distance": 99.0}
    several = {"seeds": 6}

    def chosen(control: str, task: str, metric: str) -> Scores:
        of = (exact if metric == "exact_match" else token).get(control, 10.0)
        best = 90.0 if (control, task) == ("tree-distance", "c3") else of
        return scores(*[best] * several["seeds"])

    monkeypatch.setattr(controls, "scores", chosen)
    assert controls.best() == ["tree", "wire"]
    several["seeds"] = 5
    assert controls.best() == []
    assert controls.answer(medium).startswith("**Not decided yet.**")

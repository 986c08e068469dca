"""The page of the fifteen tasks: what counts as learned, on scores that are made up here, and the published names."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import pytest

from ape_cli.experiment import suites
from results.queries import chomsky


def run(exact: float, beyond: dict[int, tuple[float, float]]) -> list[dict[str, Any]]:
    """The evaluations of a run: exact match in training, and token accuracy and exact match at other sizes."""
    chance = {"token_accuracy": 0.6, "exact_match": 0.2}
    lines = [
        {"size": size, "token_accuracy": tokens, "exact_match": rows, "chance": chance}
        for size, (tokens, rows) in beyond.items()
    ]
    own = {"overall": {"exact_match": exact}, "by_size": []}
    common = {"split": "test", "decode": "teacher"}
    return [common | own, common | {"test_only": True, "overall": {}, "by_size": lines}]


@pytest.fixture(autouse=True)
def _runs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        ("even-pairs", "none"): {42: run(0.5, {23: (0.9, 0.5), 100: (0.9, 0.5)})},
        ("even-pairs", "rope"): {
            42: run(1.0, {23: (0.9, 1.0), 100: (0.9, 0.9)}),
            43: run(0.8, {23: (0.9, 0.9), 100: (0.9, 0.8)}),
        },
        ("reverse-string", "rope"): {42: run(0.95, {23: (0.7, 0.0), 100: (0.5, 0.0)})},
    }
    monkeypatch.setattr(chomsky, "chomsky", lambda: found)


def test_a_task_is_learned_at_the_training_lengths() -> None:
    """The mean of 100 and 80 is 90, which is enough."""
    assert chomsky.learned_table().splitlines()[2:] == [
        "| even-pairs | 1 of 2 | 50.0 | **90.0** | 48.6 | 52.0 |",
        "| reverse-string | 1 of 1 |  | **95.0** | 2.8 | 10.5 |",
    ]


def test_answers_count_where_they_are_one_symbol_and_tokens_where_they_are_strings() -> None:
    assert chomsky.beyond_table().splitlines()[2:] == [
        "| even-pairs | not learned | **90.0** | 20.0 |",
        "| reverse-string |  | 60.0 | 60.0 |",
    ]


def test_repeating_a_symbol_is_not_carrying_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes the bound on average over the test lengths, which are those of the sweep."""
    assert f'generalise = "{",".join(map(str, chomsky.LONGER))}"' in (chomsky.ROOT / "results/chomsky.toml").read_text()
    assert fmean(map(chomsky.sorted_by_repetition, chomsky.LONGER)) > chomsky.CARRIED
    key = (chomsky.REPEATED, "rope")
    monkeypatch.setattr(chomsky, "chomsky", lambda: {key: {42: run(1.0, {23: (0.95, 0.0)})}})
    assert chomsky.learned(*key)
    assert not chomsky.carries_over(*key)
    assert chomsky.beyond_table().splitlines()[2:] == ["| bucket-sort | 95.0 | 60.0 |"]


@pytest.mark.parametrize(
    ("done", "end"),
    [((270, 270), ""), ((4, 270), " So far, 4 of 270 runs are finished, with 1 to 2 of 3 seeds each.")],
)
def test_the_answer_counts_tasks(done: tuple[int, int], end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chomsky, "standing", lambda sweep: done)
    assert chomsky.chomsky_answer() == (
        "2 of 2 tasks are learned: 2 by `rope`, and 0 by each of the others. At up to five times the training "
        "length, these carry over: `rope` on `even-pairs`." + end
    )


def test_every_published_task_has_a_line() -> None:
    names = [task.name for task in suites.load("chomsky").tasks]
    assert list(chomsky.published_plans()) == names
    assert chomsky.SHARED.keys() == {*names}
    assert {*names} > chomsky.STRINGS
    lines = chomsky.fifteen().splitlines()[2:]
    assert [line.split(" | ")[1] for line in lines] == names
    assert {line.split(" | ")[5] for line in lines} == {"66"}

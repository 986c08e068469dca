"""flip-flop: a memory that is simulated instruction by instruction, and instructions distributed as in the paper."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from tests.tasks.contract import count_of, in_splits, rows

FORMS: list[dict[str, Any]] = [
    {},
    {"ignore_probability": 0.1, "length_mean": 12, "length_std": 3},
    {"ignore_probability": 0.98, "vocabulary": 30},
    {"ignore_probability": 0.0, "read_share": 0.9, "length_mean": 6},
    {"ignore_probability": 1.0, "length_mean": 9, "length_std": 2},
    {"sizes": (20, 2, 5), "vocabulary": 7},
]


def instructions(row: dict[str, Any]) -> list[tuple[str, str]]:
    """The instructions of a source, each with its symbol, or without one."""
    names = iter(row["source"])
    return [(name, "" if name == "read" else next(names)) for name in names]


@pytest.mark.parametrize(("form", "split"), in_splits(FORMS), ids=str)
def test_target_is_rederived(form: dict[str, Any], split: str) -> None:
    task, found = rows("flip-flop", split=split, count=count_of(form, FORMS), **form)
    for row in found:
        steps = instructions(row)
        memory, returned = None, []
        for name, symbol in steps:
            if name == "write":
                memory = symbol
            elif name == "read":
                returned.append(memory)
            else:
                assert name == "ignore"
            assert (name == "read") == (symbol == "")
            assert symbol in {"", *map(str, range(task.vocabulary))}
        assert row["target"] == returned
        assert (steps[0][0], steps[-1][0]) == ("write", "read")
        assert row["size"] == len(steps)


@pytest.mark.parametrize(
    ("form", "expected"),
    [  # the paper's FFL(p): p, (1 - p) / 2, (1 - p) / 2
        ({}, {"ignore": 0.8, "write": 0.1, "read": 0.1}),
        ({"ignore_probability": 0.1}, {"ignore": 0.1, "write": 0.45, "read": 0.45}),
        ({"ignore_probability": 0.5, "read_share": 0.2}, {"ignore": 0.5, "write": 0.4, "read": 0.1}),
    ],
    ids=str,
)
def test_instructions_are_drawn_as_in_the_paper(form: dict[str, Any], expected: dict[str, float]) -> None:
    """Independently of each other, between the first and the last one."""
    found = rows("flip-flop", count=4_000, length_mean=30, length_std=3, **form)[1]
    names: Counter[str] = Counter()
    twice: Counter[tuple[str, str]] = Counter()
    symbols: Counter[tuple[str, str]] = Counter()
    for row in found:
        steps = instructions(row)
        inner = [name for name, _ in steps[1:-1]]
        names.update(inner)
        twice.update(zip(inner[::2], inner[1::2], strict=False))
        symbols.update(steps)
    for name, chance in expected.items():
        n = names.total()
        assert abs(names[name] / n - chance) < 4 * math.sqrt(chance * (1 - chance) / n)
    for (one, two), count in twice.items():
        chance, n = expected[one] * expected[two], twice.total()
        assert abs(count / n - chance) < 4.5 * math.sqrt(chance * (1 - chance) / n)
    for name in ("write", "ignore"):
        zeros, ones = symbols[name, "0"], symbols[name, "1"]
        assert abs(zeros - ones) < 4 * math.sqrt(zeros + ones)


@pytest.mark.parametrize(
    ("sizes", "most_written", "last_written"),
    [({}, 0.68, 0.67), ({"length_mean": 20, "length_std": 2}, 0.77, 0.83)],
)
def test_shortcuts_are_as_good_as_described(sizes: dict[str, Any], most_written: float, last_written: float) -> None:
    """Answers that need no order, or only the end of the source. Thousands of reads have errors below 0.01."""
    right, reads = Counter[str](), 0
    for row in rows("flip-flop", count=2000, **sizes)[1]:
        written = [symbol for name, symbol in instructions(row) if name == "write"]
        guesses = {"most": max(sorted(set(written)), key=written.count), "last": written[-1]}
        reads += len(row["target"])
        right.update(name for name, guess in guesses.items() for target in row["target"] if target == guess)
    assert right["most"] / reads == pytest.approx(most_written, abs=0.015)
    assert right["last"] / reads == pytest.approx(last_written, abs=0.015)


def test_floors_at_preset_small() -> None:
    """The symbol that is written most often, or last in the source, as the answer to every read of a test row."""
    most = last = 0
    for row in rows("flip-flop", split="test", count=1_000, length_mean=20, length_std=2)[1]:
        written = [symbol for name, symbol in instructions(row) if name == "write"]
        most += set(row["target"]) == {max("01", key=written.count)}
        last += set(row["target"]) == {written[-1]}
    assert (most / 1_000, last / 1_000) == (0.598, 0.689)  # quoted in docs/{explanation,results}/tasks.md

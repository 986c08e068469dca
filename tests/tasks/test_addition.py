"""addition: sums re-derived with Python's integers, every form of writing numbers, and what is drawn."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from ape_cli.core import ragged
from ape_cli.core.vocabulary import SPLITS
from ape_cli.tasks.addition import carried
from tests.tasks.contract import check_uniform, count_of, in_splits, rows

FORMS: list[dict[str, Any]] = [
    {},
    {"reverse": True},
    {"pad": True},
    {"reverse": True, "pad": True, "base": 2},
    {"index_hints": True, "index_symbols": 60},
    {"index_hints": True, "index_symbols": 60, "reverse": True, "random_start": True, "base": 36},
    {"index_hints": True, "index_symbols": 60, "pad": True, "random_start": True},
    {"digits_mean": 600, "digits_std": 50},
    {"digits_mean": 1.2, "digits_std": 0.5, "base": 2, "pad": True, "reverse": True}
    | {"index_hints": True, "index_symbols": 6},
]


def read(names: list[str], task: Any) -> tuple[int, int, list[int]]:
    """The value of a number as it is written, its number of digits, and the places that its hints name."""
    hints = []
    if task.index_hints:
        hints, names = [int(name.removeprefix("#")) for name in names[::2]], names[1::2]
    ordered = names[::-1] if task.reverse else names
    return int("".join(ordered), task.base), len(ordered), hints


@pytest.mark.parametrize(("form", "split"), in_splits(FORMS), ids=str)
def test_target_is_rederived(form: dict[str, Any], split: str) -> None:
    task, found = rows("addition", split=split, count=count_of(form, FORMS), **form)
    for row in found:
        plus = row["source"].index("+")
        parts = [row["source"][:plus], row["source"][plus + 1 :], row["target"]]
        (a, m, _), (b, n, _), (total, width, _) = (read(part, task) for part in parts)
        assert total == a + b
        if task.pad:
            assert m == n == width == row["size"] + 1
            assert max(a, b) >= task.base ** (row["size"] - 1) - (row["size"] == 1)
        else:
            assert row["size"] == max(m, n)
            for value, count in ((a, m), (b, n), (total, width)):
                assert count == 1 if value == 0 else task.base ** (count - 1) <= value < task.base**count
        check_hints(parts, task)


def check_hints(parts: list[list[str]], task: Any) -> None:
    """In each number, hints count on from the same start, beginning at the least significant digit."""
    if task.index_hints:
        offsets = set()
        for part in parts:
            _, count, hints = read(part, task)
            upwards = hints if task.reverse else hints[::-1]
            assert upwards == list(range(upwards[0], upwards[0] + count))
            offsets.add(upwards[0])
        assert len(offsets) == 1
        assert task.random_start or offsets == {0}


@pytest.mark.parametrize("base", [2, 3, 10])
def test_carries_run_as_far_as_digits_let_them(base: int) -> None:
    """base^n - 1 and 1: one carry passes through all places. No carry reaches the next sum."""
    sums = []  # the digits of each sum, and the sums of digits that they come from
    for width in (1, 2, 5, 700):
        sums.append(([0] * width + [1], [base, *[base - 1] * (width - 1), 0]))  # passes through
        sums.append(([0] * width, [base, *[base - 1] * (width - 1)]))  # the last carry has no place, and is dropped
        sums.append(([base - 1] * width + [0], [*[base - 1] * width, 0]))  # nothing to pass on
        sums.append(([0] * width, [base, *[base - 1] * (width - 1)]))
        sums.append(([0] * width, [0] * width))
    expected, totals = map(list, zip(*sums, strict=True))
    offsets = ragged.offsets_of(np.array([len(row) for row in totals]))
    digits = carried(np.concatenate(totals), offsets, base)
    assert [digits[a:b].tolist() for a, b in itertools.pairwise(offsets)] == expected


def test_numbers_are_drawn_as_described() -> None:
    """Lengths are those of the normal distribution; leading digits are 1..9, the others 0..9, all of them uniform."""
    first: Counter[str] = Counter()
    others: Counter[str] = Counter()
    lengths = []
    for row in rows("addition", count=20_000, digits_mean=6, digits_std=1.5)[1]:
        numbers = "".join(row["source"]).split("+")
        lengths += map(len, numbers)
        for number in numbers:
            if len(number) > 1:
                first[number[0]] += 1
                others.update(number[1:])
    assert abs(np.mean(lengths) - 6) < 4 * 1.5 / 40_000**0.5
    assert abs(np.corrcoef(lengths[::2], lengths[1::2])[0, 1]) < 0.03
    assert "0" not in first
    assert {name for row in rows("addition", digits_mean=1, digits_std=0)[1] for name in row["source"]} >= {"0"}
    check_uniform(first, 9)
    check_uniform(others, 10)


def test_there_are_as_many_index_symbols_as_needed() -> None:
    """By default, one more than the largest number has digits."""
    for options, symbols in [({"digits_mean": 3.0, "digits_std": 0.0}, 4), ({"sizes": (2, 5)}, 6)]:
        task, found = rows("addition", count=300, index_hints=True, **options)
        assert task.id_names[-symbols:] == [f"#{i}" for i in range(symbols)]
        largest = max(i for row in found for i in row["target_ids"])
        assert task.id_names[largest] == f"#{symbols - 1}"


@pytest.mark.parametrize("form", [{}, {"index_hints": True, "index_symbols": 60, "random_start": True}, {"pad": True}])
def test_a_sum_is_in_one_split_however_it_is_written(form: dict[str, Any]) -> None:
    """Neither with the numbers exchanged, nor with hints from another start."""
    held: list[set[frozenset[int]]] = []
    for split in SPLITS:
        held.append(set())
        for row in rows("addition", split=split, digits_mean=2, digits_std=0, **form)[1]:
            text = "".join(name for name in row["source"] if name[0] != "#")
            held[-1].add(frozenset(int(number) for number in text.split("+")))
    assert min(map(len, held)) > 100
    assert sum(map(len, held)) == len(set().union(*held))

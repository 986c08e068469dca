"""binary-addition, binary-multiplication and compute-sqrt: re-derived with Python's integers; sources as published."""

from __future__ import annotations

import math
from collections import Counter
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest

from ape_cli import tasks
from ape_cli.core import rng
from ape_cli.core.vocabulary import SPLITS
from tests.tasks.contract import check_uniform, count_of, in_splits, names_of, rows, source_of

FORMS: list[dict[str, Any]] = [{"length_mean": 9, "length_std": 3}, {"sizes": "1-20,37,500"}]
SIGNS = {"binary-addition": "+", "binary-multiplication": "*"}


def value(bits: str) -> int:
    """The value of bits, least significant first."""
    return int(bits[::-1] or "0", 2)


def written(number: int) -> str:
    return f"{number:b}"[::-1]


def expected(name: str, source: str) -> str:
    """The published answer."""
    if name == "compute-sqrt":
        return f"{math.isqrt(int(source, 2)):b}".zfill(math.ceil(len(source) / 2))
    first, _, second = source.partition(SIGNS[name])
    if name == "binary-addition":
        return written(value(first) + value(second))
    return written(value(first) * value(second)) if second else "0" * (len(source) - 1)


def texts(name: str, sizes: str | int) -> list[str]:
    """Sources as they are drawn, before they are divided among splits."""
    task: Any = tasks.make(name, sizes=sizes)
    source = task.parts[0].draw(rng.rows(5, "train", np.arange(4_000)))
    return ["".join(task.id_names[i] for i in row) for row in np.split(source.symbol, source.offsets[1:-1])]


@pytest.mark.parametrize("name", [*SIGNS, "compute-sqrt"])
@pytest.mark.parametrize(("form", "split"), in_splits(FORMS), ids=str)
def test_target_is_rederived(name: str, form: dict[str, Any], split: str) -> None:
    for row in rows(name, split=split, count=count_of(form, FORMS), **form)[1]:
        source = "".join(row["source"])
        assert len(source) == row["size"]
        assert "".join(row["target"]) == expected(name, source)
        if name == "compute-sqrt":
            assert 1 <= int(source, 2)
        elif len(source) < 3:
            assert source in ("0", "00", "10", "01")
        else:
            first, second = source.split(SIGNS[name])
            assert min(value(first), value(second)) >= 1


def test_samples_of_the_source() -> None:
    """The published docstring of compute-sqrt gives 101 as the root of 37, but the program computes 110."""
    for name, samples in {
        "binary-addition": {"001+01101": "01011", "1001+000001": "100101"},
        "binary-multiplication": {"001*01101": "0001101", "1001*000001": "000001001"},
        "compute-sqrt": {"100101": "110", "111": "10"},
    }.items():
        task: Any = tasks.make(name)
        target = names_of(task, task.target(source_of(task, [" ".join(text) for text in samples])))
        assert [text.replace(" ", "") for text in target] == list(samples.values())


@pytest.mark.parametrize("name", SIGNS)
def test_signs_and_numbers_are_uniform(name: str) -> None:
    sources = texts(name, 7)
    check_uniform(Counter(source.index(SIGNS[name]) for source in sources), 5)
    for place in (1, 2, 4):
        pairs = Counter(source for source in sources if source[place] == SIGNS[name])
        check_uniform(pairs, (2**place - 1) * (2 ** (6 - place) - 1))
    assert set(texts(name, 1)) == {"0"}
    check_uniform(Counter(texts(name, 2)), 3)


def test_numbers_are_uniform() -> None:
    check_uniform(Counter(texts("compute-sqrt", 5)), 31)
    assert set(texts("compute-sqrt", 1)) == {"1"}


@pytest.mark.parametrize("name", SIGNS)
def test_a_pair_of_numbers_is_in_one_split(name: str) -> None:
    """Also with the numbers exchanged, and with other zeros."""
    held: list[set[frozenset[int]]] = []
    for split in SPLITS:
        sources = ["".join(row["source"]) for row in rows(name, split=split, length_mean=14, length_std=1)[1]]
        held.append({frozenset(map(value, source.split(SIGNS[name]))) for source in sources})
    assert min(map(len, held)) > 100
    assert sum(map(len, held)) == len(set().union(*held))


def right(guesses: list[str], targets: list[str]) -> tuple[int, int]:
    """The shares of tokens and of rows that are right (%)."""
    pairs = [(a == b, b is not None) for row in zip(guesses, targets, strict=True) for a, b in zip_longest(*row)]
    tokens = sum(same for same, _ in pairs) / sum(counted for _, counted in pairs)
    return round(100 * tokens), round(100 * np.mean(np.equal(guesses, targets)))


@pytest.mark.parametrize(
    ("length", "no_carry", "longer", "place"), [(20, (80, 24), (51, 18), 55), (40, (82, 13), (44, 8), 53)]
)
def test_guesses_are_as_good_as_described(
    length: int, no_carry: tuple[int, int], longer: tuple[int, int], place: int
) -> None:
    """Addition without carries; the longer factor as a product; the most frequent bit of each place of a root."""
    sources = texts("binary-addition", length)
    sums = [written(value(a) ^ value(b)) for a, b in (source.split("+") for source in sources)]
    assert right(sums, [expected("binary-addition", source) for source in sources]) == pytest.approx(no_carry, abs=1)
    sources = texts("binary-multiplication", length)
    factors = [written(value(max(source.split("*"), key=len))) for source in sources]
    found = right(factors, [expected("binary-multiplication", source) for source in sources])
    assert found == pytest.approx(longer, abs=1)
    roots = [expected("compute-sqrt", source) for source in texts("compute-sqrt", length)]
    ones = np.array([[bit == "1" for bit in root] for root in roots]).mean(axis=0)
    assert 100 * np.maximum(ones, 1 - ones).mean() == pytest.approx(place, abs=1)

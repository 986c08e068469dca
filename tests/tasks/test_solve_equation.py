"""solve-equation: solutions found by trying every digit, and equations that are drawn as published."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from ape_cli.core.vocabulary import SPLITS
from tests.tasks.contract import ROWS, check_uniform, make, names_of, rows, source_of
from tests.tasks.test_modular import parsed, published_parts, value


def solutions(text: str, modulus: int) -> list[int]:
    """The digits that solve an equation, by Python's parser."""
    expression, result = text.split("=")
    return [x for x in range(modulus) if (value(parsed(expression.replace("x", str(x)))) - int(result)) % modulus == 0]


@pytest.mark.parametrize("split", SPLITS)
def test_target_is_rederived(split: str) -> None:
    """Each equation has the published grammar and one solution. Sources of one and two tokens are zeros."""
    for modulus, count in ((5, ROWS), (2, 41), (10, 41)) if split == "train" else ((5, 123),):
        for row in rows("solve-equation", split=split, count=count, modulus=modulus, sizes="1-40,500")[1]:
            text = "".join(row["source"])
            assert len(text) == row["size"]
            if row["size"] < 3:
                assert {*text} == {"0"} == {*row["target"]}
                continue
            assert re.fullmatch(r"[^x=]*x[^x=]*=\d", text)
            assert "*" not in text
            assert all(int(digit) < modulus for digit in re.findall(r"\d", text))
            published_parts(text[:-2].replace("x", "0"))
            assert [str(x) for x in solutions(text, modulus)] == row["target"]


def test_equations_by_hand() -> None:
    """Rows without an equation do not shift those after them."""
    samples = {"00": "0", "x=3": "3", "-x=3": "2", "0": "0", "(2-(1-x))=0": "4", "(-2--x)=4": "1", "((-x)-(4))=0": "1"}
    task = make("solve-equation")
    assert task.id_names[3:] == ["0", "1", "2", "3", "4", "+", "-", "(", ")", "x", "="]
    assert names_of(task, task.target(source_of(task, [" ".join(text) for text in samples]))) == [*samples.values()]


def test_equations_are_drawn_as_published() -> None:
    """The parts are those of `modular kind=brackets`; the unknown is the next digit after a uniform place."""
    texts = ["".join(row["source"]) for row in rows("solve-equation", sizes=(20,), count=4_000)[1]]
    every = [part for text in texts for part in published_parts(text[:-2].replace("x", "0"))]
    check_uniform(Counter(sign for _, sign, _ in every), 2)
    for length in (18, 12, 9):
        check_uniform(Counter(len(x) for x, _, y in every if len(x) + len(y) + 3 == length), length - 4)
    expected, found = Counter[int](), Counter[int]()  # by the place of the unknown among the digits
    for text in texts:
        digits = [i for i, name in enumerate(text[:-2]) if name in "01234x"]
        found[digits.index(text.index("x"))] += 1
        for place in range(18):
            expected[next((k for k, i in enumerate(digits) if i >= place), 0)] += 1
    for k, count in expected.items():
        assert abs(found[k] - count / 18) < 4 * (count / 18) ** 0.5
    digit = Counter(name for text in texts for name in text[:-2] if name in "01234")
    check_uniform(digit, 5)


def test_solutions_are_as_uniform_as_described() -> None:
    answers = Counter(row["target"][0] for row in rows("solve-equation", sizes=(40,), count=2_000)[1])
    check_uniform(answers, 5)
    answers = Counter(row["target"][0] for row in rows("solve-equation", sizes="1-40", count=4_000)[1])
    assert answers["0"] / 4_000 == pytest.approx(0.24, abs=0.02)

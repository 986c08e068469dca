"""modular: values re-derived by Python's own parser of the printed text, and parities by counting ones."""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from typing import Any

import pytest

from ape_cli import tasks
from ape_cli.core.vocabulary import SPLITS
from tests.tasks.contract import ROWS, check_uniform, make, names_of, rows, source_of


def value(node: ast.expr) -> int:
    """The value of a parsed expression, as a Python int without a modulus."""
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int)
        return node.value
    if isinstance(node, ast.UnaryOp):
        assert isinstance(node.op, ast.USub)
        return -value(node.operand)
    assert isinstance(node, ast.BinOp)
    x, y = value(node.left), value(node.right)
    return {ast.Add: x + y, ast.Sub: x - y, ast.Mult: x * y}[type(node.op)]


def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def operations(node: ast.expr) -> list[ast.BinOp]:
    return [x for x in ast.walk(node) if isinstance(x, ast.BinOp)]


def digits(node: ast.expr) -> int:
    return sum(isinstance(x, ast.Constant) for x in ast.walk(node))


def written(node: ast.expr) -> str:
    """The text of an expression with brackets around every operation."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.BinOp)
    sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}[type(node.op)]
    return f"({written(node.left)}{sign}{written(node.right)})"


@pytest.mark.parametrize(
    "options",
    [{"length_mean": 12}, {"modulus": 2, "length_mean": 8}, {"modulus": 100, "length_mean": 9, "length_std": 3}],
    ids=str,
)
def test_values_are_rederived(options: dict[str, Any]) -> None:
    """Python's parser checks the brackets too."""
    for split in SPLITS:
        for row in rows("modular", split=split, **({"length_std": 1} | options))[1]:
            text = "".join(row["source"])
            tree = parsed(text)
            assert text == written(tree)
            assert digits(tree) == row["size"]
            assert len(row["source_ids"]) == 4 * row["size"] - 3
            assert row["target"] == [str(value(tree) % options.get("modulus", 5))]
            assert all(0 <= int(number) < options.get("modulus", 5) for number in re.findall(r"\d+", text))


def test_parity_is_rederived() -> None:
    for split in SPLITS:
        found = rows("modular", split=split, kind="parity", length_mean=30)[1]
        for row in found:
            assert row["size"] == len(row["source"])
            assert row["target"] == [str(row["source"].count("1") % 2)]
        bits = Counter(bit for row in found for bit in row["source"])
        assert bits.keys() == {"0", "1"}
        assert abs(bits["1"] / bits.total() - 0.5) < 0.01


def test_what_is_drawn_is_uniform() -> None:
    """Digits, operators, and the number of digits on the left of the outermost operator."""
    trees = [parsed("".join(row["source"])) for row in rows("modular", length_mean=9, length_std=0)[1]]
    every = [operation for tree in trees for operation in operations(tree)]
    check_uniform(Counter(sign for tree in trees for sign in re.findall(r"\d", written(tree))), 5)
    check_uniform(Counter(type(operation.op) for operation in every), 3)
    check_uniform(Counter(digits(tree.left) for tree in trees if isinstance(tree, ast.BinOp)), 8)
    check_uniform(Counter(digits(x.left) for x in every if digits(x) == 4), 3)


def published_parts(text: str) -> list[tuple[str, str, str]]:
    """The left part, operator and right part of each operation of an expression of the published grammar."""
    if len(text) < 5:
        assert re.fullmatch(r"\d|-\d|\(\d\)|\(-\d\)", text)
        return []
    assert text[0] + text[-1] == "()"
    depth = [*itertools.accumulate((name == "(") - (name == ")") for name in text)]
    outer = [i for i in range(2, len(text)) if depth[i] == 1 and text[i] in "+-*" and text[i - 1] in "0123456789)"]
    assert len(outer) == 1
    left, sign, right = text[1 : outer[0]], text[outer[0]], text[outer[0] + 1 : -1]
    return [(left, sign, right), *published_parts(left), *published_parts(right)]


@pytest.mark.parametrize(("kind", "split"), [(k, s) for k in ("simple", "brackets") for s in SPLITS])
def test_published_forms_are_rederived(kind: str, split: str) -> None:
    """Every length has its grammar, and Python's parser gives the value."""
    for modulus, count in ((5, ROWS), (2, 42)):
        for row in rows("modular", split=split, count=count, kind=kind, modulus=modulus, sizes="1-40,99,500")[1]:
            text, size = "".join(row["source"]), row["size"]
            if kind == "simple":
                assert re.fullmatch(r"\d([-+*]\d)*", text)
                assert len(text) == (size if size % 2 else size - 1)
            else:
                published_parts(text)
                assert len(text) == size
            assert row["target"] == [str(value(parsed(text)) % modulus)]


def test_published_forms_by_hand() -> None:
    """The first three rows are samples of the published program; the others have every unary sign."""
    for kind, samples in {
        "simple": {"1+2*3": "2", "1-1-1": "4", "0*1+4*3-2": "0", "2-3*4*4-1": "3", "3": "3"},
        "brackets": {"-2": "3", "(2)": "2", "(-2)": "3", "(-2--4)": "2", "((-3)*(-1-(4)))": "0", "(1-((2)*-3))": "2"},
    }.items():
        task = make("modular", kind=kind)
        assert names_of(task, task.target(source_of(task, [" ".join(text) for text in samples]))) == [*samples.values()]


def test_published_forms_are_drawn_as_published() -> None:
    """The length of the left part is uniform, of the whole and inside it. So are digits and operators."""
    simple = [row["source"] for row in rows("modular", kind="simple", sizes=(20,))[1]]
    check_uniform(Counter(digit for row in simple for digit in row[::2]), 5)
    check_uniform(Counter(sign for row in simple for sign in row[1::2]), 3)
    texts = ["".join(row["source"]) for row in rows("modular", kind="brackets", sizes=(20,), count=2_000)[1]]
    every = [part for text in texts for part in published_parts(text)]
    check_uniform(Counter(digit for text in texts for digit in re.findall(r"\d", text)), 5)
    check_uniform(Counter(sign for _, sign, _ in every), 3)
    for length in (20, 12, 9):
        check_uniform(Counter(len(x) for x, _, y in every if len(x) + len(y) + 3 == length), length - 4)


def test_parts_of_an_expression_are_independent() -> None:
    """Of expressions (x . y) . z and x . (y . z), the two operators and any two digits are all combinations alike."""
    found = rows("modular", count=1_000, length_mean=3, length_std=0, modulus=10)[1]
    for left in (True, False):
        texts = ["".join(row["source"]) for row in found if (row["source"][:2] == ["(", "("]) == left]
        signs = Counter("".join(re.findall(r"[-+*]", text)) for text in texts)
        assert len(signs) == 9
        assert max(signs.values()) < 1.5 * len(texts) / 9
        for i, j in ((0, 1), (1, 2), (0, 2)):
            pairs = Counter((numbers[i], numbers[j]) for numbers in (re.findall(r"\d", text) for text in texts))
            assert len(pairs) > 90
            assert max(pairs.values()) < 3.5 * len(texts) / 100


def test_parity_has_no_modulus() -> None:
    assert tasks.make("modular", kind="parity").parameters == {"length_mean": 40.0, "length_std": 4.0, "kind": "parity"}
    assert tasks.make("modular", kind="parity").id_names[3:] == ["0", "1"]
    assert tasks.make("modular", modulus=2).id_names[3:] == ["0", "1", "+", "-", "*", "(", ")"]
    assert tasks.make("modular", modulus=2, kind="simple").id_names[3:] == ["0", "1", "+", "-", "*"]


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ({}, 0.31),
        (tasks.load("modular").preset_options["small"], 0.44),
        ({"kind": "simple", "sizes": "5"}, 0.23),
        ({"kind": "brackets", "sizes": "1-40"}, 0.27),
        ({"kind": "brackets", "sizes": "100"}, 0.30),
    ],
)
def test_the_best_constant_answer_is_as_good_as_described(options: dict[str, Any], share: float) -> None:
    values = Counter(row["target"][0] for row in rows("modular", count=4000, **options)[1])
    assert values["0"] == max(values.values())
    assert values["0"] / 4000 == pytest.approx(share, abs=0.02)  # the standard error is 0.008

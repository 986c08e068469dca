"""modular: values re-derived by Python's own parser of the printed text, and parities by counting ones."""

from __future__ import annotations

import ast
import re
from collections import Counter
from typing import Any

import pytest

from ape_cli import tasks
from ape_cli.core.vocabulary import SPLITS
from tests.tasks.contract import check_uniform, rows


def value(node: ast.expr) -> int:
    """The value of a parsed expression, as a Python int without a modulus."""
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int)
        return node.value
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


@pytest.mark.parametrize(("options", "share"), [({}, 0.31), (tasks.load("modular").preset_options["small"], 0.44)])
def test_the_best_constant_answer_is_as_good_as_described(options: dict[str, Any], share: float) -> None:
    values = Counter(row["target"][0] for row in rows("modular", count=4000, **options)[1])
    assert values["0"] == max(values.values())
    assert values["0"] / 4000 == pytest.approx(share, abs=0.02)  # the standard error is 0.008

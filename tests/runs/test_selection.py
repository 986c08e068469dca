"""`ape runs --filter --sort`: conditions on columns, compared with a loop over dictionaries."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from ape_cli.core.errors import UsageError
from ape_cli.runs.filters import arranged, selected

ROWS = [
    {"run": "copy-rope-1", "steps": 800, "validation_token_accuracy": 0.75, "order": None, "verified": True},
    {"run": "copy-none-2", "steps": 90, "validation_token_accuracy": 0.25, "order": None, "verified": False},
    {"run": "tree-copy-rope-3", "steps": None, "validation_token_accuracy": None, "order": "depth", "verified": True},
    {"run": "tree-copy-none-4", "steps": 1200, "validation_token_accuracy": 0.5, "order": "breadth", "verified": True},
]
TABLE = pl.DataFrame(ROWS)
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize(("column", "value"), [("steps", 800), ("run", "copy-rope-1"), ("order", "depth")])
def test_comparisons(column: str, value: Any, sign: str) -> None:
    """Numbers as numbers (90 < 800), and nothing is equal to, less or greater than a missing value."""
    expected = [
        row["run"] for row in ROWS if (sign == "!=" if row[column] is None else SIGNS[sign](row[column], value))
    ]
    assert selected(TABLE, [f"{column}{sign}{value}"])["run"].to_list() == expected


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (["run~tree"], ["tree-copy-rope-3", "tree-copy-none-4"]),
        (["run~."], []),  # it is a text, not a pattern
        (["steps~0"], ["copy-rope-1", "copy-none-2", "tree-copy-none-4"]),
        (["validation >= 50%"], ["copy-rope-1", "tree-copy-none-4"]),
        (["validation-token-accuracy<0.5"], ["copy-none-2"]),
        (["steps>=1,000"], ["tree-copy-none-4"]),
        (["verified=false"], ["copy-none-2"]),
        (["steps>80", "run~rope"], ["copy-rope-1"]),
        (["steps<>90"], ["copy-rope-1", "tree-copy-rope-3", "tree-copy-none-4"]),
        (["steps < 100 or run like 'tree%'"], ["copy-none-2", "tree-copy-rope-3", "tree-copy-none-4"]),
        (["steps is null"], ["tree-copy-rope-3"]),
        (["order is null"], ["copy-rope-1", "copy-none-2"]),  # ORDER is a word of SQL
        (["validation-token-accuracy IS NOT NULL"], ["copy-rope-1", "copy-none-2", "tree-copy-none-4"]),
        (["max(steps) = steps"], ["tree-copy-none-4"]),
        (["run != 'copy-rope-1' and not verified"], ["copy-none-2"]),
        (["run=copy-rope-1 or steps=90"], ["copy-rope-1", "copy-none-2"]),
        # text in short forms is never the name of a column, and missing values are as in a single form
        (["order=run or order=depth AND validation is null"], ["tree-copy-rope-3"]),
        (["order!=run and steps>=90 and run~copy-rope"], ["copy-rope-1"]),
    ],
)
def test_examples(conditions: list[str], expected: list[str]) -> None:
    assert selected(TABLE, conditions)["run"].to_list() == expected


def test_order() -> None:
    """Missing values come last in both directions."""
    assert arranged(TABLE, "steps", descending=False)["steps"].to_list() == [90, 800, 1200, None]
    assert arranged(TABLE, "validation", descending=True)["steps"].to_list() == [800, 1200, 90, None]


@pytest.mark.parametrize(
    ("condition", "message", "told"),
    [
        ("steps>", "it cannot be computed", "steps is null"),
        ("stepz=1", "unknown column", "did you mean 'steps'? `ape runs --json` lists all"),
        ("run = rope or not verified", "unknown column", "'rope'"),  # in SQL, text needs quotes
        ("(steps = 1) or run > 3", "it cannot be computed", "COLUMN=VALUE"),
        ("steps<0,9", "it cannot be computed", "COLUMN=VALUE"),  # neither 0.9 nor 9
        ("steps=9,80", "it cannot be computed", "COLUMN=VALUE"),
        ("steps", "it does not give true or false for a run", "a condition"),
    ],
)
def test_bad_conditions(condition: str, message: str, told: str) -> None:
    """The messages are ours: what is wrong comes first, and nothing of what Polars says is quoted."""
    with pytest.raises(UsageError) as error:
        selected(TABLE, [condition])
    text = str(error.value)
    assert message in text.splitlines()[0]
    assert told in text
    cause = error.value.__cause__
    assert cause is None or str(cause).splitlines()[0] not in text


def test_an_unknown_column_to_sort_by() -> None:
    with pytest.raises(UsageError, match="unknown column"):
        arranged(TABLE, "stepz", descending=False)

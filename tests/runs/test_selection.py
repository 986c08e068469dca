"""`ape runs --filter --sort`: conditions on columns, compared with a loop over dictionaries."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from ape_cli.core.errors import UsageError
from ape_cli.runs.selection import arranged, selected

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
        (["order~e"], ["tree-copy-rope-3", "tree-copy-none-4"]),
        (["run~."], []),  # it is a text, not a pattern
        (["validation >= 50%"], ["copy-rope-1", "tree-copy-none-4"]),
        (["validation-token-accuracy<0.5"], ["copy-none-2"]),
        (["steps>=1,000"], ["tree-copy-none-4"]),
        (["verified=false"], ["copy-none-2"]),
        (["steps>80", "run~rope"], ["copy-rope-1"]),
        (["steps==90"], ["copy-none-2"]),
        (["steps < 100 or run like 'tree%'"], ["copy-none-2", "tree-copy-rope-3", "tree-copy-none-4"]),
        (["steps is null"], ["tree-copy-rope-3"]),
        (["run != 'copy-rope-1' and not verified"], ["copy-none-2"]),
    ],
)
def test_examples(conditions: list[str], expected: list[str]) -> None:
    assert selected(TABLE, conditions)["run"].to_list() == expected


def test_order() -> None:
    """Missing values come last in both directions."""
    assert arranged(TABLE, "steps", descending=False)["steps"].to_list() == [90, 800, 1200, None]
    assert arranged(TABLE, "validation", descending=True)["steps"].to_list() == [800, 1200, 90, None]


@pytest.mark.parametrize(
    "condition", ["", "steps", "steps>", "steps>many", "stepz=1", "steps~1", "=3", "steps > (", "stepz = 'a'"]
)
def test_bad_conditions(condition: str) -> None:
    with pytest.raises(UsageError):
        selected(TABLE, [condition])
    with pytest.raises(UsageError, match="unknown column"):
        arranged(TABLE, "stepz", descending=False)

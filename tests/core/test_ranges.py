"""Lists of whole numbers as text: ranges with both ends, each number once, and what is refused."""

from __future__ import annotations

import pytest

from ape_cli.core.errors import UsageError
from ape_cli.core.numbers import whole_numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", [7]),
        ("1-3", [1, 2, 3]),
        ("4-4", [4]),
        ("1-3,10, 12 - 13", [1, 2, 3, 10, 12, 13]),
        ("5,1-5,2", [5, 1, 2, 3, 4]),  # in the order of their first place
        ("0-10000", list(range(10_001))),
    ],
)
def test_numbers_and_ranges(text: str, expected: list[int]) -> None:
    assert whole_numbers("seeds", text) == expected


@pytest.mark.parametrize("bad", ["3-1", "1-", "-1", "1.5", "a", "1-2-3", "0-10001", "1e3", "9" * 20, "", " "])
def test_what_is_refused(bad: str) -> None:
    with pytest.raises(UsageError, match="bad `sizes`"):
        whole_numbers("sizes", f"1,{bad}")

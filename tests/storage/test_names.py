"""Names that become a part of a path."""

from __future__ import annotations

import pytest

from ape_cli.core.errors import ApeError
from ape_cli.storage.paths import LONGEST_NAME, checked_name


@pytest.mark.parametrize("name", ["copy", "tree-copy", "c3", "a.b_c-D", "9", "x" * LONGEST_NAME])
def test_names_that_are_allowed(name: str) -> None:
    assert checked_name("task", name) == name


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "-x", "a\0b", "ä", "x" * (LONGEST_NAME + 1), "a\x1b[2J"])
def test_names_that_are_not(name: str) -> None:
    with pytest.raises(ApeError, match="cannot be a part of a path") as caught:
        checked_name("task", name)
    assert "\x1b" not in str(caught.value)

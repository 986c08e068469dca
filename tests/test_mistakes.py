"""The list of known mistakes is kept in step with the code; `make mistakes` makes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mistakes.__main__ import MISTAKES, ROOT
from tests.mistakes._mistake import Mistake


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.what)
def test_its_place_is_in_the_code_and_its_test_exists(mistake: Mistake) -> None:
    assert (ROOT / "ape_cli" / mistake.file).read_text().count(mistake.right) == 1
    assert mistake.wrong != mistake.right
    path, _, name = mistake.test.partition("::")
    text = (Path(__file__).parent / path).read_text()
    assert re.search(rf"def {re.escape(name)}\(", text)

"""The page docs/explanation/run.md fits a screen, and names files that exist."""

from __future__ import annotations

import re

from ape_cli import position, tasks
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "explanation" / "run.md").read_text(encoding="utf-8")


def test_every_file_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)`", PAGE)
    assert len(named) >= 25
    names = {"tasks/NAME.py": tasks.names(), "position/NAME.py": position.names()}
    found = {path for name in named for path in [name.replace("NAME", names.get(name, [""])[0].replace("-", "_"))]}
    assert [path for path in sorted(found) if not (ROOT / "ape_cli" / path).is_file()] == []


def test_it_is_one_screen_and_answers_ten_questions() -> None:
    assert len(PAGE.splitlines()) <= 40
    assert len(re.findall(r"^\| .*\? \| `[\w/]+\.py` \|$", PAGE, flags=re.M)) == 10

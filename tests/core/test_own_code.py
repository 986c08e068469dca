"""The code of a user's own class is its file."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from ape_cli.core import plugins
from ape_cli.position.rope import Rope

TEXT = "from ape_cli.position import Scheme\n\n\nclass Own(Scheme):\n    pass\n"


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], type]]:
    """Imports the class again from the present file."""
    (tmp_path / "mine_own.py").write_text(TEXT)
    monkeypatch.syspath_prepend(tmp_path)

    def again() -> type:
        sys.modules.pop("mine_own", None)
        return import_module("mine_own").Own  # type: ignore[no-any-return]

    yield again
    sys.modules.pop("mine_own", None)


def test_the_digest_is_that_of_the_file(load: Callable[[], type], tmp_path: Path) -> None:
    assert plugins.digest(load()) == hashlib.sha256(TEXT.encode()).hexdigest()
    (tmp_path / "mine_own.py").write_text(TEXT + "\n")
    assert plugins.digest(load()) == hashlib.sha256(TEXT.encode() + b"\n").hexdigest()


def test_an_edit_after_the_import_does_not_change_the_digest(load: Callable[[], type], tmp_path: Path) -> None:
    found = load()
    plugins.remember(found)
    before = plugins.digest(found)
    (tmp_path / "mine_own.py").write_text("")
    plugins.remember(found)
    assert plugins.digest(found) == before


def test_a_class_of_ape_has_no_digest() -> None:
    assert plugins.digest(Rope) is None
    assert plugins.digest(type("Written", (Rope,), {"__module__": "nowhere"})) is None

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
    loaded, digest = load(), hashlib.sha256(TEXT.encode() + b"\n").hexdigest()
    assert plugins.digest(loaded) == digest
    (tmp_path / "mine_own.py").write_text("")  # the class is still the code of the first time
    assert plugins.digest(loaded) == digest
    assert plugins.digest(Rope) is None
    assert plugins.digest(type("Written", (Rope,), {"__module__": "nowhere"})) is None

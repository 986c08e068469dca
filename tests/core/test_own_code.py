"""The code of a user's own class is its file and everything of the user's that it needs."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from ape_cli.core import own_code
from ape_cli.position.rope import Rope

FILES = {
    "mine_base.py": "import json\nimport torch\nfrom ape_cli.position import Scheme\n\nclass Base(Scheme):\n    pass\n",
    "mine_helper/__init__.py": "from . import deep\n",
    "mine_helper/deep.py": "import numpy\nSCALE = 2\n",
    "mine_late.py": "X = 1\n",
    "mine_unused.py": "X = 1\n",
    "mine_own.py": "from importlib import import_module\nfrom mine_helper import deep\n\n"
    "class Own(import_module('mine_base').Base):\n"
    "    def embed(self, x, context):\n        import mine_late\n        return x\n",
}


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], type]]:
    """Imports the class again from the present files."""
    (tmp_path / "mine_helper").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    def again() -> type:
        for name in [name for name in sys.modules if name.startswith("mine_")]:
            del sys.modules[name]
        return import_module("mine_own").Own  # type: ignore[no-any-return]

    yield again
    for name in [name for name in sys.modules if name.startswith("mine_")]:
        del sys.modules[name]


def test_the_files_are_those_that_the_class_needs(load: Callable[[], type], tmp_path: Path) -> None:
    found = own_code.files_of(load())
    assert found == {
        "mine_own": tmp_path / "mine_own.py",
        "mine_base": tmp_path / "mine_base.py",
        "mine_helper": tmp_path / "mine_helper" / "__init__.py",
        "mine_helper.deep": tmp_path / "mine_helper" / "deep.py",
        "mine_late": tmp_path / "mine_late.py",
    }


@pytest.mark.parametrize("name", FILES)
def test_each_needed_file_changes_the_digest(load: Callable[[], type], tmp_path: Path, name: str) -> None:
    before = own_code.digest(load())
    assert own_code.digest(load()) == before
    file = tmp_path / name
    file.write_text(FILES[name] + "\n")
    assert (own_code.digest(load()) == before) == (name == "mine_unused.py")


def test_the_digest_of_a_single_file_is_that_of_the_file(load: Callable[[], type], tmp_path: Path) -> None:
    text = "from ape_cli.position import Scheme\nclass Own(Scheme):\n    pass\n"
    (tmp_path / "mine_own.py").write_text(text)
    assert own_code.digest(load()) == hashlib.sha256(text.encode()).hexdigest()


def test_an_edit_after_the_import_does_not_change_the_digest(load: Callable[[], type], tmp_path: Path) -> None:
    found = load()
    own_code.remember(found)
    before = own_code.digest(found)
    (tmp_path / "mine_own.py").write_text("")
    own_code.remember(found)
    assert own_code.digest(found) == before


def test_a_class_of_ape_has_no_digest() -> None:
    assert own_code.digest(Rope) is None
    assert own_code.digest(type("Written", (Rope,), {"__module__": "nowhere"})) is None

"""`ape new`: where it writes its files, the names in them, and refused calls, which write nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import ape
from tests.test_architecture import ORDER

ROOT = Path(__file__).parents[2]


def test_what_is_new_imports_as_the_files_beside_it(here: Path) -> None:
    """So that it can be moved into the package, where the order of the packages is checked."""
    kinds = {"scheme": "position", "scheme --content": "position", "task": "tasks", "attention": "attention"}
    for number, (kind, package) in enumerate(kinds.items()):
        ape("new", *kind.split(), f"soft-window-{number}")
        text = Path(f"ape_cli/{package}/soft_window_{number}.py").read_text()
        imported = re.findall(r"^from ape_cli(?:\.| import )(\w+)", text, re.M)
        assert imported
        assert set(imported) <= set(ORDER[: ORDER.index(package) + 1])


def test_in_a_checkout_it_writes_into_the_package(here: Path) -> None:
    """In a checkout, the written files pass the project's lint and format checks for any name."""
    for folder in ("position", "tasks", "attention", ""):
        (here / "ape_cli" / folder).mkdir(parents=True, exist_ok=True)
        (here / "ape_cli" / folder / "__init__.py").write_text('"""A package."""\n')
    for name in ("a", "tensor", "context-of", "exception", "a-name-of-forty-characters-that-is-long"):
        for kind, folder in (("scheme", "position"), ("task", "tasks"), ("attention", "attention")):
            stem = name.replace("-", "_")
            written = json.loads(ape("new", kind, name, "--json")[0])["written"]
            assert written == [f"ape_cli/{folder}/{stem}.py", f"tests/{folder}/test_{stem}.py"]
    for name in ("b", "lengths", "link", "another-name-of-forty-characters-is-that"):
        ape("new", "scheme", name, "--content")
    for words in (["format", "--diff"], ["check"]):
        command = [sys.executable, "-m", "ruff", *words, "--no-cache", "--config", str(ROOT / "pyproject.toml"), "."]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_bad_name_or_kind_is_refused(here: Path) -> None:
    for name in ("", "Window", "2d", "a.b", "../a", "a b", "é", "class", "a" * 41):
        assert "error: invalid name for a scheme\n" in ape("new", "scheme", "--", name, code=2)[1], name
    assert "allowed: attention, scheme, task" in ape("new", "tasks", "window", code=2)[1]
    assert "--content applies only to schemes" in ape("new", "task", "window", "--content", code=2)[1]
    taken = [("scheme", "none"), ("scheme", "transformer_xl"), ("task", "tree-ops"), ("attention", "softmax_free")]
    for kind, name in taken:
        assert f"the name of the {kind} is taken" in ape("new", kind, name, code=2)[1]
    assert not list(here.iterdir())


def test_an_existing_file_is_kept(here: Path) -> None:
    existing = Path("ape_cli/position/window.py")
    existing.parent.mkdir(parents=True)
    existing.write_text("mine")
    assert "the file exists" in ape("new", "scheme", "window", code=2)[1]
    assert existing.read_text() == "mine"
    assert not Path("tests").exists()

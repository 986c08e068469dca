"""`ape new`: where it writes its files, the names in them, and refused calls, which write nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ape_cli import position
from tests.conftest import ape
from tests.test_architecture import ORDER

ROOT = Path(__file__).parents[2]


def left(folder: Path) -> list[str]:
    """Returns the sorted relative paths of everything in a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("kind", "package"),
    [("scheme", "position"), ("scheme --content", "position"), ("task", "tasks"), ("attention", "attention")],
)
def test_what_is_new_imports_as_the_files_beside_it(here: Path, kind: str, package: str) -> None:
    """So that it can be moved into the package, where the order of the packages is checked."""
    ape("new", *kind.split(), "soft-window")
    (written,) = here.glob("ape_cli/*/soft_window.py")
    text = written.read_text()
    imported = re.findall(r"^from ape_cli\.(\w+)", text, re.M) + re.findall(r"^from ape_cli import (\w+)$", text, re.M)
    assert imported
    assert set(imported) <= set(ORDER[: ORDER.index(package) + 1])


def test_in_a_checkout_it_writes_into_the_package(here: Path) -> None:
    """In a checkout, the written files pass the project's lint and format checks for any name."""
    checkout = here / "ape_cli"
    for folder in ("position", "tasks", "attention"):
        (checkout / folder).mkdir(parents=True)
        (checkout / folder / "__init__.py").write_text('"""A package."""\n')
    (checkout / "__init__.py").write_text('"""The package."""\n')
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


@pytest.mark.parametrize(("name", "class_name"), [("shape", "ShapePlugin"), ("true", "TruePlugin"), ("low-2", "Low2")])
def test_the_class_has_a_name_of_its_own(here: Path, name: str, class_name: str) -> None:
    """The class name differs from imported classes and from Python's built-in names."""
    ape("new", "scheme", name)
    text = Path("ape_cli/position", f"{name.replace('-', '_')}.py").read_text()
    assert f"\nclass {class_name}(Scheme):\n" in text


def test_a_bad_name_or_kind_is_refused(here: Path) -> None:
    for name in ("", "Window", "2d", "a.b", "../a", "a b", "é", "class", "a" * 41):
        assert "error: invalid name for a scheme\n" in ape("new", "scheme", "--", name, code=2)[1], name
    assert "allowed: attention, scheme, task" in ape("new", "tasks", "window", code=2)[1]
    for kind in ("task", "attention"):
        assert "--content applies only to schemes" in ape("new", kind, "window", "--content", code=2)[1]
    taken = [("scheme", "none"), ("scheme", "transformer_xl"), ("task", "tree-ops"), ("attention", "softmax_free")]
    for kind, name in taken:
        assert f"the name of the {kind} is taken" in ape("new", kind, name, code=2)[1]
    assert left(here) == []


def test_a_scheme_of_content_has_both_hooks(here: Path) -> None:
    written = json.loads(ape("new", "scheme", "way-cost", "--content", "--json")[0])
    text, next_one = Path(written["written"][0]).read_text(), written["next"][-1]
    assert "def layer(self" in text
    assert "def logits(self" in text
    assert "--models decoder" in next_one


def test_an_existing_file_is_kept(here: Path) -> None:
    existing = Path("ape_cli/position/window.py")
    existing.parent.mkdir(parents=True)
    existing.write_text("mine")
    before = left(here)
    assert "the file exists" in ape("new", "scheme", "window", code=2)[1]
    assert left(here) == before
    assert existing.read_text() == "mine"


def test_a_name_of_another_kind_of_part_is_possible_and_mentioned(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ape check` then checks both."""
    _, err = ape("new", "scheme", "dot")
    assert "the attention dot has the same name; `ape check dot` checks both" in err
    monkeypatch.setattr(position, "__path__", [*position.__path__, str(here / "ape_cli" / "position")])
    found = json.loads(ape("check", "dot", "--json")[0])
    position.load.cache_clear()
    assert {one["part"] for one in found} == {"scheme", "attention"}
    assert all(one["holds"] for one in found)

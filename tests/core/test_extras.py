"""Commands that install an extra, for each way in which this program may be installed."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from ape_cli.core import extras

ROOT = Path(__file__).parents[2]


class Installed:
    """A distribution, of which only the record of its origin is read."""

    def __init__(self, origin: str | None) -> None:
        self.origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self.origin


def installed(patch: pytest.MonkeyPatch, where: Path, origin: str | None) -> None:
    patch.setattr(extras, "__file__", str(where / "ape_cli" / "core" / "extras.py"))
    patch.setattr("importlib.metadata.distribution", lambda name: Installed(origin))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "a clone"
    folder.mkdir()
    for name in ("constraints.txt", "pyproject.toml"):
        (folder / name).write_text("")
    return folder


def test_a_clone_whose_files_are_used(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, clone, None)
    expected = f"pip install -c '{clone}/constraints.txt' -e '{clone}[image]'"
    assert extras.how_to_install("image") == expected
    monkeypatch.chdir(clone)
    assert extras.how_to_install("image", "more") == "pip install -c constraints.txt -e '.[image]' more"


def test_a_clone_that_was_copied(clone: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, tmp_path / "site-packages", json.dumps({"url": clone.as_uri(), "dir_info": {}}))
    assert extras.how_to_install("aws") == f"pip install -c '{clone}/constraints.txt' '{clone}[aws]'"


@pytest.mark.parametrize("origin", [None, "{", "[]", '{"url": "https://example.org/ape.whl"}', '{"url": "file:///no"}'])
def test_a_published_package(origin: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, tmp_path, origin)
    assert extras.how_to_install("ray") == "pip install 'ape-cli[ray]'"


def test_every_extra_that_is_named_exists() -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set()
    for path in (ROOT / "ape_cli").rglob("*.py"):
        text = path.read_text()
        named |= set(re.findall(r"""how_to_install\(["']([^"']+)["']""", text))
        named |= set(re.findall(r"""^    extra(?:: ClassVar\[str \| None\])? = "([^"]+)"$""", text, re.M))
    assert {"image", "aws", "ray", "plots", "tensorboard", "lxml"} <= named <= set(known)

"""Commands that install an extra, for each way in which this program may be installed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ape_cli.core import extras

ROOT = Path(__file__).parents[2]


def test_a_clone_and_a_published_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "__file__", str(tmp_path / "ape_cli" / "core" / "extras.py"))
    assert extras.how_to_install("ray") == "pip install 'ape-cli[ray]'"
    (tmp_path / "constraints.txt").write_text("")
    monkeypatch.chdir(tmp_path)
    assert extras.how_to_install("image", "more") == "pip install -c constraints.txt -e '.[image]' more"


def test_every_extra_that_is_named_exists() -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set()
    for path in (ROOT / "ape_cli").rglob("*.py"):
        text = path.read_text()
        named |= set(re.findall(r"""how_to_install\(["']([\w-]+)["']""", text))
        named |= set(re.findall(r"""^    extra(?:: ClassVar\[str \| None\])? = "([^"]+)"$""", text, re.M))
        if path.parent.name == "tree_formats":
            named |= {package.replace("_", "-") for package in re.findall(r'^    needs = "([^"]+)"$', text, re.M)}
    assert {"image", "aws", "ray", "plots", "tensorboard", "lxml"} <= named <= set(known)

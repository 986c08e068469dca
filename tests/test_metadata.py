"""Files about the project agree with the package."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import ape_cli
from ape_cli import tasks

ROOT = Path(__file__).parents[1]


def test_the_citation_has_the_newest_release_and_the_licence() -> None:
    """Before the first release, it has no version."""
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (\d+\.\d+\.\d+)", changes, re.M)
    assert re.findall(r"^version: (.*)$", text, re.M) == releases[:1]
    licence = re.search(r'^license = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    assert re.search(r"^license: (.*)$", text, re.M)[1] == licence[1]  # type: ignore[index]


def test_the_version_is_that_of_the_installed_package() -> None:
    assert ape_cli.__version__ == metadata.version("ape-cli")


def test_the_changelog_names_tasks_that_exist() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    added = text[text.index("- Composite") : text.index("- `ape gen trees")]
    named = set(re.findall(r"`([^`]+)`", added))
    assert len(named) == 15
    assert named <= set(tasks.names())

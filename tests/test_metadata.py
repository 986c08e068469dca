"""Files about the project agree with the package."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ape_cli

ROOT = Path(__file__).parents[1]


def test_the_citation_has_the_newest_release_and_the_licence() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (\d+\.\d+\.\d+)", changes, re.M)
    assert re.findall(r"^version: (.*)$", text, re.M) == releases[:1]
    licence = re.search(r'^license = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    assert re.search(r"^license: (.*)$", text, re.M)[1] == licence[1]  # type: ignore[index]


def test_links_between_files_of_the_repository_lead_somewhere() -> None:
    """`zensical build` checks those of the site."""
    for page in [*ROOT.glob("*.md"), *(ROOT / "maintainers").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_version_is_that_of_the_installed_package() -> None:
    assert ape_cli.__version__ == metadata.version("ape-cli")


def test_a_package_has_the_addresses_of_the_repository_that_builds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    path = ROOT / project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["path"]
    assert "urls" in project["project"]["dynamic"]
    interface = SimpleNamespace(MetadataHookInterface=object)  # hatchling is installed for a build only
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    update = runpy.run_path(str(path))["ProjectUrls"]().update
    for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    metadata_of: dict[str, Any] = {}
    update(metadata_of)
    assert metadata_of == {}
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://example.org")
    monkeypatch.setenv("GITHUB_REPOSITORY", "someone/fork")
    update(metadata_of)
    assert set(metadata_of["urls"]) == {"Source", "Documentation", "Issues", "Changelog"}
    assert metadata_of["urls"]["Source"] == "https://example.org/someone/fork"
    assert all(url.startswith("https://example.org/someone/fork") for url in metadata_of["urls"].values())
    for url in metadata_of["urls"].values():  # each file that is named exists
        named = url.partition("/HEAD/")[2]
        assert (ROOT / named).exists()

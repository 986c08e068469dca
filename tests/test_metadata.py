"""Files about the project agree with the package."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

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

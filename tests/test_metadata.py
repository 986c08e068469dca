"""Files about the project agree with the package."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ape_cli
from ape_cli.runs import record
from tests.conftest import load_file

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


def test_the_modules_and_tests_of_mutants_exist() -> None:
    mutants = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
    left_out = [words.partition("=")[2].partition("::")[0] for words in mutants["pytest_add_cli_args"]]
    named = [*mutants["only_mutate"], *mutants["also_copy"], *mutants["pytest_add_cli_args_test_selection"], *left_out]
    assert [name for name in named if not any(ROOT.glob(name))] == []


def test_a_package_knows_the_commit_that_it_was_built_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """hatchling is not installed where packages are not built, so its base class is replaced."""
    monkeypatch.delenv("APE_COMMIT", raising=False)
    request.addfinalizer(record.commit.cache_clear)
    base = SimpleNamespace(BuildHookInterface={Any: object})
    monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", base)
    hook = load_file(ROOT / "tools" / "wheel_commit.py").WheelCommit()
    hook.root = str(tmp_path)
    added: dict[str, dict[str, str]] = {"force_include": {}}
    hook.initialize("standard", added)
    hook.finalize("standard", added, "")
    assert not added["force_include"]  # no git history
    for words in (
        ["init", "--quiet"],
        ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "m", "--allow-empty"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    hook.initialize("editable", added)
    hook.finalize("editable", added, "")
    assert not added["force_include"]
    hook.initialize("standard", added)
    ((file, place),) = added["force_include"].items()
    assert place == "ape_cli/COMMIT"
    (tmp_path / place).parent.mkdir()
    shutil.copy(file, tmp_path / place)
    hook.finalize("standard", added, "")
    monkeypatch.setattr(record, "__file__", str(tmp_path / "ape_cli" / "runs" / "record.py"))
    record.commit.cache_clear()
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert record.commit() == head.strip()
    (tmp_path / place).rename(tmp_path / "ape_cli" / "new_scheme.py")  # not tracked
    record.commit.cache_clear()
    assert record.commit() == head.strip() + "+"


def test_the_version_is_that_of_the_installed_package() -> None:
    assert ape_cli.__version__ == metadata.version("ape-cli")

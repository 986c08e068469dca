"""Plug-ins are found in folders and through entry points. Errors about clashes and unknown names say where."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests import forks
from tests.conftest import ROOT
from tests.interpreters import python

SCHEME = """
from ape_cli.position import Scheme


class Mine(Scheme):
    source = "an example"
    unique = False

    def embed(self, x, context):
        return x + context.positions[..., None]
"""


def ape(where: Path, *words: str, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Runs `python -m ape_cli` in a folder, with more folders on PYTHONPATH."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(p) for p in (*path, ROOT))}
    return forks.run(words, where, environment)


def put(folder: Path, stem: str, text: str = SCHEME, package: str = "position") -> Path:
    """Writes a plug-in file to a folder that can be added to PYTHONPATH."""
    file = folder / "ape_cli" / package / f"{stem}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def distribution(folder: Path, group: str, name: str, value: str, text: str = SCHEME) -> Path:
    """Writes an installed distribution with one module and one entry point."""
    module = folder / f"{value.partition(':')[0]}.py"
    folder.mkdir(parents=True, exist_ok=True)
    module.write_text(text)
    about = folder / f"{name.replace('-', '_')}_plugin-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-plugin\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
    return module


@pytest.mark.parametrize("value", ["their_scheme:Mine", "their_scheme"])
def test_an_entry_point_is_a_scheme(tmp_path: Path, value: str) -> None:
    distribution(tmp_path / "site", "ape_cli.schemes", "their-window", value)
    listed = ape(tmp_path, "schemes", "--json", path=(tmp_path / "site",))
    assert '"their-window"' in listed.stdout, listed.stderr
    checked = ape(tmp_path, "check", "their-window", "--all", path=(tmp_path / "site",))
    assert (checked.returncode, "their-window" in checked.stdout) == (0, True), checked.stderr


def test_an_entry_point_is_not_imported_to_list_names(tmp_path: Path) -> None:
    distribution(tmp_path / "site", "ape_cli.tasks", "torn", "torn_task", "raise SystemExit('it was imported')")
    code = "from ape_cli import tasks; print(tasks.names())"
    assert "'torn'" in python("-c", code, path=[tmp_path / "site"]).stdout


def test_a_file_that_ends_the_process_is_an_error_that_names_it(tmp_path: Path) -> None:
    for package, command in (("position", "schemes"), ("tasks", "tasks")):
        file = put(tmp_path / command, "zed", "import sys; sys.exit(7)", package)
        done = ape(tmp_path, command, path=(tmp_path / command,))
        assert "'zed' cannot be imported" in done.stderr
        assert str(file) in done.stderr
        assert "Traceback" not in done.stderr
    check = ape(tmp_path, "check", "zed", path=(tmp_path / "schemes",))
    assert check.returncode == 1
    verdict, failure, got, *_ = check.stdout.splitlines()
    assert verdict == "0 of 1 rules and laws hold"
    assert failure == "FAILS: zed: the file of scheme 'zed' cannot be imported"
    assert got.startswith("  got:     ")


def test_two_of_one_name_are_an_error_that_names_both(tmp_path: Path) -> None:
    distribution(tmp_path / "site", "ape_cli.schemes", "window", "their_scheme:Mine")
    theirs = put(tmp_path / "mine", "window")
    done = ape(tmp_path, "train", "--scheme", "rope", "--task", "copy", path=(tmp_path / "mine", tmp_path / "site"))
    assert done.returncode == 2
    assert "two plug-ins of ape_cli.position have the same name" in done.stderr
    for place in (theirs, "entry point window = their_scheme:Mine of window-plugin"):
        assert str(place) in done.stderr


def test_an_unknown_name_says_where_it_was_searched(tmp_path: Path) -> None:
    put(tmp_path / "mine", "window")
    done = ape(tmp_path, "train", "--scheme", "windw", "--task", "copy", path=(tmp_path / "mine",))
    assert done.returncode == 2
    assert "did you mean 'window'?" in done.stderr
    for place in (tmp_path / "mine" / "ape_cli" / "position", "entry points ape_cli.schemes"):
        assert str(place) in done.stderr


@pytest.mark.parametrize("path", [":{root}", "{root}::{root}"])
def test_an_empty_entry_of_the_path_does_not_name_the_current_folder(tmp_path: Path, path: str) -> None:
    """`PYTHONPATH=$PYTHONPATH:/folder` begins with one if the variable was not set."""
    marker = tmp_path / "it was imported"
    for stem in ("torch", "json", "typer", "rich", "shutil"):
        (tmp_path / f"{stem}.py").write_text(f"open({str(marker)!r}, 'w')")
    put(tmp_path, "mine", f"open({str(marker)!r}, 'w')\n{SCHEME}")
    programs = [["-m", "ape_cli"], ["-P", "-m", "ape_cli"], ["-c", "from ape_cli.__main__ import main; main()"]]
    for program in programs if path == ":{root}" else programs[:1]:
        listed = python(*program, "schemes", where=tmp_path, PYTHONPATH=path.format(root=ROOT)).stdout
        assert "mine" not in listed
        assert not marker.exists(), program

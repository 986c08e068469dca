"""Plug-ins are found in folders and through entry points. Errors about clashes and unknown names say where."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each test starts an interpreter

ROOT = Path(__file__).parents[2]
SCHEME = """
from ape_cli.position import Scheme


class Mine(Scheme):
    source = "an example"
    unique = False
"""


def ape(where: Path, *words: str, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Runs `python -m ape_cli` in a folder, with more folders on PYTHONPATH."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(p) for p in (*path, ROOT))}
    command = [sys.executable, "-m", "ape_cli", *words]
    return subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)


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
    checked = ape(tmp_path, "check", "their-window", path=(tmp_path / "site",))
    assert (checked.returncode, "their-window" in checked.stdout) == (0, True), checked.stderr


def test_an_entry_point_is_not_imported_to_list_names(tmp_path: Path) -> None:
    distribution(tmp_path / "site", "ape_cli.tasks", "torn", "torn_task", "raise SystemExit('it was imported')")
    code = "from ape_cli import tasks; print(tasks.names())"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(ROOT)])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert "'torn'" in done.stdout, done.stderr


def test_two_files_of_one_name_are_an_error_that_names_both(tmp_path: Path) -> None:
    theirs = put(tmp_path / "mine", "rope")
    done = ape(tmp_path, "train", "--scheme", "rope", "--task", "copy", path=(tmp_path / "mine",))
    assert done.returncode == 2
    assert "two plug-ins of ape_cli.position have the same name" in done.stderr
    assert str(theirs) in done.stderr
    assert str(ROOT / "ape_cli" / "position" / "rope.py") in done.stderr


def test_a_file_and_an_entry_point_of_one_name_are_an_error_that_names_both(tmp_path: Path) -> None:
    module = distribution(tmp_path / "site", "ape_cli.schemes", "window", "their_scheme:Mine")
    theirs = put(tmp_path / "mine", "window")
    done = ape(tmp_path, "train", "--scheme", "rope", "--task", "copy", path=(tmp_path / "mine", tmp_path / "site"))
    assert done.returncode == 2
    assert str(theirs) in done.stderr
    assert f"{module} (entry point window = their_scheme:Mine of window-plugin)" in done.stderr


def test_an_unknown_name_says_where_it_was_searched(tmp_path: Path) -> None:
    put(tmp_path / "mine", "window")
    done = ape(tmp_path, "train", "--scheme", "windw", "--task", "copy", path=(tmp_path / "mine",))
    assert done.returncode == 2
    assert "did you mean 'window'?" in done.stderr
    for place in (ROOT / "ape_cli" / "position", tmp_path / "mine" / "ape_cli" / "position"):
        assert str(place) in done.stderr
    assert "entry points ape_cli.schemes" in done.stderr


def test_another_installation_on_the_path_adds_nothing(tmp_path: Path) -> None:
    """With two checkouts on PYTHONPATH, the second one is not read as a folder of plug-ins, so no names clash."""
    put(tmp_path / "other", "rope")
    (tmp_path / "other" / "ape_cli" / "__init__.py").write_text("")
    code = "import ape_cli; from ape_cli import position; print(position.names())"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path / "other")])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.count("'rope'") == 1, done.stderr


def test_the_current_folder_is_not_imported_from(tmp_path: Path) -> None:
    """Its files do not replace the standard library and are not plug-ins, unless PYTHONPATH contains the folder."""
    marker = tmp_path / "it was imported"
    (tmp_path / "secrets.py").write_text(f"open({str(marker)!r}, 'w')")
    (tmp_path / "shutil.py").write_text(f"open({str(marker)!r}, 'w')")
    put(tmp_path, "mine", f"open({str(marker)!r}, 'w')\n{SCHEME}")
    done = ape(tmp_path, "check", "mine")
    assert done.returncode == 2
    assert "unknown scheme" in done.stderr
    assert not marker.exists()
    (tmp_path / "shutil.py").unlink()
    (tmp_path / "secrets.py").unlink()
    named = ape(tmp_path, "check", "mine", path=(tmp_path,))
    assert named.returncode == 0, named.stderr
    assert marker.exists()

"""Files of the current folder are never executed: neither by a command nor by the processes that it starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

GEN = ["gen", "copy", "--n", "10", "--n-test", "2", "--n-validation", "2", "--shard-rows", "5"]
TRAIN = ["--task", "copy", "--preset", "tiny", "--set", "steps=2", "--device", "cpu"]
PACKAGES = ["torch", "numpy", "pyarrow", "pydantic", "polars", "typer", "rich", "safetensors"]


def imported_by_python(folder: Path) -> set[str]:
    """What Python itself imports for `python -m`, before any code of a package runs."""
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("import sys; print(*sys.modules)")
    command = [sys.executable, "-m", "package"]
    done = subprocess.run(command, cwd=folder, env=clean(), capture_output=True, text=True, check=True)
    shutil.rmtree(package)
    return {name.partition(".")[0] for name in done.stdout.split()}


def clean() -> dict[str, str]:
    """The environment of a user, without the option that the processes of a command get."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"} | {"PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize(
    "words",
    [
        ["schemes"],
        [*GEN, "--workers", "2"],
        ["sweep", "--schemes", "rope", "--tasks", "copy", "--seeds", "1-2", *TRAIN[2:], "--workers", "2"],
        ["train", "--scheme", "rope", *TRAIN, "--compile"],
        [*GEN, "--workers", "2", "--engine", "ray"],
    ],
    ids=["schemes", "workers", "sweep", "compile", "ray"],
)
def test_a_file_is_not_executed(tmp_path: Path, words: list[str]) -> None:
    if "ray" in words:
        pytest.importorskip("ray")
    marks = tmp_path / "marks"
    here = tmp_path / "here"
    marks.mkdir()
    here.mkdir()
    for name in {*sys.stdlib_module_names, *PACKAGES} - imported_by_python(here) - set(sys.builtin_module_names):
        (here / f"{name}.py").write_text(f"open({str(marks / name)!r}, 'w').close()\nraise ImportError({name!r})")
    command = [sys.executable, "-m", "ape_cli", *words]
    done = subprocess.run(command, cwd=here, env=clean(), capture_output=True, text=True, check=False)
    assert not sorted(path.name for path in marks.iterdir()), done.stderr
    assert done.returncode == 0, done.stderr

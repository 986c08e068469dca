"""Files of the current folder are never executed: neither by a command nor by the processes that it starts."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.interpreters import python

GEN = ["gen", "copy", "--n", "10", "--n-test", "2", "--n-validation", "2", "--shard-rows", "5"]
TRAIN = ["--task", "copy", "--preset", "tiny", "--set", "steps=2", "--device", "cpu"]
PACKAGES = ["torch", "numpy", "pyarrow", "pydantic", "polars", "typer", "rich", "safetensors"]


def imported_by_python(folder: Path) -> set[str]:
    """What Python itself imports for `python -m`, before any code of a package runs."""
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("import sys; print(*sys.modules)")
    modules = python("-m", "package", where=folder, PYTHONSAFEPATH="").stdout.split()
    shutil.rmtree(package)
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize(
    "words",
    [
        [*GEN, "--workers", "2"],
        ["sweep", "--schemes", "rope", "--tasks", "copy", "--seeds", "1-2", *TRAIN[2:], "--workers", "2"],
        [*GEN, "--workers", "2", "--engine", "ray"],
    ],
    ids=["workers", "sweep", "ray"],
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
    python("-m", "ape_cli", *words, where=here, PYTHONSAFEPATH="")  # the processes of a command set this variable
    assert not sorted(path.name for path in marks.iterdir())

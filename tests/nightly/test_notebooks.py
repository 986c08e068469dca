"""The notebooks in `examples/` run from their first to their last cell, in an empty folder, at preset tiny."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests.conftest import ROOT, load_file

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.filterwarnings("default")  # of Jupyter's own packages
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    """A cell that fails ends the test with its traceback. The committed outputs are complete."""
    done, committed = load_file(ROOT / "tools" / "notebooks.py").run(path, tmp_path, "tiny"), nbformat.read(path, 4)
    printed = [len([cell for cell in of.cells if cell.get("outputs")]) for of in (done, committed)]
    assert printed[0] == printed[1]

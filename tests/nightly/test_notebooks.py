"""The notebooks in `examples/` run from their first to their last cell, in an empty folder, at preset tiny."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests.conftest import ROOT, load_file

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def text_of(notebook: nbformat.NotebookNode) -> str:
    """All printed text of a notebook, and the text of its results."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in outputs)


@pytest.mark.filterwarnings("default")  # of Jupyter's own packages
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    """A cell that fails ends the test with its traceback. The committed outputs are complete, without errors."""
    done = load_file(ROOT / "tools" / "notebooks.py").run(path, tmp_path, "tiny")
    shown = text_of(done)
    for word in {
        "compare-encodings": ["orthogonal-tree", "validation_token_accuracy", "Preset tiny"],
        "use-a-trained-model": ["model.safetensors", "->", "token_accuracy"],
        "your-own-scheme": ["window", '"holds": true', "rope"],
    }[path.stem]:
        assert word in shown
    committed = nbformat.read(path, as_version=4)
    assert len([cell for cell in done.cells if cell.get("outputs")]) == len(
        [cell for cell in committed.cells if cell.get("outputs")]
    )
    assert path.stat().st_size < 300_000

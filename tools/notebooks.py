"""Run the notebooks in `examples/` and store their outputs in them: `make notebooks`.

Each notebook runs in an empty folder of its own, so it needs nothing but the installed package.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(notebook: Path, folder: Path, preset: str | None = None) -> nbformat.NotebookNode:
    """Run a notebook in a folder. `preset` replaces the preset that the notebook chooses.

    Returns the notebook with its outputs. Raises `nbclient.exceptions.CellExecutionError` if a cell fails.
    """
    content = nbformat.read(notebook, as_version=4)
    for cell in content.cells:
        if preset is not None:
            cell.source = cell.source.replace('os.environ["PRESET"] = "small"', f'os.environ["PRESET"] = "{preset}"')
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": path, "PYTHONWARNINGS": "default"}
    where = {"metadata": {"path": str(folder)}}
    client = NotebookClient(content, timeout=600, kernel_name="python3", resources=where, coalesce_streams=True)
    return client.execute(env=environment)


def main() -> None:
    """Run all notebooks and write them back, without the times of their cells."""
    argparse.ArgumentParser(prog="python -m tools.notebooks", description=__doc__).parse_args()
    for notebook in sorted(EXAMPLES.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            done = run(notebook, Path(folder))
        for cell in done.cells:
            cell.metadata = nbformat.NotebookNode()
        nbformat.write(done, notebook)
        print(notebook)


if __name__ == "__main__":
    main()

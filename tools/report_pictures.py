"""Draw the pictures of `docs/guides/reports.md` from the committed runs, on light and on dark pages.

The pictures are those of `ape report --plots` without their
white background. On dark pages, text and axes are light. They are committed, and a test compares them with new ones.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from typer.testing import CliRunner

from ape_cli.cli import app
from ape_cli.reports.palette import INK, INK_ON_DARK, ON_DARK
from ape_cli.storage import files

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "guides" / "reports"
COLOURS = {"light": {}, "dark": {INK: INK_ON_DARK, **ON_DARK}}
SCHEMES = ["sinusoidal", "rope", "orthogonal-tree"]
RUNS = ["--results", "results/record", "--sweep", "results/table2.toml", *(f"--scheme={name}" for name in SCHEMES)]
TASKS = ["--task", "tree-rotate/breadth", "--task", "tree-ops/breadth", "--format", "csv"]
NAMES = ["scores", "learning-curves"]


def drawn() -> dict[str, str]:
    """The pictures by the names of their files. Raises `RuntimeError` if `ape report` fails."""
    with tempfile.TemporaryDirectory() as folder:
        words = [str(ROOT / word) if word.startswith("results") else word for word in [*RUNS, *TASKS]]
        done = CliRunner().invoke(app, ["report", *words, "--plots", folder])
        if done.exit_code:
            raise RuntimeError(done.output)
        plots = {name: (Path(folder) / f"{name}.svg").read_text("utf-8") for name in NAMES}
    return {f"{name}-{page}.svg": on_page(svg, page) for name, svg in plots.items() for page in COLOURS}


def on_page(svg: str, page: str) -> str:
    """A picture without its background, with the colours for a `light` or a `dark` page."""
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S).replace("fill: #ffffff", "fill: none")
    for colour, other in COLOURS[page].items():
        svg = svg.replace(colour, other)
    return svg


def main() -> None:
    """Write the pictures."""
    for name, svg in drawn().items():
        files.write_text(PICTURES / name, svg)

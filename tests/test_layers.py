"""The list of files is the pipeline: a stage imports only from stages above it, and files stay readable."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "ape_cli"

# nouns first, then the stages in the order of the data
PIPELINE = [
    *(
        "errors",
        "process",
        "sharing",
        "place",
        "lease",
        "files",
        "discovery",
        "streams",
        "ragged",
        "structure",
        "linearisation",
        "trees",
    ),
    *("schema", "sources", "engine", "tasks", "images", "draft", "card", "gen", "mosaic", "sample"),
    *("position", "padding", "batch", "augment", "pictures", "dataset"),
    *("precision", "dropout", "attention", "model", "classifier", "laws", "cost"),
    *(
        "config",
        "build",
        "score",
        "decode",
        "schedule",
        "record",
        "state",
        "world",
        "ranks",
        "progress",
        "replay",
        "train",
    ),
    *("run", "filters", "registry", "evaluate", "trial", "grid", "agenda", "sweep"),
    *("stats", "paper", "report", "table", "curves", "parts", "sizes", "operators", "epochs"),
    *("render", "looks", "scales", "legend", "dots", "plots", "page", "compare"),
    *("display", "live", "catalogue", "cli"),
]


def layer(path: Path) -> str:
    inside = path.relative_to(PACKAGE)
    return inside.parts[0].removesuffix(".py")


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p not in (PACKAGE / "__init__.py", PACKAGE / "__main__.py"))


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ape_cli":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("ape_cli.")}
    return found & set(PIPELINE)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_stage_never_looks_back_up(path: Path) -> None:
    here = PIPELINE.index(layer(path))
    later = {name for name in imported(path) if PIPELINE.index(name) > here}
    assert not later, f"{path.name} imports from {later}, which come after it"


def test_every_file_has_its_place() -> None:
    assert {layer(p) for p in FILES} == set(PIPELINE)


def test_the_model_knows_no_scheme_by_name() -> None:
    """Nor does attention, nor do they know its kinds."""
    from ape_cli import attention, position

    ours = [PACKAGE / f"{name}.py" for name in ("model", "train", "score", "batch", "dataset")]
    for path in (*ours, *(PACKAGE / "attention").glob("*.py")):
        for scheme in set(position.names()) - {"none"}:  # `reduction="none"` is no scheme
            assert f'"{scheme}"' not in path.read_text(), (path, scheme)
    for path in ours:
        for kind in attention.names():
            assert f'"{kind}"' not in path.read_text(), (path, kind)

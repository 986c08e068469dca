"""Every view, with every filter: reports have the chosen runs alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ape

FILTERS: list[tuple[list[str], Any]] = [
    (["--scheme", "rope", "--scheme", "none"], lambda r: r["scheme"] != "alibi"),
    (["--task", "tree-copy/depth"], lambda r: (r["task"], r["order"]) == ("tree-copy", "depth")),
    (["--preset", "tiny", "--preset", "small"], lambda r: True),
    (
        ["--preset", "small", "--scheme", "none", "--task", "tree-copy/breadth"],
        lambda r: (r["preset"], r["scheme"], r["order"]) == ("small", "none", "breadth"),
    ),
]


@pytest.mark.parametrize(("words", "picked"), FILTERS, ids=lambda x: " ".join(x) if isinstance(x, list) else "")
@pytest.mark.parametrize(
    "view", [["report"], ["report", "--by", "size"], ["report", "--by", "epoch"], ["runs"]], ids=str
)
def test_every_view_has_the_chosen_runs_alone(filled: Path, view: list[str], words: list[str], picked: Any) -> None:
    style = ["--json"] if view == ["runs"] else ["--format", "json"]

    def rows(*more: str) -> list[Any]:
        found = json.loads(ape(*view, "--results", str(filled), *style, *more)[0])
        keys = ("scheme", "task", "order", "preset")
        return sorted({tuple(str(line[key]) for key in keys) for line in found if picked(line) or more})

    assert rows(*words) == rows()
    assert rows(*words)

"""Every scheme trains, stops, resumes and evaluates on data of every structure that it reads, with equal results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ape_cli import position, tasks
from ape_cli.data.loader import Dataset
from tests.conftest import write
from tests.test_every_pair import SOME, TASKS, check, check_pair, small, wanted

# Tasks that are trained with every scheme. The others have the structure of one of these.
IN_FULL = {*TASKS, "tree-ops", "word-grid-rotate", "quadtree-expand", "box-rotate"}
FEW = ("none", "rope", "orthogonal")  # schemes that read every structure
PAIRS = [
    (scheme, name)
    for name in tasks.names()
    for scheme in (position.names() if name in IN_FULL else FEW)
    if (scheme, name) not in SOME
]


@pytest.mark.parametrize(("scheme", "task"), PAIRS)
def test_every_scheme_on_every_structure(of_tasks: dict[str, Dataset], tmp_path: Path, scheme: str, task: str) -> None:
    check_pair(scheme, of_tasks[task], tmp_path)


@pytest.mark.parametrize(
    ("scheme", "task", "expression", "options"),
    [
        ("orthogonal", "tree-copy", "seq*tree(2)", {}),
        ("orthogonal", "tree-copy", "tree(3)", {"branching": 3}),
        ("orthogonal", "tree-ops", "tree(2)", {"branching": 3, "binarise": True, "vocabulary": 200}),
        ("orthogonal", "grid-rotate", "seq*grid(2)", {}),
        ("orthogonal", "grid-copy", "grid(2)", {}),
        ("orthogonal", "ring-shift", "cyclic(5)", {}),
        ("orthogonal", "reverse", "cyclic(6)", {}),
        ("orthogonal", "copy", "seq*cyclic(7)", {}),
        ("sinusoidal", "grid-rotate", "grid(2)", {}),
    ],
)
def test_structures_of_all_kinds(
    tmp_path: Path, scheme: str, task: str, expression: str, options: dict[str, Any]
) -> None:
    found = write(tmp_path / task, task, rows=(32, 8, 8), **small(task, tmp_path), **options)
    check(wanted(scheme, found, structure=expression), found, tmp_path)

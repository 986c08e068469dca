"""The README is short, and what it says follows from the code and from the committed results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ape_cli import attention, position, tasks
from results.numbers import small
from tests.conftest import ape

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", TEXT, flags=re.S)


def code(language: str) -> str:
    """The first block of code in a language."""
    return next(block for of, block in BLOCKS if of == language)


def test_it_names_what_there_is() -> None:
    (told,) = re.findall(r"called \*schemes\*: (.*?), and (\d+) kinds of attention", TEXT, flags=re.S)
    assert re.findall(r"`([^`]+)`", told[0]) == position.names()
    counts = re.findall(r"\*\*(\d+) (?:tasks|encodings)\*\*", TEXT)
    assert [*counts, told[1]] == [str(len(of.names())) for of in (tasks, position, attention)]


def test_the_sample_is_what_show_prints(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal of 72 columns. The row depends only on the sizes of the trees, not on the number of rows."""
    monkeypatch.setenv("COLUMNS", "72")
    ape("gen", "tree-rotate", "--depth-mean", "4", "--n", "5", "--n-validation", "0", "--n-test", "0")
    shown = [line.rstrip() for line in ape("show", "tree-rotate-breadth", "--row", "4")[0].splitlines()]
    assert shown == code("").splitlines()


def test_the_example_in_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert len([line for line in code("python").splitlines() if line and "import" not in line]) <= 5
    names: dict[str, object] = {}
    exec(code("python"), names)
    assert capsys.readouterr().out.startswith("tensor([[[[")


def test_its_table_has_the_scores_of_the_runs() -> None:
    for scheme in ("sinusoidal", "orthogonal-tree"):
        (row,) = (line for line in TEXT.splitlines() if line.startswith(f"| {scheme} | "))
        assert f"{small('tree-rotate/breadth', scheme)[42]:.2f}" in row

"""The README is short, and what it and the tutorial say follows from the code and from the committed results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ape_cli.cli.console import scores_in_words
from results.numbers import SCHEMES, Scores, evaluations, runs, small
from tests.conftest import ape

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
TRAINED = ("sinusoidal", "orthogonal-tree")  # by `make demo` and in the tutorial
DEMO = ROOT / "results" / "demo" / "runs.parquet"  # their runs


def python() -> str:
    """The example in Python."""
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.S)
    return str(block)


def test_it_is_short_and_names_the_two_commands() -> None:
    assert len(TEXT.splitlines()) <= 130
    assert "\nmake demo\nmake test\n```" in TEXT


def test_the_sample_of_the_tutorial_is_what_show_prints(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row depends only on the sizes of the trees, not on the number of rows."""
    monkeypatch.setenv("COLUMNS", "72")
    ape("gen", "tree-rotate", "--depth-mean", "3", "--n", "5", "--n-validation", "0", "--n-test", "0")
    shown = [line.rstrip() for line in ape("show", "tree-rotate-breadth", "--row", "4")[0].splitlines()]
    assert "\n".join(shown) in TUTORIAL.replace("\n    ", "\n")


def test_the_example_in_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert len([line for line in python().splitlines() if line and "import" not in line]) <= 5
    names: dict[str, object] = {}
    exec(python(), names)
    assert capsys.readouterr().out.startswith("tensor([[[[")


@pytest.mark.parametrize("scheme", TRAINED)
def test_the_numbers_are_those_of_the_committed_runs(scheme: str) -> None:
    """The table of `make demo` has the scores of seed 42, and the tutorial also what `ape train` printed of its run."""
    of_seed = {
        seed: own["overall"] for seed, (own,) in evaluations(DEMO)["small", "tree-rotate/breadth", scheme, ""].items()
    }
    scores = Scores({seed: 100 * overall["token_accuracy"] for seed, overall in of_seed.items()})
    for page in (TEXT, TUTORIAL):
        assert re.search(rf"^│ {scheme} +│ +{scores[42]:.2f} │$", page, flags=re.M)
    assert re.search(rf"^│ {scheme} +│ {scores.three.mean:.2f} \(", TUTORIAL, flags=re.M)
    (result,) = (a.result for run, a in runs(DEMO) if a.config.scheme == scheme and f"    {run.name}: " in TUTORIAL)
    assert result is not None
    assert f"  validation token accuracy {result.best_accuracy:.2%}, step {result.best_step}\n" in TUTORIAL
    assert f"  test {scores_in_words(of_seed[42], 'sequence')}\n" in TUTORIAL


def test_the_first_picture_has_as_many_seeds_of_each_scheme() -> None:
    assert len({len(small("tree-rotate/breadth-to-depth", scheme)) for scheme in SCHEMES}) == 1

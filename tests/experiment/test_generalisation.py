"""Test rows at other sizes than those of training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ape_cli.core.errors import UsageError
from ape_cli.data.loader import open_dataset
from ape_cli.experiment.generalisation import LengthGeneralisation, multiples
from ape_cli.experiment.spec import parse
from ape_cli.runs.registry import open_registry
from tests.conftest import ape


def test_multiples_are_rounded_half_up() -> None:
    assert multiples(10) == [10, 13, 15, 20, 30, 50]  # 12.5 is 13
    assert multiples(1) == [1, 2, 3, 5]  # 1.25 is 1, 1.5 is 2


@pytest.mark.parametrize("bad", ["", "x", [], [1.5], "70000", [True]])
def test_bad_sizes(bad: str) -> None:
    with pytest.raises(UsageError, match="bad `generalise`"):
        parse(bad)


def test_train_again_evaluates_a_finished_run(here: Path) -> None:
    """The test rows have the seed of the training data, 1,000 rows of each size, and no training rows."""
    ape("gen", "copy", "--sizes", "2,4", "--n", "20", "--n-validation", "4", "--n-test", "4")
    words = ["train", "--scheme", "learned", "--data", "copy-sizes-2_4", "--preset", "tiny", "--set", "steps=2"]
    assert "generalise = [5, 7]\n" in ape(*words, "--generalise", "5,7", "--dry-run")[0]
    planned = ape(*words, "--dry-run")[0]
    assert "generalise = []\n" in planned
    assert 'structure = "seq"\n' in planned
    ape(*words)
    run = next(iter(open_registry("results")))
    assert len(run.evaluations()[0]) == 1
    out, err = ape(*words[:1], "--generalise", *words[1:])
    assert "is trained already" in err
    assert "exact match at size 4 " in out
    run = next(iter(open_registry("results")))
    other = next(e for e in run.evaluations()[0] if e.get("test_only"))
    assert {part["size"]: part["rows"] for part in other["by_size"]} == dict.fromkeys([4, 5, 6, 8, 12, 20], 1000)
    assert [sorted(part["chance"]) for part in other["by_size"]] == [["exact_match", "token_accuracy"]] * 6
    data = open_dataset(Path("datasets") / other["dataset"])
    assert other["plan"] == {"parameters": data.plan.parameters, "seed": data.plan.seed}
    assert ["plan" in e for e in run.evaluations()[0] if not e.get("test_only")] == [False]
    assert data.plan.rows == {"train": 0, "validation": 0, "test": 6000}
    assert data.plan.seed == open_dataset("datasets/copy-sizes-2_4").plan.seed
    json_scores = json.loads(ape("report", "--format", "json")[0])
    assert [line["dataset"] for line in json_scores] == ["copy-sizes-2_4"]  # no column that pools sizes
    # the newest dataset has no training rows, so it is not what a command without --data trains on
    assert "copy-sizes-2_4, the newest" in ape(*words[:3], *words[5:])[1]


def test_what_cannot_be_drawn_is_left_out(here: Path) -> None:
    ape("gen", "tree-copy", "--sizes", "1,2", "--n", "20", "--n-validation", "4", "--n-test", "4")
    data = open_dataset(next(Path("datasets").glob("tree-copy*")))
    chosen, left = LengthGeneralisation(Path("datasets")).of(data, (3, 63))
    assert chosen is not None
    assert chosen.plan.parameters["sizes"] == [3]
    assert "63: " in left

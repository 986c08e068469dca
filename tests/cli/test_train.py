"""`ape train` ends with scores to compare its own with."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from ape_cli.data.loader import open_dataset
from ape_cli.evaluation.count_baselines import count_baselines
from ape_cli.runs.registry import open_registry
from ape_cli.training import execution
from tests.conftest import ape
from tests.training.test_data_parallel import Apart

WORDS = ["--task", "copy", "--preset", "tiny", "--set", "steps=4", "--device", "cpu", "--seed", "5"]


def test_the_end_has_scores_to_compare_with(here: Path) -> None:
    """Those of counting, and of the registered run of the same model without positions."""
    first = ["train", "--scheme", "orthogonal-seq", "--structure", "seq", "--set", "side=query", *WORDS]
    out, err = ape(*first)
    result = next(iter(open_registry("results"))).read().outcome
    assert f"4 steps in {result.seconds:.0f} s, {result.tokens_per_second:,.0f} tokens/s\n" in out
    assert "`ape report` shows all scores side by side" in err
    assert "without positions" not in out
    found = json.loads(ape("train", "--scheme", "none", *WORDS, "--json")[0])
    baselines = count_baselines(open_dataset("datasets/copy-tiny"), "test")
    guess, counted, score = baselines.constant_guess, baselines.counted, found["test"]["overall"]["token_accuracy"]
    assert found["baselines"] == {"constant_guess": guess, "counted": counted, "none": score}
    assert found["test"]["baselines"] == counted
    best = max(counted, key=lambda name: counted[name]["token_accuracy"])
    assert ape(*first)[0].partition("compare its test token accuracy with\n")[2].splitlines() == [
        f"  {counted['most frequent answer']['token_accuracy']:7.2%}  always the most frequent answer",
        f"  {counted[best]['token_accuracy']:7.2%}  the best simple rule ({best})",
        f"  {score:7.2%}  the same model without positions (scheme none)",
    ]


def test_a_training_names_its_data_and_the_rows_that_it_uses(here: Path) -> None:
    """The sizes are those of the dataset, not of the preset. The proposed setting uses each row."""
    ape("gen", "tree-ops", "--n", "500", "--n-validation", "10", "--n-test", "10")
    words = ["train", "--scheme", "orthogonal-tree", "--preset", "tiny", "--device", "cpu", "--dry-run"]
    err = ape(*words)[1]
    assert "data: 500 training rows, mean depth 7\n" in err
    most = "this run uses at most 320 of them (20 steps of up to 16 rows); --set epochs=1 uses each row once\n"
    assert most in err
    assert "at most" not in ape(*words, "--set", "epochs=1")[1]


def test_the_first_of_several_processes_prints(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = []
    for rank in (0, 1):
        monkeypatch.setattr(execution, "process_group", lambda: nullcontext(Apart(rank, 2)))  # noqa: B023
        printed.append(ape("train", "--scheme", "rope", *WORDS, "--dry-run", "--json"))
    assert json.loads(printed[0][0])["state"] == "new"
    assert printed[1] == ("", "")


def test_eval_shows_what_counting_reaches(here: Path) -> None:
    ape("train", "--scheme", "rope", *WORDS, "--no-eval")
    counted = count_baselines(open_dataset("datasets/copy-tiny"), "test").counted
    out = ape("eval")[0]
    assert "simple rules without a model, counted on the training split" in out
    for name, scores in counted.items():
        line = next(line for line in out.splitlines() if f" {name} " in line)
        assert f"{scores['token_accuracy']:.2%}" in line
        assert f"{scores['exact_match']:.2%}" in line
    assert json.loads(ape("eval", "copy", "--json")[0])[0]["baselines"] == counted

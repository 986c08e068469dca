"""`ape train` ends with scores to compare its own with."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from ape_cli.data.loader import open_dataset
from ape_cli.evaluation.count_baselines import count_baselines, majority_baseline
from ape_cli.runs.registry import open_registry
from tests.conftest import ape

WORDS = ["--task", "copy", "--preset", "tiny", "--set", "steps=4", "--device", "cpu", "--seed", "5"]


def test_the_hint_trains_the_same_model_without_positions(here: Path) -> None:
    """The command is one line that can be copied, and the next run of the first model shows the score of the second."""
    first = ["train", "--scheme", "orthogonal-seq", "--structure", "seq", "--set", "side=query", *WORDS]
    out, err = ape(*first)
    result = next(iter(open_registry("results"))).read().outcome
    assert f"4 steps in {result.seconds:.0f} s, {result.tokens_per_second:,.0f} tokens/s\n" in out
    guess = majority_baseline(open_dataset("datasets/copy-tiny").split("test"))
    assert f"  test token accuracy of always answering the most frequent symbol: {guess:.2%}\n" in out
    hint = err.splitlines()[err.splitlines().index("to compare it with a model without positions:") + 1]
    command = shlex.split(hint)
    assert command[:4] == ["ape", "train", "--scheme", "none"]
    assert "side" not in hint
    assert "--structure" not in hint
    assert "steps=4" in hint
    assert "to compare" not in ape(*command[1:])[1]
    found = json.loads(ape(*command[1:], "--json")[0])
    assert found["baselines"] == {"constant_guess": guess, "none": found["test"]["overall"]["token_accuracy"]}
    again, notes = ape(*first)
    assert f"without positions (scheme none): {found['baselines']['none']:.2%}" in again
    assert "to compare" not in notes


def test_eval_shows_what_counting_reaches(here: Path) -> None:
    ape("train", "--scheme", "rope", *WORDS, "--no-eval")
    counted = count_baselines(open_dataset("datasets/copy-tiny"), "test")
    out = ape("eval")[0]
    assert "baselines counted on the training split" in out
    for name, scores in counted.items():
        line = next(line for line in out.splitlines() if f" {name} " in line)
        assert f"{scores['token_accuracy']:.2%}" in line
        assert f"{scores['exact_match']:.2%}" in line
    assert json.loads(ape("eval", "copy", "--json")[0])[0]["baselines"] == counted

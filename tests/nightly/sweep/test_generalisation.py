"""A sweep that evaluates its runs at other sizes: once, in both decodings, and also runs that were finished before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ape_cli.runs.registry import open_registry
from tests.conftest import ape
from tests.sweep.test_sweep import ONE, SHORT

pytestmark = pytest.mark.usefixtures("forked_workers")

WORDS = ["--schemes", "rope", "--tasks", "copy", "--sizes", "1-4", "--preset", "tiny", "--seeds", "1-2", *SHORT, *ONE]


def evaluated() -> list[set[tuple[str, bool, tuple[int, ...]]]]:
    """Returns the decoding, the kind of dataset and the sizes of each evaluation, for each run."""
    return [
        {(one["decode"], "test_only" in one, tuple(line["size"] for line in one["by_size"])) for one in evaluations}
        for evaluations, _ in (run.evaluations() for run in open_registry("results"))
    ]


def test_finished_runs_are_evaluated_and_not_trained_again(here: Path) -> None:
    own, others = (1, 2, 3, 4), (6, 8)
    ape("sweep", *WORDS)
    assert evaluated() == [{("teacher", False, own)}] * 2
    out, _ = ape("sweep", *WORDS, "--generalise", "6,8", "--decode", "greedy")
    assert out.splitlines()[-1] == "2 trials: 2 finished; 0 trained now"
    both = [
        {(decode, other, others if other else own) for decode in ("teacher", "greedy") for other in (False, True)}
    ] * 2
    assert evaluated() == both


def test_nothing_is_evaluated_twice(here: Path) -> None:
    ape("sweep", *WORDS, "--generalise", "6")
    _, err = ape("sweep", *WORDS, "--generalise", "6")
    assert "2 finished, nothing to do" in err
    shutil.rmtree("datasets")
    _, err = ape("sweep", *WORDS, "--generalise", "6")
    assert "2 finished, nothing to do" in err
    assert not Path("datasets").exists()
    plan = json.loads(ape("sweep", *WORDS, "--generalise", "--dry-run", "--json")[0])
    assert plan["to_do"] == 2  # 1.25 to 5 times the largest size are not only 6
    out, _ = ape("sweep", *WORDS, "--generalise", "6,9")
    assert out.splitlines()[-1] == "2 trials: 2 finished; 0 trained now"

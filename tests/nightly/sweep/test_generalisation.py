"""A sweep that evaluates its runs at other sizes: once, in both decodings, and also runs that were finished before."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ape_cli.runs.registry import open_registry
from tests.conftest import ape
from tests.registered import edit
from tests.sweep.test_sweep import ONE, SHORT

pytestmark = pytest.mark.usefixtures("forked_workers")

WORDS = ["--schemes", "rope", "--tasks", "copy", "--sizes", "1-4", "--preset", "tiny", "--seeds", "1-2", *SHORT, *ONE]


def evaluated() -> list[set[tuple[str, bool, tuple[int, ...]]]]:
    """Returns the decoding, the kind of dataset and the sizes of each evaluation, for each run."""
    return [
        {(one["decode"], "test_only" in one, tuple(line["size"] for line in one["by_size"])) for one in evaluations}
        for evaluations, _ in (run.evaluations() for run in open_registry("results"))
    ]


def test_schemes_are_tuned_and_compared_beyond_training(here: Path) -> None:
    """Two commands: a row for each scheme, two numbers, one figure. No test score has a part in what is chosen."""
    words = ["--schemes", "rope,alibi,none", "--tasks", "copy", "--sizes", "1-10", "--preset", "tiny", *SHORT, *ONE]
    ape("sweep", *words, "--tune", "lr_peak=1e-3,3e-3", "--seeds", "42-44", "--generalise")
    tuned = ["report", "--best-by", "validation", "--view", "generalisation"]
    table = ape(*tuned, "--plots", "figures", "--format", "markdown")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    assert [(len(row), row[0]) for row in rows] == [(3, name) for name in ("scheme", "none", "rope", "alibi")]
    assert [path.name for path in Path("figures").iterdir()] == ["generalisation.svg"]

    def chosen() -> dict[tuple[str, str], tuple[str, int]]:
        reports = (json.loads(ape("report", *tuned[1:3], *more, "--format", "json")[0]) for more in ([], tuned[3:]))
        return {(str(n), x["scheme"]): (x["setting"], x["trials"]) for n, found in enumerate(reports) for x in found}

    before = chosen()
    assert {trials for _, trials in before.values()} == {2}
    evaluations = sorted(Path("results").glob("runs/*/eval/*.json"))
    assert len(evaluations) == 2 * 18
    scores = itertools.count(1)
    for path in evaluations:
        edit(path, lambda found: altered(found, scores))
    assert chosen() == before


def altered(found: dict[str, Any], scores: Iterator[int]) -> None:
    """Replaces every score of an evaluation by another."""
    for part in (found["overall"], *found["by_size"]):
        part |= {name: next(scores) / 10_000 for name in ("token_accuracy", "exact_match", "cross_entropy")}


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

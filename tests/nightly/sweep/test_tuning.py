"""A sweep with tuning as a command: two stages, resumed, with a failed trial, and its report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ape_cli.runs.registry import open_registry
from tests.conftest import ape
from tests.sweep.test_sweep import ONE, SHORT

pytestmark = pytest.mark.usefixtures("forked_workers")

WORDS = ["--schemes", "rope,none", "--tasks", "copy", "--preset", "tiny", "--seeds", "1-2", *SHORT, *ONE]
TUNE = ["--tune", "lr_peak=1e-3,3e-3", "--tune-seeds", "1"]


def test_both_stages_and_nothing_twice(here: Path) -> None:
    out, err = ape("sweep", *WORDS, *TUNE)
    assert out.splitlines()[-1] == "6 trials: 6 finished; 6 trained now"
    assert "settings tried" in out
    assert err.count("test token accuracy") == 2  # of the second stage; the first must not be chosen by it
    assert len(list(open_registry("results"))) == 6
    told = json.loads(ape("sweep", *WORDS, *TUNE, "--json")[0])
    assert [end["trained"] for end in told["trials"]] == [False] * 6
    assert [(one["trials"], len(one["runs"])) for one in told["chosen"]] == [(2, 2)] * 2
    plan = json.loads(ape("sweep", *WORDS, *TUNE, "--dry-run", "--json")[0])
    assert (len(plan["trials"]), plan["to_do"]) == (6, 0)


def test_a_failed_trial_leaves_its_group_without_a_second_stage(here: Path) -> None:
    Path("mine.toml").write_text(
        'preset = "tiny"\ntasks = ["copy"]\nseeds = [1, 2]\nset = { steps = 40, validate_every_steps = 20 }\n'
        '[[grid]]\nschemes = ["rope"]\ntune = { set = { lr_peak = [1e-3, 1e30] }, seeds = [1] }\n'
        '[[grid]]\nschemes = ["none"]\ntune = { set = { lr_peak = [1e-3, 3e-3] }, seeds = [1] }\n'
    )
    out, err = ape("sweep", "mine.toml", "--device", "cpu", *ONE, code=1)
    assert "5 trials: " in out
    assert "1 failed" in out
    assert "not tuned: copy-tiny rope" in err
    seeds = [run.read().config.seed for run in open_registry("results") if run.read().config.scheme == "rope"]
    assert seeds == [1, 1]
    report = ape("report", "--sweep", "mine.toml", "--format", "markdown")[0]
    assert "Finished: 4 of 6 runs." in report
    tuned = ape("report", "--sweep", "mine.toml", "--best-by", "validation", "--format", "markdown")[0]
    assert "| none |" in tuned
    assert "Preset tiny with steps=40, validate_every_steps=20." in tuned
    assert "| rope" not in tuned
    words = ("report", "--sweep", "mine.toml", "--best-by", "validation", "--scheme", "rope")
    assert "no setting is chosen yet" in ape(*words, code=1)[1]

"""Estimates of the time of a trial: what they rest on, and how they scale with its work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ape_cli.runs.registry import open_registry
from tests.conftest import ape
from tests.registered import edit
from tests.sweep.test_sweep import ONE, SHORT

pytestmark = pytest.mark.usefixtures("forked_workers")
TRIAL = ["--tasks", "copy", "--preset", "tiny", "--device", "cpu"]


def test_an_estimate_scales_with_the_work(here: Path) -> None:
    """A run of 6 steps with 16 words of 6 symbols took 3 seconds, 3 / (6 * 16 * 6) for each step and symbol."""
    assert "time unknown, as no earlier run has the same model" in ape(
        "sweep", "--schemes", "rope", *TRIAL, "--dry-run"
    )[0].replace("\n", " ")
    ape("sweep", "--schemes", "rope", "--tasks", "copy", "--preset", "tiny", *SHORT, *ONE)
    (run,) = open_registry("results")
    edit(Path(str(run.folder)) / "run.json", lambda about: about["result"].update(seconds=3.0))
    ape("gen", "copy", "--sizes", "3,6,9,30", "--n", "25", "--n-test", "1", "--out", "longer")  # 12 symbols on average

    def seconds(*words: str, scheme: str = "rope", data: tuple[str, str] = ("--tasks", "copy")) -> float | None:
        given = ["--schemes", scheme, *data, "--preset", "tiny", "--device", "cpu", "--dry-run", "--json"]
        (listed,) = json.loads(ape("sweep", *given, "--seeds", "9", *words)[0])["trials"]
        return None if listed["seconds"] is None else float(listed["seconds"])

    six, longer = ("--set", "steps=6"), ("--data", "longer")
    assert seconds(*six) == pytest.approx(3.0)
    assert seconds() == pytest.approx(10.0)  # the 20 steps of the preset
    assert seconds(*six, "--set", "batch_size=64") == pytest.approx(12.0)
    assert seconds("--set", "epochs=6") == pytest.approx(39.0)  # 200 rows: 6 times 13 steps of 16
    assert seconds(*six, data=longer) == pytest.approx(6.0)
    assert seconds("--set", "epochs=6", data=longer) == pytest.approx(42.0)  # 100 rows: 6 times 7 steps
    assert seconds(*six, scheme="none") == pytest.approx(3.0)  # the same model
    assert seconds(*six, "--set", "d_model=64") is None

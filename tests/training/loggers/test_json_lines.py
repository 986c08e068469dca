"""JSON lines: what is written, and that a resumed run continues where it was stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ape_cli.core.errors import RunError
from ape_cli.experiment import ExperimentSpec
from ape_cli.training.loggers import LoggedRun
from ape_cli.training.loggers.json_lines import JsonLines
from tests.conftest import ape


def logged(folder: Path, step: int = 0) -> JsonLines:
    return JsonLines(
        LoggedRun("run", ExperimentSpec(preset="tiny", scheme="rope").config("sequence"), folder, 100, (), step)
    )


def test_a_line_for_each_call(tmp_path: Path) -> None:
    logger = logged(tmp_path / "logs")
    logger.log(10, {"recent_loss": 2.5})
    assert not (tmp_path / "logs").exists()  # written at a validation, and at the end
    logger.log(10, {"validation_loss": 2.0, "kept": True})
    expected = '{"step": 10, "recent_loss": 2.5}\n{"step": 10, "validation_loss": 2.0, "kept": true}\n'
    assert (tmp_path / "logs" / "metrics.jsonl").read_text() == expected
    logger.log(20, {"recent_loss": 1.5})
    logger.close()
    assert (tmp_path / "logs" / "metrics.jsonl").read_text() == expected + '{"step": 20, "recent_loss": 1.5}\n'


def test_what_was_logged_after_the_stored_state_is_logged_again(tmp_path: Path) -> None:
    first = logged(tmp_path)
    for step in (10, 20, 30):
        first.log(step, {"recent_loss": step / 10})
    first.close()
    resumed = logged(tmp_path, step=20)
    resumed.log(30, {"recent_loss": 9.0})
    resumed.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["recent_loss"]) for line in lines] == [(10, 1.0), (20, 2.0), (30, 9.0)]


def test_a_damaged_log_is_refused(tmp_path: Path) -> None:
    for line in ("not json", "[10]", "{}", "[" * 60_000):
        (tmp_path / "metrics.jsonl").write_text(line)
        with pytest.raises(RunError, match="cannot read"):
            logged(tmp_path, step=20)


def test_a_run_that_is_overwritten_loses_its_logs(here: Path) -> None:
    words = ("train", "--scheme", "rope", "--task", "copy", "--preset", "tiny", "--set", "steps=4", "--no-eval")
    ape(*words, "--log", "json-lines")
    (path,) = here.glob("results/runs/*/logs/metrics.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["step"] for row in rows] == [4, 4]
    assert "trained already" in ape(*words)[1]
    assert path.exists()
    ape(*words, "--overwrite")
    assert not path.parent.exists()

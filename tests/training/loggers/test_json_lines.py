"""JSON lines: what is written, and that a resumed run continues where it was stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ape_cli.runs import config
from ape_cli.training.loggers import LoggedRun
from ape_cli.training.loggers.json_lines import JsonLines
from tests.conftest import ape


def logged(folder: Path, step: int = 0) -> JsonLines:
    return JsonLines(LoggedRun("run", config.resolve("tiny", "rope", {}), folder, 100, (), step))


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


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[10]",
        b"10",
        b"{}",
        b'{"step": "10"}',
        b'{"step": 10, "recent_loss": ',
        b'{"step": 10, "recent_loss": "\xff"}',
        b"[" * 60_000,
        b"1" * 5_000,
        b"",
    ],
)
def test_damaged_lines_are_dropped_and_named(tmp_path: Path, line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "metrics.jsonl"
    sound = [b'{"step": 10, "recent_loss": 1.0}', b'{"step": 20, "recent_loss": 2.0}']
    path.write_bytes(b"\n".join([sound[0], line, sound[1], line]) + b"\n")
    resumed = logged(tmp_path, step=20)
    assert "metrics.jsonl: 2 damaged lines are dropped" in caplog.text
    resumed.close()
    assert path.read_bytes().splitlines() == sound


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

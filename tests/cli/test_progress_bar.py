"""The lines about the progress of training where there is no terminal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ape_cli.cli.progress_bar import ProgressBar

RECENT = {"recent_loss": 12.34567, "recent_token_accuracy": 1.0, "tokens_per_second": 1_234_567.0}
VALIDATION = {"validation_token_accuracy": 1.0, "validation_loss": 0.5}


def run_of(steps: int, step: int = 0, history: tuple[Any, ...] = ()) -> Any:
    """What a logger knows of a run."""
    return SimpleNamespace(steps=steps, step=step, history=history, config=SimpleNamespace(unit="tokens"))


def test_there_is_a_line_at_the_start_and_then_one_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    """Each step takes 2 s, and a validation no time."""
    seconds = 0.0
    bar = ProgressBar(run_of(100), lambda: seconds)
    for step in range(1, 70):
        seconds = 2.0 * step
        if step == 20:
            bar.log(step, VALIDATION)
        bar.log(step, RECENT)
    bar.close()
    start, middle, end = "loss 12.3457  training 100.00%", "  validation 100.00%", "  1,234,567 tokens/s  about"
    assert capsys.readouterr().err.splitlines() == [
        f"step 1/100  {start}{end} 3:18 left",
        f"step 31/100  {start}{middle}{end} 2:18 left",
        f"step 61/100  {start}{middle}{end} 1:18 left",
    ]


def test_a_resumed_run_shows_its_last_validation_and_its_own_pace(capsys: pytest.CaptureFixture[str]) -> None:
    """One step since it was resumed took 3 s, so 9 more steps take 27 s."""
    times = iter([5.0, 8.0])
    bar = ProgressBar(run_of(20, 10, ({"validation_token_accuracy": 0.25},)), lambda: next(times))
    bar.log(11, RECENT)
    bar.close()
    assert "validation 25.00%  1,234,567 tokens/s  about 0:27 left" in capsys.readouterr().err

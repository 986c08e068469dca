"""The lines about the progress of training where there is no terminal."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ape_cli.cli.console import Repeated
from ape_cli.cli.progress_bar import ProgressBar

RECENT = {"recent_loss": 12.34567, "recent_token_accuracy": 1.0, "tokens_per_second": 1_234_567.0}
VALIDATION = {"validation_token_accuracy": 1.0, "validation_loss": 0.5}


def run_of(steps: int, step: int = 0, history: tuple[Any, ...] = ()) -> Any:
    """What a logger knows of a run."""
    return SimpleNamespace(steps=steps, step=step, history=history, config=SimpleNamespace(unit="tokens"))


def test_elsewhere_there_is_a_line_at_the_start_and_then_one_a_minute(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A step takes 2 s. After step 2, 98 steps are left, which take 196 s. A long step does not make it silent."""
    seconds = 100.0
    bar = ProgressBar(run_of(100), lambda: seconds)
    assert bar.lines is not None
    assert (bar.lines.call, bar.lines.seconds) == (bar.print_progress, 60.0)
    bar.print_progress()  # nothing is known
    for step in range(2, 63, 2):
        seconds = 100.0 + 2 * step
        if step == 20:
            bar.log(step, VALIDATION)
        bar.log(step, RECENT)
        if step % 30 == 2 and step > 2:
            bar.print_progress()
    seconds += 60
    bar.print_progress()
    bar.close()
    lines = capsys.readouterr().err.splitlines()
    start, middle, end = "loss 12.3457  training 100.00%", "  validation 100.00%", "  1,234,567 tokens/s  about"
    assert lines == [
        f"step 2/100  {start}{end} 3:16 left",
        f"step 32/100  {start}{middle}{end} 2:16 left",
        *[f"step 62/100  {start}{middle}{end} 1:16 left"] * 2,
    ]


def test_a_resumed_run_shows_its_last_validation_and_its_own_pace(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One step since it was resumed took 3 s, so 9 more steps take 27 s."""
    times = iter([5.0, 8.0])
    bar = ProgressBar(run_of(20, 10, ({"validation_token_accuracy": 0.25},)), lambda: next(times))
    bar.log(11, RECENT)
    bar.close()
    assert "validation 25.00%  1,234,567 tokens/s  about 0:27 left" in capsys.readouterr().err


def test_it_is_printed_again_and_again_until_it_is_stopped() -> None:
    calls, often = list[int](), threading.Event()

    def call() -> None:
        calls.append(len(calls))
        if len(calls) == 3:
            often.set()
        if len(calls) == 2:
            raise BrokenPipeError

    lines = Repeated(call, 0.001)
    assert often.wait(60)
    lines.stop()
    assert not lines.thread.is_alive()

"""The status of a run after an error, and what may be done with it next."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core.errors import ApeError, DataError, RunError
from ape_cli.data.loader import Dataset
from ape_cli.runs.registry import open_registry
from ape_cli.training.execution import ExistingRun
from ape_cli.training.trainer import DivergenceError, Trainer
from tests.runs.test_registry import run


def breaks(monkeypatch: pytest.MonkeyPatch, error: BaseException, *, after: int) -> None:
    """Lets `error` happen after some steps, of which each stores a checkpoint."""
    train_on = Trainer.step

    def step(self: Trainer, batch: Any) -> None:
        if self.progress.step == after:
            raise error
        train_on(self, batch)

    monkeypatch.setattr(Trainer, "step", step)
    monkeypatch.setattr("ape_cli.training.trainer.Trainer.due", lambda self, validated: True)


@pytest.mark.parametrize(
    ("error", "status", "fix"),
    [
        (ApeError("cannot write x", got=os.strerror(errno.ENOSPC)), "stopped", "continue it with `resume`, or"),
        (DataError("a shard was altered"), "stopped", "continue it with `resume`, or"),
        (OSError(errno.EIO, "Input/output error"), "stopped", "continue it with `resume`, or"),
        (KeyboardInterrupt(), "stopped", "continue it with `resume`, or"),
        (
            DivergenceError("the loss is no longer a number"),
            "failed",
            "continue it with `resume`, or start it again with `overwrite`, or change",
        ),
        (ZeroDivisionError("a bug"), "failed", "continue it with `resume`, or start it again with `overwrite`, or"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_the_status_after_an_error(
    words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: str, fix: str
) -> None:
    with monkeypatch.context() as patched:
        breaks(patched, error, after=2)
        with pytest.raises(type(error)):
            run(words, tmp_path)
    (found,) = open_registry(tmp_path)
    assert found.status == status
    with pytest.raises(RunError) as caught:
        run(words, tmp_path)
    assert str(caught.value.fix).startswith(fix)
    assert run(words, tmp_path, existing=ExistingRun.RESUME).run.status == "finished"


@pytest.mark.parametrize(
    ("error", "status"),
    [(DivergenceError("it is no number"), "failed"), (ApeError("`embed` of scheme 'mine' failed"), "stopped")],
)
def test_a_run_without_a_state_starts_again(
    words: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: ApeError,
    status: str,
) -> None:
    """It has nothing to lose. The user has repaired a scheme, for example, and repeats the command."""
    caplog.set_level("INFO")
    with monkeypatch.context() as patched:
        breaks(patched, error, after=0)
        for _ in range(2):  # the mistake is still there at the second attempt
            with pytest.raises(type(error), match=re.escape(error.what)):
                run(words, tmp_path)
            (found,) = open_registry(tmp_path)
            assert found.status == status
    assert run(words, tmp_path).run.status == "finished"
    assert caplog.text.count(f"{status} before its first checkpoint, so it starts again") == 2

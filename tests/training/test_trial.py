"""What is done with an existing run, and its status after an error."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli.core.errors import ApeError, DataError, RunError
from ape_cli.core.memory import OutOfMemoryError
from ape_cli.data.loader import Dataset
from ape_cli.runs.registry import open_registry
from ape_cli.training.execution import ExistingRun
from ape_cli.training.trainer import DivergenceError, Trainer
from ape_cli.training.trial import decide
from tests.runs.test_registry import run

TABLE = """
                        REFUSE  RESUME  RESUME_OR_START  OVERWRITE
no run                  START   REFUSE  START            START
running                 REFUSE  REFUSE  REFUSE           START
stopped                 REFUSE  RESUME  RESUME           START
failed                  REFUSE  RESUME  RESUME           START
stopped, without state  START   RESUME  RESUME           START
failed, without state   START   RESUME  RESUME           START
finished                SKIP    SKIP    SKIP             START
"""  # to overwrite a run that another process trains is refused when it is locked


def test_each_cell_of_the_decision() -> None:
    head, *lines = [re.split("  +", line) for line in TABLE.splitlines() if line]
    assert set(head[1:]) == {existing.name for existing in ExistingRun}
    for name, *actions in lines:
        status = None if name == "no run" else name.partition(",")[0]
        for existing, action in zip(head[1:], actions, strict=True):
            has_state = name in ("stopped", "failed")
            assert decide(status, ExistingRun[existing], has_state=has_state).name == action, (name, existing)


def breaks(monkeypatch: pytest.MonkeyPatch, error: BaseException, *, after: int) -> None:
    """Lets `error` happen after some steps, of which each stores a checkpoint."""
    train_on = Trainer.step

    def step(self: Trainer, batch: Any) -> None:
        if self.progress.step == after:
            raise error
        train_on(self, batch)

    monkeypatch.setattr(Trainer, "step", step)
    monkeypatch.setattr(Trainer, "due", lambda self: True)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ApeError("cannot write x", got=os.strerror(errno.ENOSPC)), "stopped"),
        (DataError("a shard was altered"), "stopped"),
        (OSError(errno.EIO, "Input/output error"), "stopped"),
        (torch.OutOfMemoryError("CUDA out of memory"), "stopped"),
        (KeyboardInterrupt(), "stopped"),
        (DivergenceError("the loss is no longer a number"), "failed"),
        (ZeroDivisionError("a bug"), "failed"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_the_status_after_an_error(
    words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: str
) -> None:
    with monkeypatch.context() as patched:
        breaks(patched, error, after=2)
        with pytest.raises(OutOfMemoryError if isinstance(error, torch.OutOfMemoryError) else type(error)):
            run(words, tmp_path)
    (found,) = open_registry(tmp_path)
    assert found.status == status
    with pytest.raises(RunError, match="`resume`, or start it again with `overwrite`"):
        run(words, tmp_path)
    assert run(words, tmp_path, existing=ExistingRun.RESUME).run.status == "finished"

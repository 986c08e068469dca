"""Kills while a run stores its files: nothing is lost, and the run ends with the bytes of one that was not killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli import experiment
from ape_cli.data.loader import Dataset
from ape_cli.runs.run import Run
from ape_cli.storage import files
from ape_cli.training.execution import Execution, ExistingRun
from ape_cli.training.trainer import Trainer
from tests.runs.test_registry import run
from tests.training.test_trainer import CPU, Memory, scored, tiny


class Killed(BaseException):
    """The process ends here: no handler of errors does anything."""


@pytest.mark.parametrize("at_once", [True, False])
def test_the_best_weights_survive_although_repeated_steps_differ(
    words: Dataset, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """On a GPU, steps after the last checkpoint are repeated with other roundings. Here no later score is better.

    The checkpoint has the best weights at once, or those of the validation before it.
    """
    store = Memory()
    scored(monkeypatch, [0.9] if at_once else [0.9, 0.8])
    running = Trainer(experiment.of(tiny("rope", words), words), store, Execution(CPU))
    known: dict[str, torch.Tensor] = {}
    last = 5 if at_once else 10
    monkeypatch.setattr(Trainer, "due", lambda self: running.progress.step == last)

    def keep(*args: Any) -> None:
        if running.progress.step == 4:  # the step is counted after it
            known.update({name: value.clone() for name, value in running.model.state_dict().items()})
        if running.progress.step == last:
            raise Killed

    running.optimiser.register_step_post_hook(keep)
    with pytest.raises(Killed):
        running.run()
    assert store.state is not None
    assert any(name.startswith("best.") for name in store.state[0]) != at_once

    scored(monkeypatch, [0.3] * 4)
    resumed = Trainer(experiment.of(tiny("rope", words), words), store, Execution(CPU))
    result = resumed.run()
    assert (result.best_step, result.best_accuracy) == (5, 0.9)
    for name, value in known.items():
        assert torch.equal(resumed.best[name], value), name


@pytest.mark.parametrize("writes", range(6))
def test_a_run_that_was_killed_between_two_files(
    words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """The files are run.json, history, state, weights, history and run.json; then the state is removed."""
    whole = Path(str(run(words, tmp_path / "whole", test=False).run.folder), "model.safetensors").read_bytes()
    replacing, done = files.replacing, 0

    def mortal(*given: Any) -> Any:
        nonlocal done
        done += 1
        if done > writes:
            raise Killed
        return replacing(*given)

    with monkeypatch.context() as patched:
        patched.setattr(files, "replacing", mortal)
        with pytest.raises(Killed):
            run(words, tmp_path / "killed", test=False)
    resumed = run(words, tmp_path / "killed", test=False, existing=ExistingRun.RESUME_OR_START)
    assert resumed.trained
    assert Path(str(resumed.run.folder), "model.safetensors").read_bytes() == whole
    assert Run(resumed.run.folder).problems() == []

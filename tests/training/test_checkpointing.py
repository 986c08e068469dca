"""A kill between the state of a run and its best weights, which are stored one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli.core.errors import RunError
from ape_cli.data.loader import Dataset
from ape_cli.runs.audit import audit
from ape_cli.runs.run import Run
from ape_cli.storage.tensors import load_tensors, save_tensors
from ape_cli.training.checkpointing import Checkpointer, restore
from ape_cli.training.execution import Execution, ExistingRun
from ape_cli.training.loop import Loop
from tests.runs.test_integrity import first
from tests.runs.test_registry import run
from tests.training.test_loop import CPU, Memory, scored, tiny


class Killed(BaseException):
    """The process ends here: no handler of errors does anything."""


class Mortal(Memory):
    """A store that is killed when it has to store weights, if `dies` is set."""

    dies = True

    def save_model(self, tensors: dict, about: dict) -> None:
        if self.dies:
            raise Killed
        super().save_model(tensors, about)


@pytest.mark.parametrize("at_once", [True, False])
def test_the_best_weights_survive_although_repeated_steps_differ(
    words: Dataset, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """On a GPU, steps after the last checkpoint are repeated with other roundings. Here no later score is better.

    The checkpoint has the best weights at once, or those of the validation before it.
    """
    store = Mortal()
    scored(monkeypatch, [0.9] if at_once else [0.9, 0.8])
    running = Loop(tiny("rope", words), words, store, Execution(CPU))
    known: dict[str, torch.Tensor] = {}
    monkeypatch.setattr(Checkpointer, "due", lambda self, validated: running.at.step == (5 if at_once else 10))

    def keep(*args: Any) -> None:
        if running.at.step == 4:  # the step is counted after it
            known.update({name: value.clone() for name, value in running.setup.model.state_dict().items()})

    running.setup.optimiser.register_step_post_hook(keep)
    with pytest.raises(Killed):
        running.run()
    assert store.model is None
    assert store.state is not None
    assert any(name.startswith("best.") for name in store.state[0]) != at_once

    store.dies = False
    scored(monkeypatch, [0.3] * 4)
    result = Loop(tiny("rope", words), words, store, Execution(CPU)).run()
    assert (result.best_step, result.best_accuracy) == (5, 0.9)
    assert store.models == [{"step": 5, "validation_token_accuracy": 0.9}]
    for name, value in known.items():
        assert torch.equal(store.model[0][name], value), name
    assert not any(name.startswith("best.") for name in store.state[0])


def killed(
    words: Dataset, where: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any] | None
) -> tuple[Run, Path]:
    """A run that was killed between its state and its weights. Returns it and the path of its state.

    `other`: fields of the metadata that the weights in the file have instead of their own, or None if there is no file.
    """
    save = Run.save_model

    def killed(self: Run, tensors: dict, about: dict) -> None:
        if other is not None:
            save(self, tensors, about | other)
        raise Killed

    monkeypatch.setattr(Run, "save_model", killed)
    with pytest.raises(Killed):
        run(words, where, test=False)
    monkeypatch.setattr(Run, "save_model", save)
    found = first(where)
    return found, Path(str(found.folder), "state", "state.safetensors")


@pytest.mark.parametrize(
    "other", [None, {"step": 1, "validation_token_accuracy": 0.01}, {}], ids=["missing", "older", "stored"]
)
def test_a_run_that_was_killed_between_both_files(
    words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any] | None
) -> None:
    """It is sound, and ends with the bytes of a run that was not killed."""
    whole = Path(str(run(words, tmp_path / "whole", test=False).run.folder), "model.safetensors").read_bytes()
    found, _ = killed(words, tmp_path / "killed", monkeypatch, other)
    assert audit(found).state == "verified"
    done = run(words, tmp_path / "killed", test=False, existing=ExistingRun.RESUME).run
    assert Path(str(done.folder), "model.safetensors").read_bytes() == whole


def test_weights_of_an_attempt_that_was_given_up(
    words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their step is later than any of this attempt, whose state holds its own best weights."""
    found, _ = killed(words, tmp_path, monkeypatch, {"step": 4, "validation_token_accuracy": 0.9})
    assert audit(found).state == "verified"
    done = run(words, tmp_path, test=False, existing=ExistingRun.RESUME).run
    assert audit(Run(done.folder)).state == "verified"


def test_a_state_of_an_early_version_is_older_than_its_weights(
    words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stored last. The repeated steps store the same weights again."""
    found, state = killed(words, tmp_path, monkeypatch, {})
    weights = state.parents[1] / "model.safetensors"
    tensors, about, _ = load_tensors(weights)
    newer = about | {"step": about["step"] + 1}
    save_tensors(weights, tensors, newer)
    loaded, cursor, _ = load_tensors(state)
    save_tensors(state, loaded, cursor | {"holds_best": False})
    assert "does not have the best weights" in audit(first(tmp_path)).problems[0]
    with pytest.raises(RunError, match="does not have the best weights"):
        run(words, tmp_path, test=False, existing=ExistingRun.RESUME)
    del cursor["holds_best"]
    save_tensors(state, loaded, cursor)
    assert audit(first(tmp_path)).state == "verified"
    stored = found.load_state()
    assert stored is not None
    restore(Loop(found.config(), words, None, Execution(CPU)).setup, found)
    save_tensors(weights, tensors, about | {"step": about["step"] - 1})
    with pytest.raises(RunError, match="does not have the best weights"):
        restore(Loop(found.config(), words, None, Execution(CPU)).setup, found)


def test_best_weights_in_a_state_that_are_no_numbers(
    words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not stored as the weights of the run."""
    monkeypatch.setattr(Checkpointer, "due", lambda self, validated: self.meter.at.step == 3)
    found, state = killed(words, tmp_path, monkeypatch, None)
    tensors, cursor, _ = load_tensors(state)
    name = next(name for name in tensors if name.startswith("best."))
    save_tensors(state, tensors | {name: tensors[name] * torch.nan}, cursor)
    with pytest.raises(RunError, match=f"does not fit the run\n  got:     {name} has values that are not finite"):
        run(words, tmp_path, test=False, existing=ExistingRun.RESUME)
    assert not found.has_weights

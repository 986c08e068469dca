"""Checkpoints: what is stored of a training so that it can resume.

A checkpoint has the cursor, the weights, the state of the optimiser and the states of the random streams. It also has
the best weights until they are stored in their own file, so that a kill between the two files loses neither.

Tensors have names: `model.NAME`, `best.NAME` (the best weights, if they are not the current ones),
`optimiser.NAME.KEY` (moments of a parameter), and `rng.cpu` and `rng.cuda` (uint8, the state of a generator). For a
rank other than 0 the last two are `rng.cpu.RANK` and `rng.cuda.RANK`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Protocol

import torch
from pydantic import FailFast, Field, TypeAdapter, ValidationError
from torch import Tensor, nn

from ape_cli.core import budget
from ape_cli.core.errors import RunError
from ape_cli.core.validation import first_error
from ape_cli.models.transformer import Model
from ape_cli.position import Scheme
from ape_cli.runs import history
from ape_cli.runs.run import Run
from ape_cli.runs.run_files import WEIGHTS
from ape_cli.storage.paths import StoragePath

Tensors = dict[str, Tensor]
_Whole = Annotated[int, Field(lt=2**53)]
_Real = Annotated[float, Field(allow_inf_nan=False)]
_Rows = Annotated[list[dict[str, Any]], Field(max_length=budget.VALIDATIONS), FailFast()]  # one error, not millions
_MOMENTS = ("exp_avg", "exp_avg_sq")  # of a parameter, in the optimiser
logger = logging.getLogger(__name__)


class Store(Protocol):
    """The place where a run keeps what it must not lose. `runs.run.Run` is one."""

    def save_state(self, tensors: Tensors, cursor: dict[str, Any]) -> None:
        """Store the tensors of a checkpoint, and the cursor as a JSON object."""

    def load_state(self) -> tuple[Tensors, dict[str, Any]] | None:
        """The tensors and the cursor of the stored checkpoint, or None if there is none."""

    def check_weights(self, cursor: dict[str, Any]) -> bool:
        """Check the stored best weights, and return whether they are those of a cursor.

        If they are not, the checkpoint holds them. Raises `RunError` if it does not hold them either.
        """

    def save_model(self, tensors: Tensors, about: dict[str, Any]) -> None:
        """Store the best weights, and a JSON object about them."""

    def save_history(self, rows: list[dict[str, Any]]) -> None:
        """Store the rows of the training history."""


@dataclass
class Cursor:
    """The progress of a run. It is a JSON object in the stored state."""

    step: _Whole = 0  # number of optimiser steps done
    epoch: _Whole = 0
    batch: _Whole = 0  # number of batches of the epoch done
    best_step: _Whole = 0
    best_accuracy: _Real = -1.0
    best_loss: _Real = 0.0  # cross-entropy in nats for each token, if it decides between equal accuracies
    holds_best: bool | None = None  # whether the checkpoint has the best weights; None in early versions
    seconds: _Real = 0.0
    tokens: _Whole = 0  # number of tokens seen so far, without padding
    history: _Rows = field(default_factory=list)
    # sums since the last validation
    nats: _Real = 0.0
    correct: _Whole = 0
    labels: _Whole = 0

    @classmethod
    def parse(cls, stored: dict[str, Any], steps: int, batches: Callable[[int], int]) -> Cursor:
        """The cursor of a stored JSON object.

        `steps` is the number of steps of the run, and `batches` returns the number of batches of an epoch. Raises
        `ValueError` if the object is no cursor, or cannot be the cursor of such a run.
        """
        unknown = sorted(set(stored) - {field.name for field in fields(cls)})
        if unknown:
            raise ValueError(f"unknown field {unknown[0]}")
        try:
            at: Cursor = _CURSOR.validate_json(json.dumps(stored), strict=True)
        except ValidationError as error:
            raise ValueError(first_error(error)) from error
        validated = [row.get("step") for row in at.history]
        for what, possible in (
            (f"step {at.step} of {steps}", 0 <= at.step <= steps),
            (f"epoch {at.epoch}, batch {at.batch} at step {at.step}", at._is_at_its_step(batches)),
            (f"best_step {at.best_step} at step {at.step}", at.best_step in (0, *validated)),
            (
                f"best_accuracy {at.best_accuracy}",
                0 <= at.best_accuracy <= 1 if at.best_step else at.best_accuracy == -1,
            ),
            (f"seconds {at.seconds}", 0 <= at.seconds <= history.LONGEST),
            (f"tokens {at.tokens}", at.tokens >= at.step),
            (f"best_loss {at.best_loss}", 0 <= at.best_loss <= history.LARGEST_LOSS),
            (f"correct {at.correct} of {at.labels} labels", 0 <= at.correct <= at.labels),
            (f"labels {at.labels} of {at.tokens} tokens", at.labels <= at.tokens),
            (f"nats {at.nats} for {at.labels} labels", 0 <= at.nats <= history.LARGEST_LOSS * at.labels),
        ):
            if not possible:
                raise ValueError(f"impossible {what}")
        history.check_steps(validated, at.step)
        at.history = list(history.checked(at.history))
        history.check_best(at.history, vars(at))
        return at

    def _is_at_its_step(self, batches: Callable[[int], int]) -> bool:
        """Whether the epoch and the batch are those of the step. `batches` is as for `parse`."""
        if not 0 <= self.epoch <= self.step or not 0 <= self.batch <= batches(self.epoch):
            return False
        return sum(map(batches, range(self.epoch))) + self.batch == self.step


_CURSOR = TypeAdapter(Cursor)
_AGAIN = "train the run again with --overwrite"


def warn_if_unverified(run: Run) -> None:
    """Log a warning if a file of the run was read that has no digest."""
    if run.unverified:
        logger.warning(f"{run.name} is unverified: there are files without a digest (`ape verify --add` adds it)")


def load_weights(run: Run, model: Model) -> str:
    """Load the best weights of a run into a model of its configuration. Returns the SHA-256 of their file.

    Raises `RunError` if the run has no weights, or if they were altered or do not fit the model.
    """
    stored, digest = run.load_model()
    warn_if_unverified(run)
    put_weights(model, stored, run.folder / WEIGHTS, _AGAIN)
    return digest


def load_scheme(run: Run, scheme: Scheme) -> None:
    """Load the best weights of a run into a scheme of its configuration, without the rest of the model.

    Raises `RunError` if the run has no weights, or if they were altered or do not fit the scheme.
    """
    stored, _ = run.load_model()
    warn_if_unverified(run)
    own = (part for part in stored.items() if part[0].startswith("scheme."))
    tensors = {name.removeprefix("scheme."): tensor for name, tensor in own}
    put_weights(scheme, tensors, run.folder / WEIGHTS, _AGAIN)


def put_weights(module: nn.Module, tensors: Tensors, path: StoragePath, again: str) -> None:
    """Load the tensors that were read from `path` into a module. `again` is the fix that an error suggests.

    Raises `RunError` if they are not the tensors of the module.
    """
    if found := _misfit(module.state_dict(), tensors):
        name, wanted, got = found
        raise RunError(f"{path} does not fit its configuration", got=f"{name}: {got}", allowed=wanted, fix=again)
    module.load_state_dict(tensors)


def _misfit(wanted: Tensors, found: Tensors) -> tuple[str, str, str] | None:
    """The first tensor that is missing or superfluous, or has another shape or dtype: its name, what is wanted, found.

    None if all tensors are as wanted.
    """
    want, have = (
        {k: f"{str(v.dtype).removeprefix('torch.')} {list(v.shape)}" for k, v in tensors.items()}
        for tensors in (wanted, found)
    )
    wrong = next((k for k in sorted(want | have) if want.get(k) != have.get(k)), None)
    none = "no such tensor"
    return None if wrong is None else (wrong, want.get(wrong, none), have.get(wrong, none))


def pack(model: Model, weights: Tensors, optimiser: torch.optim.Optimizer, best: Tensors | None = None) -> Tensors:
    """The weights (in the form to be stored) and the moments of the optimiser, by name.

    `best` are the best weights, if the checkpoint has to hold them and they are not the current ones. The moments are
    moved to the CPU.
    """
    tensors = {f"model.{k}": v for k, v in weights.items()}
    tensors |= {f"best.{k}": v for k, v in (best or {}).items()}
    names = [name for name, _ in model.named_parameters()]
    for index, slot in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{names[index]}.{k}": v.cpu() for k, v in slot.items()}
    return tensors


def unpack(tensors: Tensors, model: Model, optimiser: torch.optim.Optimizer, at: Cursor) -> Tensors:
    """Load the result of `pack`, of this or an earlier version, into a model and an optimiser.

    `at`: the cursor of the checkpoint. Returns the best weights if the checkpoint holds them, else no tensors.

    Raises `ValueError` if the tensors do not fit. A parameter that never had a gradient has no moments.
    """
    parameters = dict(model.named_parameters())
    moved = {name for name in parameters if f"optimiser.{name}.step" in tensors}
    has_best = bool(at.holds_best) and at.best_step != at.step
    wanted = {f"{kind}.{k}": v for kind in ("model", "best")[: 1 + has_best] for k, v in model.state_dict().items()}
    for name in moved:
        wanted[f"optimiser.{name}.step"] = torch.empty((), dtype=torch.float32, device="meta")
        wanted |= {f"optimiser.{name}.{key}": parameters[name] for key in _MOMENTS}
    if found := _misfit(wanted, {k: v for k, v in tensors.items() if not k.startswith("rng.")}):
        raise ValueError("{}: {} is wanted, {} is stored".format(*found))
    for name in moved:
        done = float(tensors[f"optimiser.{name}.step"])
        if not (1 <= done <= at.step and done.is_integer()):
            raise ValueError(f"impossible optimiser.{name}.step {done} at step {at.step}")
    for name, value in tensors.items():
        if name.startswith(("model.", "best.")) and not value.isfinite().all():
            raise ValueError(f"{name} has values that are not finite")
    model.load_state_dict({k[6:]: v for k, v in tensors.items() if k.startswith("model.")})
    state = optimiser.state_dict()
    state["state"] = {
        index: {k: tensors[f"optimiser.{name}.{k}"] for k in ("step", *_MOMENTS)}
        for index, name in enumerate(parameters)
        if name in moved
    }
    optimiser.load_state_dict(state)
    if not at.holds_best:
        return {}
    best = "best." if has_best else "model."
    return {k.removeprefix(best): v for k, v in tensors.items() if k.startswith(best)}


def streams(device: torch.device) -> Tensors:
    """The states of the generators that dropout draws from in this process, by name. uint8"""
    found = {"rng.cpu": torch.get_rng_state()}
    if device.type == "cuda":
        found["rng.cuda"] = torch.cuda.get_rng_state(device)
    return found


def of_rank(name: str, rank: int) -> str:
    """The name under which a tensor of one rank is stored."""
    return f"{name}.{rank}" if rank else name


def restore_streams(tensors: Tensors, device: torch.device, rank: int, seed: int) -> None:
    """Restore the random streams of a rank.

    If the checkpoint has no streams for this rank, because it is of fewer processes, a new stream is started from
    `seed`.
    """
    cpu, cuda = (of_rank(name, rank) for name in ("rng.cpu", "rng.cuda"))
    if rank and cpu not in tensors:
        torch.manual_seed(seed)
        return
    torch.set_rng_state(tensors[cpu])
    if device.type == "cuda" and cuda in tensors:
        torch.cuda.set_rng_state(tensors[cuda], device)

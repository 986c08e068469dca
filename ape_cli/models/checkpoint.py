"""Checkpoints: what is stored of a training so that it can resume.

A checkpoint has the progress, the current and the best weights, the state of the optimiser and the states of the random
streams.

Tensors have names: `model.NAME`, `best.NAME` (the best weights, if they are not the current ones),
`optimiser.NAME.KEY` (moments of a parameter), and `rng.cpu` and `rng.cuda` (uint8, the state of a generator). For a
rank other than 0 the last two are `rng.cpu.RANK` and `rng.cuda.RANK`.
"""

from __future__ import annotations

from typing import Annotated, Any, Protocol, cast

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from ape_cli.core.errors import RunError
from ape_cli.core.memory import ran_out
from ape_cli.core.validation import Many
from ape_cli.models.transformer import Model
from ape_cli.position import Role, Scheme
from ape_cli.runs.run import WEIGHTS, Run
from ape_cli.storage.paths import StoragePath
from ape_cli.storage.tensors import AGAIN

Tensors = dict[str, Tensor]
_Count = Annotated[int, Field(ge=0, lt=2**53)]
_CHECKED = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_MOMENTS = ("exp_avg", "exp_avg_sq")  # of a parameter, in the optimiser


class Store(Protocol):
    """The place where a run keeps what it must not lose. `runs.run.Run` is one."""

    def save_state(self, state: Tensors, progress: dict[str, Any]) -> None:
        """Store the tensors of a checkpoint, and its progress as a JSON object."""

    def load_state(self) -> tuple[Tensors, dict[str, Any]] | None:
        """The tensors and the progress of the stored checkpoint, or None if there is none."""


class Schedule(BaseModel):
    """The schedule of a run, in optimiser steps. It is stored, so that a run keeps the schedule that it began with."""

    model_config = _CHECKED

    steps: _Count  # of the whole run
    warmup: _Count
    validate_every: _Count  # 0: at the end of each `validate_every_epochs`-th epoch


class RecentSums(BaseModel):
    """Sums since the recent metrics were last logged."""

    model_config = _CHECKED

    nats: float = 0.0
    correct: _Count = 0
    labels: _Count = 0
    tokens: _Count = 0
    training_seconds: float = 0.0


class Progress(BaseModel):
    """The progress of a run. It is a JSON object in the stored state."""

    model_config = _CHECKED

    schedule: Schedule
    step: _Count = 0  # number of optimiser steps done
    epoch: _Count = 0  # number of complete passes over the training rows
    batch: _Count = 0  # number of batches done since
    best_step: _Count = 0
    best_accuracy: float = -1.0
    best_loss: float = 0.0  # cross-entropy in nats for each token, if it decides between equal accuracies
    seconds: float = 0.0  # of the whole training
    training_seconds: float = 0.0  # without validations, checkpoints and metric loggers
    tokens: _Count = 0  # number of tokens seen so far, without padding
    recent: RecentSums = Field(default_factory=RecentSums)
    history: Many[dict[str, Any]] = Field(default_factory=list)
    # sums since the last validation
    nats: float = 0.0
    correct: _Count = 0
    labels: _Count = 0


def load_weights(run: Run, model: Model) -> None:
    """Load the best weights of a run into a model of its configuration.

    Raises `RunError` if the run has no weights, or if they were altered or do not fit the model.
    """
    put_weights(model, run.load_model(), run.folder / WEIGHTS, AGAIN)


def load_scheme(run: Run, scheme: Scheme) -> None:
    """Load the best weights of a run into a scheme of its configuration, without the rest of the model.

    The modules of its layers are created.

    Raises `RunError` if the run has no weights, or if they were altered or do not fit the scheme.
    """
    weights = run.load_model().items()
    tensors = {name.removeprefix("scheme."): tensor for name, tensor in weights if name.startswith("scheme.")}
    for key in {name.split(".")[1] for name in tensors if name.startswith("layers.")}:
        role, _, index = key.rpartition("_")
        scheme.attach(cast(Role, role), int(index))
    put_weights(scheme, tensors, run.folder / WEIGHTS, AGAIN)


def put_weights(module: nn.Module, tensors: Tensors, path: StoragePath, again: str) -> None:
    """Load the tensors that were read from `path` into a module. `again` is the fix that an error suggests.

    Raises `RunError` if they are not the tensors of the module.
    """
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:  # its second line names the tensors
        if ran_out(error):
            raise
        got = " ".join(str(error).split("\n", 1)[-1].split())
        raise RunError(f"{path} does not fit its configuration", got=got, fix=again) from error


def pack(model: Model, weights: Tensors, optimiser: torch.optim.Optimizer, best: Tensors | None = None) -> Tensors:
    """The weights (in the form to be stored) and the moments of the optimiser, by name.

    `best` are the best weights, if they are not the current ones. The moments are moved to the CPU.
    """
    tensors = {f"model.{k}": v for k, v in weights.items()}
    tensors |= {f"best.{k}": v for k, v in (best or {}).items()}
    names = [name for name, _ in model.named_parameters()]
    for index, slot in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{names[index]}.{k}": v.cpu() for k, v in slot.items()}
    return tensors


def unpack(tensors: Tensors, model: Model, optimiser: torch.optim.Optimizer) -> Tensors:
    """Load the result of `pack` into a model and an optimiser. Returns the best weights.

    Moments get the memory layout of their parameter, because the fused optimiser reads both in the order of memory.
    Raises `RuntimeError` or `KeyError` if the tensors do not fit. A parameter that never had a gradient has no moments.
    """
    current, best = (
        {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)} for start in ("model.", "best.")
    )
    model.load_state_dict(current)
    state = optimiser.state_dict()
    state["state"] = {}
    for index, (name, parameter) in enumerate(model.named_parameters()):
        if f"optimiser.{name}.step" in tensors:
            moments = {k: torch.empty_like(parameter).copy_(tensors[f"optimiser.{name}.{k}"]) for k in _MOMENTS}
            state["state"][index] = {"step": tensors[f"optimiser.{name}.step"], **moments}
    optimiser.load_state_dict(state)
    return best or current


def streams(device: torch.device) -> Tensors:
    """The states of the generators that dropout draws from in this process, by name. uint8"""
    states = {"rng.cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["rng.cuda"] = torch.cuda.get_rng_state(device)
    return states


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

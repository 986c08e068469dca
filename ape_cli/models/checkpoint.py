"""Checkpoints: what is stored of a training so that it can resume.

A checkpoint has the cursor, the weights, the state of the optimiser and the states of the random streams.

Tensors have names: `model.NAME`, `optimiser.NAME.KEY` (moments of a parameter), and `rng.cpu` and `rng.cuda` (uint8,
the state of a generator). For a rank other than 0 the last two are `rng.cpu.RANK` and `rng.cuda.RANK`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from ape_cli.core.errors import RunError
from ape_cli.models.transformer import Model
from ape_cli.runs.run import Run, load_tensors

Tensors = dict[str, Tensor]


class Store(Protocol):
    """The place where a run keeps what it must not lose. `runs.run.Run` is one."""

    def save_state(self, tensors: Tensors, cursor: dict[str, Any]) -> None:
        """Store the tensors of a checkpoint, and the cursor as a JSON object."""

    def load_state(self) -> tuple[Tensors, dict[str, Any]] | None:
        """The tensors and the cursor of the stored checkpoint, or None if there is none."""

    def save_model(self, tensors: Tensors, about: dict[str, Any]) -> None:
        """Store the best weights, and a JSON object about them."""

    def save_history(self, rows: list[dict[str, Any]]) -> None:
        """Store the rows of the training history."""


@dataclass
class Cursor:
    """The progress of a run. It is a JSON object in the stored state."""

    step: int = 0  # number of optimiser steps done
    epoch: int = 0
    batch: int = 0  # number of batches of the epoch done
    best_step: int = 0
    best_accuracy: float = -1.0
    best_loss: float = 0.0  # cross-entropy in nats for each token, if it decides between equal accuracies
    seconds: float = 0.0
    tokens: int = 0  # number of tokens seen so far, without padding
    history: list[dict[str, Any]] = field(default_factory=list)
    # sums since the last validation
    nats: float = 0.0
    correct: int = 0
    labels: int = 0


def load_weights(run: Run, model: Model) -> None:
    """Load the best weights of a run into a model of its configuration.

    Raises `RunError` if the run has no weights or if they do not fit the model.
    """
    path = run.folder / "model.safetensors"
    if not run.has_weights:
        raise RunError("the run has no weights", got=run.name, fix="train it: `ape train … --overwrite`")
    tensors = model.current(load_tensors(path)[0])
    want, have = (
        {k: f"{str(v.dtype).removeprefix('torch.')} {list(v.shape)}" for k, v in found.items()}
        for found in (model.state_dict(), tensors)
    )
    if want != have:
        wrong = next(k for k in sorted(want | have) if want.get(k) != have.get(k))
        raise RunError(
            f"{path} does not fit the run's configuration",
            got=f"{wrong}: {have.get(wrong, 'no such tensor')}",
            allowed=f"{want.get(wrong, 'no such tensor')}",
            fix="train the run again with --overwrite",
        )
    model.load_state_dict(tensors)


def pack(model: Model, weights: Tensors, optimiser: torch.optim.Optimizer) -> Tensors:
    """The weights (in the form to be stored) and the moments of the optimiser, by name.

    The moments are moved to the CPU.
    """
    tensors = {f"model.{k}": v for k, v in weights.items()}
    names = [name for name, _ in model.named_parameters()]
    for index, slot in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{names[index]}.{k}": v.cpu() for k, v in slot.items()}
    return tensors


def unpack(tensors: Tensors, model: Model, optimiser: torch.optim.Optimizer) -> None:
    """Load the result of `pack`, of this or an earlier version, into a model and an optimiser.

    Raises `KeyError` or `RuntimeError` if it does not fit.
    """
    tensors = model.current(tensors)
    model.load_state_dict({k[6:]: v for k, v in tensors.items() if k.startswith("model.")})
    state = optimiser.state_dict()
    state["state"] = {
        index: {k: tensors[f"optimiser.{name}.{k}"] for k in ("step", "exp_avg", "exp_avg_sq")}
        for index, (name, _) in enumerate(model.named_parameters())
        if f"optimiser.{name}.step" in tensors
    }
    optimiser.load_state_dict(state)


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

"""What is stored of a training so that it can go on: where it stands, weights, optimiser, random streams.

Tensors have names: `model.NAME`, `optimiser.NAME.KEY` (moments of a parameter), and `rng.cpu`, `rng.cuda`
(uint8, the state of a generator); of a process other than the first `rng.cpu.RANK`, `rng.cuda.RANK`.
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
    """Where a run keeps what it must not lose. `run.Run` is one."""

    def save_state(self, tensors: Tensors, cursor: dict[str, Any]) -> None: ...
    def load_state(self) -> tuple[Tensors, dict[str, Any]] | None: ...
    def save_model(self, tensors: Tensors, about: dict[str, Any]) -> None: ...
    def save_history(self, rows: list[dict[str, Any]]) -> None: ...


@dataclass
class Cursor:
    """Where a run stands; a JSON object in the stored state."""

    step: int = 0  # optimiser steps done
    epoch: int = 0
    batch: int = 0  # batches of the epoch done
    best_step: int = 0
    best_accuracy: float = -1.0
    best_loss: float = 0.0  # where it breaks ties
    seconds: float = 0.0
    tokens: int = 0  # real ones, seen so far
    history: list[dict[str, Any]] = field(default_factory=list)
    # sums since the last validation
    nats: float = 0.0
    correct: int = 0
    labels: int = 0


def load_weights(run: Run, model: Model) -> None:
    """Put the best weights of a run into a model of its configuration.

    Raises `RunError` if the run has no weights or if they do not fit the model.
    """
    path = run.folder / "model.safetensors"
    if not run.has_weights:
        raise RunError("the run has no weights", got=run.name, fix="train it (again): `ape train … --overwrite`")
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
    """Weights (as they shall be stored) and moments, by name, on the CPU."""
    tensors = {f"model.{k}": v for k, v in weights.items()}
    names = [name for name, _ in model.named_parameters()]
    for index, slot in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{names[index]}.{k}": v.cpu() for k, v in slot.items()}
    return tensors


def unpack(tensors: Tensors, model: Model, optimiser: torch.optim.Optimizer) -> None:
    """What `pack` gave, of this or an earlier version. Raises `KeyError` or `RuntimeError` where it does not fit."""
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
    """The generators that dropout draws from in this process, as they stand."""
    found = {"rng.cpu": torch.get_rng_state()}
    if device.type == "cuda":
        found["rng.cuda"] = torch.cuda.get_rng_state(device)
    return found


def of_rank(name: str, rank: int) -> str:
    """The name under which a process's own tensor is stored."""
    return f"{name}.{rank}" if rank else name


def restore_streams(tensors: Tensors, device: torch.device, rank: int, seed: int) -> None:
    """Go on with a process's own streams; with new ones of `seed` where the state is of fewer processes."""
    cpu, cuda = (of_rank(name, rank) for name in ("rng.cpu", "rng.cuda"))
    if rank and cpu not in tensors:
        torch.manual_seed(seed)
        return
    torch.set_rng_state(tensors[cpu])
    if device.type == "cuda" and cuda in tensors:
        torch.cuda.set_rng_state(tensors[cuda], device)

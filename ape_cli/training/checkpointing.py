"""Checkpoints of a running training: when they are stored, the best weights, and how a run resumes.

A checkpoint is enough to resume after any kind of stop. On a CPU a resumed run ends with the same weights, bit for
bit, as a run that never stopped.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import torch

from ape_cli.core.errors import RunError
from ape_cli.models.checkpoint import Cursor, Store, Tensors, pack, restore_streams, streams, unpack
from ape_cli.training.meter import Meter, diverged
from ape_cli.training.setup import Setup

_SAVE_EVERY = 60.0  # seconds; a killed run loses at most the work of this time
_SAVE_SHARE = 0.02  # at a validation, state is stored if that takes at most this share of the time


def restore(setup: Setup, store: Store | None) -> Cursor:
    """Seed dropout, or load the stored checkpoint into the model, the optimiser and the random streams.

    All ranks call this function. `store` is None on all ranks but the first. Returns the progress of the run. Raises
    `RunError` if the stored state does not fit the run, or if the best weights are missing or older than the state.
    """
    config, device, group = setup.config, setup.execution.device, setup.execution.group
    torch.manual_seed(group.seed(config.seed))  # for dropout; weights are drawn from their own generator
    stored = group.broadcast_state(store.load_state() if store else None)
    if stored is None:
        return Cursor()
    tensors, cursor = stored
    try:
        at = Cursor.parse(cursor, setup.steps, partial(setup.train.steps, config.batch_size, config.seed))
        best = unpack(tensors, setup.model, setup.optimiser, at)
        restore_streams(tensors, device, group.rank, group.seed(config.seed, at.step))
    except (KeyError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise RunError(
            "the stored state does not fit the run",
            got=str(error).splitlines()[0],
            fix="start the run again with --overwrite",
        ) from error
    if store is not None and not store.check_weights(vars(at)):  # killed between a checkpoint and its best weights
        store.save_model(best, _about_best(at))
    return at


def _about_best(at: Cursor) -> dict[str, Any]:
    """The JSON object that is stored with the best weights."""
    return {"step": at.best_step, "validation_token_accuracy": at.best_accuracy}


class Checkpointer:
    """Stores checkpoints and the best weights of a run.

    setup: the run. store: where to store, None on all ranks but the first. meter: the sums of the run.
    """

    def __init__(self, setup: Setup, store: Store | None, meter: Meter) -> None:
        """Start the clock for the next checkpoint."""
        self.setup, self.store, self.meter = setup, store, meter
        self.storing = 0.0  # seconds that the last checkpoint took
        self.best: Tensors | None = None  # the best weights, if they are not stored yet
        self.saved = time.perf_counter()

    def due(self, validated: bool) -> bool:
        """Whether it is time to store a checkpoint. This is always False on a rank without a store.

        `validated`: whether a validation was just done.
        """
        patience = self.storing / _SAVE_SHARE if validated else _SAVE_EVERY
        return self.store is not None and time.perf_counter() - self.saved > min(patience, _SAVE_EVERY)

    def keep(self) -> None:
        """Copy the current weights as the best ones. The next checkpoint stores them."""
        if self.store is not None:
            self.best = {name: value.clone() for name, value in self._weights().items()}

    def save(self) -> None:
        """Store the history, the state and the best weights. All ranks call this method.

        The state is stored before the best weights, and holds them too. In the other order, a kill between the two
        could lose the best weights that the older state names. On a GPU, the repeated steps differ a little, and
        perhaps none of them scores better.

        Raises `RunError` if the loss of a step or a weight is not finite.
        """
        start = time.perf_counter()
        self.meter.read()
        at, setup = self.meter.at, self.setup
        drawn = setup.execution.group.gather(streams(setup.execution.device))
        if self.store is not None:
            at.holds_best = self.best is not None
            before = self.best if at.best_step != at.step else None
            tensors = pack(setup.model, self._weights(), setup.optimiser, before) | drawn
            self.meter.clock()
            self.store.save_history(at.history)
            self.store.save_state(tensors, vars(at))
            if self.best is not None:
                self.store.save_model(self.best, _about_best(at))
                self.best = None
        self.saved = time.perf_counter()
        self.storing = self.saved - start

    def _weights(self) -> Tensors:
        """The current weights, on the CPU. Raises `RunError` if one of them is not finite."""
        weights = self.setup.model.state_dict()
        for value in weights.values():
            # the sum is a fast check; it may overflow although every weight is finite
            if not (value.sum().isfinite() or value.isfinite().all()):
                raise diverged(self.meter.at.step, self.setup.steps)
        return {name: value.cpu() for name, value in weights.items()}

"""Validation, the choice of the best weights, and checkpoints, from which a run resumes.

The best weights have the highest token accuracy on the validation split. Of weights with equal accuracy the first are
kept, or, for images, those with the lower loss. Token accuracy is a ratio of two sums over the whole split, without
padding.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch

from ape_cli.core import memory
from ape_cli.core.errors import RunError
from ape_cli.core.memory import ran_out
from ape_cli.data.loader import ImageSplit, Split
from ape_cli.evaluation.metrics import MetricSums, teacher_forced
from ape_cli.models.checkpoint import Store, Tensors, TrainState, pack, restore_streams, streams, unpack
from ape_cli.training.setup import Setup, earlier_schedule
from ape_cli.training.step import Meter, diverged

_SAVE_EVERY = 60.0  # seconds; a killed run loses at most the work of this time
_SAVE_SHARE = 0.02  # at a validation, state is stored if that takes at most this share of the time


@dataclass(frozen=True)
class ValidationScores:
    """The scores of one validation."""

    validation: MetricSums
    test: MetricSums | None
    loss: float  # decides between equal accuracies: nats for each token, or 0 if the loss does not decide

    def is_best(self, at: TrainState) -> bool:
        """Whether these weights are better than the best weights so far."""
        return (self.validation.token_accuracy, -self.loss) > (at.best_accuracy, -at.best_loss)

    def metrics(self, kept: bool) -> tuple[dict[str, float], dict[str, float]]:
        """The metrics of the validation split, and those of the test split. The latter are empty without a test split.

        `kept`: whether these are the best weights so far.
        """
        found = {
            "validation_loss": self.validation.cross_entropy,
            "validation_token_accuracy": self.validation.token_accuracy,
        }
        if self.test is None:
            return found, {}
        test = {"test_loss": self.test.cross_entropy, "test_token_accuracy": self.test.token_accuracy, "kept": kept}
        return found, test


class Validator:
    """Scores the weights of a run. Each rank of a process group scores its share and gets the scores of all ranks.

    setup: the run.
    """

    def __init__(self, setup: Setup) -> None:
        """Keep the setup, whose model is scored."""
        self.setup = setup

    def scores(self, step: int) -> ValidationScores:
        """The scores of the weights after `step` steps. Raises `RunError` if a loss is not finite."""
        tally = self.score(self.setup.validation)
        test = None if self.setup.test is None else self.score(self.setup.test)
        if not all(math.isfinite(found.cross_entropy) for found in (tally, test) if found is not None):
            raise diverged(step, self.setup)
        return ValidationScores(tally, test, tally.cross_entropy if self.setup.config.ties_by_loss else 0.0)

    def score(self, split: Split | ImageSplit) -> MetricSums:
        """The metric sums of a split over all ranks."""
        config, execution = self.setup.config, self.setup.execution
        batches = split.batches(config.batch_size, share=execution.group.share, options=self.setup.scoring_options)
        doing, mean = f"scoring the {split.name} split", split.manifest.mean_tokens
        with memory.explained(doing, config.batch_size, mean) as watched:
            sums = teacher_forced(self.setup.model, watched(batches), execution.device, config.precision)
        return execution.group.all_reduce_metrics(sums)


def restore(setup: Setup, store: Store | None) -> tuple[TrainState, Tensors]:
    """Seed dropout, or load the stored checkpoint into the model, the optimiser and the random streams.

    All ranks call this function. `store` is None on all ranks but the first. Returns the progress of the run and the
    best weights, which are empty in a new run. Raises `RunError` if the stored state does not fit the run.
    """
    config, device, group = setup.config, setup.execution.device, setup.execution.group
    torch.manual_seed(group.seed(config.seed))  # for dropout; weights are drawn from their own generator
    stored = group.broadcast_state(store.load_state() if store else None)
    if stored is None:
        return TrainState(schedule=setup.schedule), {}
    tensors, progress = stored
    if "schedule" not in progress:  # stored by version 0.2 or earlier
        earlier = earlier_schedule(config, setup.train).model_dump()
        progress |= {"schedule": earlier, "training_seconds": progress.get("seconds")}
    try:
        at = TrainState.model_validate(progress)
        best = unpack(tensors, setup.model, setup.optimiser)
        restore_streams(tensors, device, group.rank, group.seed(config.seed, at.step))
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        if ran_out(error):
            raise
        got, fix = str(error).splitlines()[0], "start the run again with `overwrite`"
        raise RunError("the stored state does not fit the run", got=got, fix=fix) from error
    return at, best


class Checkpointer:
    """Stores checkpoints of a run, and keeps its best weights.

    setup: the run. store: where to store, None on all ranks but the first. meter: the sums of the run. best: the best
    weights so far, on the CPU.
    """

    def __init__(self, setup: Setup, store: Store | None, meter: Meter, best: Tensors) -> None:
        """Start the clock for the next checkpoint."""
        self.setup, self.store, self.meter, self.best = setup, store, meter, best
        self.storing = 0.0  # seconds that the last checkpoint took
        self.saved = time.perf_counter()

    def due(self, validated: bool) -> bool:
        """Whether it is time to store a checkpoint. This is always False on a rank without a store.

        `validated`: whether a validation was just done.
        """
        patience = self.storing / _SAVE_SHARE if validated else _SAVE_EVERY
        return self.store is not None and time.perf_counter() - self.saved > min(patience, _SAVE_EVERY)

    def keep(self) -> None:
        """Copy the current weights as the best ones."""
        if self.store is not None:
            self.best = {name: value.clone() for name, value in self._weights().items()}

    def save(self) -> None:
        """Store a checkpoint. All ranks call this method, after the results of all steps are read.

        Raises `RunError` if a weight is not finite.
        """
        start = time.perf_counter()
        at, setup = self.meter.at, self.setup
        drawn = setup.execution.group.gather(streams(setup.execution.device))
        if self.store is not None:
            best = self.best if at.best_step != at.step else None
            tensors = pack(setup.model, self._weights(), setup.optimiser, best) | drawn
            self.meter.clock()
            self.store.save_state(tensors, at.model_dump())
        self.saved = time.perf_counter()
        self.storing = self.saved - start

    def _weights(self) -> Tensors:
        """The current weights, on the CPU. Raises `RunError` if one of them is not finite."""
        weights = self.setup.model.state_dict()
        for value in weights.values():
            # the sum is a fast check; it may overflow although every weight is finite
            if not (value.sum().isfinite() or value.isfinite().all()):
                raise diverged(self.meter.at.step, self.setup)
        return {name: value.cpu() for name, value in weights.items()}

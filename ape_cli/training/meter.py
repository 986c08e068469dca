"""Sums of loss, correct labels and tokens over the steps of a run.

There are two sets of sums: one since the last validation, and one since the recent metrics were last logged.

Units: loss in nats, time in seconds, tokens of source and target without padding. An image counts as one token, its
label.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from ape_cli.core.errors import RunError
from ape_cli.models.checkpoint import TrainState
from ape_cli.training.process_group import ProcessGroup


@dataclass
class _Sums:
    """The sums since the recent metrics were last logged. They are not part of a checkpoint."""

    nats: float = 0.0
    correct: int = 0
    labels: int = 0
    tokens: int = 0


class DivergenceError(RunError):
    """A loss or a weight is not finite. The same run would diverge again."""


def diverged(step: int, steps: int) -> DivergenceError:
    """The error for a loss or a weight that is not finite, found at `step` of `steps`."""
    fix = "use a smaller `lr_peak` or `weight_decay`, or `precision=fp32`"
    return DivergenceError("the loss is no longer a number", got=f"step {step} of {steps}", fix=fix)


class Meter:
    """Adds up the results of the steps over all ranks. It waits for the device only in `read`.

    at: the progress of the run, to which sums are added. steps: the number of steps of the whole run. group: the ranks.
    """

    def __init__(self, at: TrainState, steps: int, group: ProcessGroup) -> None:
        """Start the clocks."""
        self.at, self.steps, self.group = at, steps, group
        self._recent = _Sums()
        self.unread: list[tuple[Tensor, Tensor]] = []  # nats and correct labels of each step, scalars on the device
        self.since = self.shown = time.perf_counter()

    def add(self, nats: Tensor, correct: Tensor, labels: int, sources: int) -> None:
        """Add one step.

        nats, correct: scalars, shape [], on the device: the summed loss and the number of correct labels over the rows
        of this rank. labels, sources: the numbers of labels and of source tokens of the global batch.
        """
        self.at.step += 1
        self.unread.append((nats, correct))
        for sums in (self.at, self._recent):
            sums.labels, sums.tokens = sums.labels + labels, sums.tokens + labels + sources

    def read(self) -> None:
        """Add the results of the steps since the last call. Raises `RunError` if the loss of a step is not finite."""
        if not self.unread:
            return
        nats, correct = (
            self.group.all_reduce(torch.stack(values).tolist()) for values in zip(*self.unread, strict=True)
        )
        first = self.at.step - len(self.unread) + 1
        self.unread = []
        for step, lost in enumerate(nats, first):
            if not math.isfinite(lost):
                raise diverged(step, self.steps)
        for sums in (self.at, self._recent):
            for lost, right in zip(nats, correct, strict=True):
                sums.nats, sums.correct = sums.nats + lost, sums.correct + int(right)

    def clock(self) -> None:
        """Add the seconds since the last call, or since the start, to the time of the run."""
        now = time.perf_counter()
        self.at.seconds, self.since = self.at.seconds + now - self.since, now

    def recent(self) -> dict[str, float]:
        """The metrics of the steps since the last call, as described in `loggers/__init__.py`.

        Raises `RunError` if the loss of a step is not finite.
        """
        self.read()
        now, sums, labels = time.perf_counter(), self._recent, max(1, self._recent.labels)
        found = {
            "recent_loss": sums.nats / labels,
            "recent_token_accuracy": sums.correct / labels,
            "tokens_per_second": sums.tokens / max(1e-9, now - self.shown),
        }
        self._recent, self.shown = _Sums(), now
        return found

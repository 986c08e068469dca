"""What the steps of a run came to: summed up for its record, and for who watches it.

Units: loss in nats a token; token accuracy a fraction; tokens are real ones, source and target. An image counts as one
token, its label.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ape_cli.core.errors import RunError
from ape_cli.models.checkpoint import Cursor
from ape_cli.training.process_group import ProcessGroup


@dataclass(frozen=True)
class Progress:
    """What a display shows."""

    step: int
    steps: int
    loss: float  # nats a token, over the last few steps
    accuracy: float  # token accuracy, over the last few steps
    tokens_per_second: float  # real source and target tokens
    validated: int  # the step of the last validation, 0 before the first
    validation: float | None  # its token accuracy


@dataclass
class _Sums:
    """Over the steps since the display was last told; not stored."""

    nats: float = 0.0
    correct: int = 0
    labels: int = 0
    tokens: int = 0


def diverged(step: int, steps: int) -> RunError:
    return RunError(
        "the loss is no longer a number",
        got=f"step {step} of {steps}",
        fix="a smaller --set lr_peak or weight_decay, or --precision fp32 if it was not",
    )


class Meter:
    """Adds up what steps come to, of all ranks; it waits for the device where it is read, and only there."""

    def __init__(self, at: Cursor, steps: int, group: ProcessGroup, watch: Callable[[Progress], None] | None) -> None:
        """`at`: where the run stands; sums go into it."""
        self.at, self.steps, self.group = at, steps, group
        self.watch = watch or (lambda progress: None)
        self.recent = _Sums()
        self.unread: list[tuple[Tensor, Tensor]] = []  # of each step: nats and correct labels, on the device
        self.shown = time.perf_counter()

    def add(self, nats: Tensor, correct: Tensor, labels: int, sources: int) -> None:
        """One step, done. nats, correct: of this rank's rows, scalars. labels, sources: tokens of the whole batch."""
        self.at.step += 1
        self.unread.append((nats, correct))
        for sums in (self.at, self.recent):
            sums.labels, sums.tokens = sums.labels + labels, sums.tokens + labels + sources

    def read(self) -> None:
        """Add what the steps since the last call came to; a `RunError` if the loss of one is no number."""
        if not self.unread:
            return
        nats, correct = (self.group.sum(torch.stack(values).tolist()) for values in zip(*self.unread, strict=True))
        first = self.at.step - len(self.unread) + 1
        self.unread = []
        for step, lost in enumerate(nats, first):
            if not math.isfinite(lost):
                raise diverged(step, self.steps)
        for sums in (self.at, self.recent):
            for lost, right in zip(nats, correct, strict=True):
                sums.nats, sums.correct = sums.nats + lost, sums.correct + int(right)

    def show(self) -> None:
        """Tell who watches what happened since the last time."""
        self.read()
        at, now = self.at, time.perf_counter()
        labels = max(1, self.recent.labels)
        self.watch(
            Progress(
                step=at.step,
                steps=self.steps,
                loss=self.recent.nats / labels,
                accuracy=self.recent.correct / labels,
                tokens_per_second=self.recent.tokens / max(1e-9, now - self.shown),
                validated=at.history[-1]["step"] if at.history else 0,
                validation=at.history[-1]["validation_token_accuracy"] if at.history else None,
            )
        )
        self.recent, self.shown = _Sums(), now

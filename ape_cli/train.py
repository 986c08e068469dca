"""Training: teacher-forced loss, AdamW, warm-up and cosine, validation, resume.

Paper, section 4.2 and appendix B: AdamW, a linear warm-up over 5% of the steps from 1e-7 to the peak
and a cosine over the other 95% down to 1e-9; the checkpoint kept is the best by token accuracy on the
validation split. Token accuracy is a ratio of two sums over the whole split, padding excluded.

`Loop` knows no folder: it is given a `Store`. What it stores is enough to go on after any kind of
stop, and on a CPU to end with the same weights, bit for bit, as if it had never stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from ape_cli.batch import Batch
from ape_cli.build import build, reading
from ape_cli.config import Config
from ape_cli.dataset import Dataset, Split
from ape_cli.errors import DataError, RunError
from ape_cli.model import loss
from ape_cli.record import Outcome
from ape_cli.score import forward, teacher_forced

_SAVE_EVERY = 120.0  # seconds, at the least; and at each validation
_SHOW_EVERY = 10  # steps

Tensors = dict[str, Tensor]


class Store(Protocol):
    """Where a run keeps what it must not lose. `run.Run` is one."""

    def save_state(self, tensors: Tensors, cursor: dict[str, Any]) -> None: ...
    def load_state(self) -> tuple[Tensors, dict[str, Any]] | None: ...
    def save_model(self, tensors: Tensors, about: dict[str, Any]) -> None: ...
    def save_history(self, rows: list[dict[str, Any]]) -> None: ...


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


class Stopped(Exception):  # noqa: N818 - not an error: the run can be resumed
    """The run was asked to stop, and has stored its state."""


def learning_rate(step: int, steps: int, config: Config) -> float:
    """Of optimiser step `step` = 0 .. steps-1: linear to the peak, then a cosine to the end."""
    warm = math.ceil(config.warmup * steps)
    if step < warm:
        return config.lr_initial + (config.lr_peak - config.lr_initial) * step / warm
    done = (step - warm) / max(1, steps - 1 - warm)
    return config.lr_final + (config.lr_peak - config.lr_final) * 0.5 * (1 + math.cos(math.pi * done))


@dataclass
class _Cursor:
    """Where a run stands; a JSON object in the stored state."""

    step: int = 0  # optimiser steps done
    epoch: int = 0
    batch: int = 0  # batches of the epoch done
    best_step: int = 0
    best_accuracy: float = -1.0
    seconds: float = 0.0
    tokens: int = 0  # real ones, seen so far
    history: list[dict[str, Any]] = field(default_factory=list)
    # sums since the last validation
    nats: float = 0.0
    correct: int = 0
    labels: int = 0


@dataclass
class _Sums:
    """Over the steps since the display was last told; not stored."""

    nats: float = 0.0
    correct: int = 0
    labels: int = 0
    tokens: int = 0


def total_steps(config: Config, train: Split) -> tuple[int, int]:
    """Steps of the whole run, and between validations."""
    per_epoch = train.steps(config.batch_size)
    steps = config.steps or (config.epochs or 1) * per_epoch
    every = config.validate_every_steps or (config.validate_every_epochs or 1) * per_epoch
    return steps, every


class Loop:
    """A run made ready: model, optimiser, and where it stands.

    `watch` is called every few steps; `stop` is asked after each, and `Stopped` raised when it says so.
    Construction raises `DataError` or `UsageError` for what cannot be trained and `RunError` for a
    stored state that does not fit; `run` raises `RunError` when the loss is no longer a number.
    """

    def __init__(
        self,
        config: Config,
        data: Dataset,
        store: Store,
        *,
        device: torch.device,
        watch: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        torch.set_flush_denormal(True)
        self.config, self.store, self.device, self.stop = config, store, device, stop
        self.watch = watch or (lambda progress: None)
        self.train, self.validation = data.split("train"), data.split("validation")
        for split in (self.train, self.validation):
            if not split.rows:
                raise DataError(f"the {split.name} split is empty", got=data.name, fix="generate rows for it")
        self.structure = reading(config.scheme, data.structure, config.structure)
        self.steps, self.every = total_steps(config, self.train)
        self.model = build(config, data.structure, data.ids).to(device)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(),
            lr=config.lr_initial,
            betas=(config.beta1, config.beta2),
            weight_decay=config.weight_decay,
            fused=True,
        )
        torch.manual_seed(config.seed)  # dropout; weights have a generator of their own
        self.at = _Cursor()
        stored = store.load_state()
        if stored is not None:
            try:
                self._restore(*stored)
            except (KeyError, RuntimeError, TypeError, ValueError, AttributeError) as error:
                raise RunError(
                    "the stored state of the run does not fit it",
                    got=str(error).splitlines()[0],
                    fix="--overwrite begins again",
                ) from error
        self.epochs = self.steps / self.train.steps(config.batch_size)
        self.recent = _Sums()
        self.since = self.saved = self.shown = time.perf_counter()

    def run(self) -> Outcome:
        self.model.train()
        for batch in self._batches():
            self._step(batch)
            at = self.at
            if at.step % self.every == 0 or at.step == self.steps:
                self._validate()
            if at.step % _SHOW_EVERY == 0 or at.step == self.steps:
                self._show()
            stopping = self.stop() and at.step < self.steps
            if stopping or time.perf_counter() - self.saved > _SAVE_EVERY:
                self._save()
            if stopping:
                raise Stopped
        at = self.at
        return Outcome(
            steps=at.step,
            best_step=at.best_step,
            best_accuracy=at.best_accuracy,
            seconds=at.seconds,
            tokens_per_second=at.tokens / max(at.seconds, 1e-9),
            parameters=sum(p.numel() for p in self.model.parameters()),
        )

    def _batches(self) -> Iterator[Batch]:
        """From where the cursor stands to the last step."""
        at, config = self.at, self.config
        while at.step < self.steps:
            for batch in self.train.batches(
                config.batch_size, config.seed, epoch=at.epoch, skip=at.batch, structure=self.structure
            ):
                yield batch
                if at.step >= self.steps:
                    return
            at.epoch, at.batch = at.epoch + 1, 0

    def _step(self, batch: Batch) -> None:
        at, there = self.at, batch.to(self.device)
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(at.step, self.steps, self.config)
        scores = forward(self.model, there, self.config.precision)
        total, labels = loss(scores, there.labels), int(batch.label_mask.sum())
        self.optimiser.zero_grad(set_to_none=True)
        (total / labels).backward()
        self.optimiser.step()
        at.step, at.batch = at.step + 1, at.batch + 1
        nats = float(total.detach())
        correct = int(((scores.detach().argmax(-1) == there.labels) & there.label_mask).sum())
        tokens = labels + int(batch.source_mask.sum())
        for sums in (at, self.recent):
            sums.nats, sums.correct = sums.nats + nats, sums.correct + correct
            sums.labels, sums.tokens = sums.labels + labels, sums.tokens + tokens
        if not math.isfinite(at.nats):
            raise RunError(
                "the loss is no longer a number",
                got=f"step {at.step} of {self.steps}",
                fix="a smaller --set lr_peak or weight_decay, or --precision fp32 if it was not",
            )

    def _validate(self) -> None:
        at = self.at
        batches = self.validation.batches(self.config.batch_size, structure=self.structure)
        tally = teacher_forced(self.model, batches, self.device, self.config.precision)
        self._clock()
        row = {
            "step": at.step,
            "epoch": at.epoch,
            "loss": at.nats / at.labels,
            "token_accuracy": at.correct / at.labels,
            "lr": self.optimiser.param_groups[0]["lr"],
            "validation_loss": tally.cross_entropy,
            "validation_token_accuracy": tally.token_accuracy,
            "seconds": at.seconds,
            "tokens": at.tokens,
        }
        at.history.append(row)
        at.nats, at.correct, at.labels = 0.0, 0, 0
        if tally.token_accuracy > at.best_accuracy:
            at.best_accuracy, at.best_step = tally.token_accuracy, at.step
            about = {"step": at.step, "validation_token_accuracy": tally.token_accuracy}
            self.store.save_model({k: v.cpu() for k, v in self.model.state_dict().items()}, about)
        self._save()

    def _show(self) -> None:
        """What happened since it was last shown."""
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

    # What is stored

    def _clock(self) -> None:
        now = time.perf_counter()
        self.at.seconds, self.since = self.at.seconds + now - self.since, now

    def _save(self) -> None:
        self._clock()
        tensors = {f"model.{k}": v.cpu() for k, v in self.model.state_dict().items()}
        names = [name for name, _ in self.model.named_parameters()]
        for index, slot in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{names[index]}.{k}": v.cpu() for k, v in slot.items()}
        tensors["rng.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["rng.cuda"] = torch.cuda.get_rng_state(self.device)
        self.store.save_history(self.at.history)
        self.store.save_state(tensors, vars(self.at))
        self.saved = time.perf_counter()

    def _restore(self, tensors: Tensors, cursor: dict[str, Any]) -> None:
        self.at, tensors = _Cursor(**cursor), self.model.current(tensors)
        self.model.load_state_dict({k[6:]: v for k, v in tensors.items() if k.startswith("model.")})
        state = self.optimiser.state_dict()
        state["state"] = {
            index: {k: tensors[f"optimiser.{name}.{k}"] for k in ("step", "exp_avg", "exp_avg_sq")}
            for index, (name, _) in enumerate(self.model.named_parameters())
            if f"optimiser.{name}.step" in tensors
        }
        self.optimiser.load_state_dict(state)
        torch.set_rng_state(tensors["rng.cpu"])
        if self.device.type == "cuda" and "rng.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["rng.cuda"], self.device)

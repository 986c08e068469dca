"""Training: teacher-forced loss, AdamW, warm-up and cosine, validation, resume.

Paper, section 4.2 and appendix B: AdamW, a linear warm-up over 5% of the steps from 1e-7 to the peak
and a cosine over the other 95% down to 1e-9; the checkpoint kept is the best by token accuracy on the
validation split. Token accuracy is a ratio of two sums over the whole split, padding excluded.

`Loop` knows no folder: it is given a `Store`. What it stores is enough to go on after any kind of
stop, and on a CPU to end with the same weights, bit for bit, as if it had never stopped.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from ape_cli import process
from ape_cli.batch import Batch, ahead
from ape_cli.build import build, compile_around, reading
from ape_cli.config import Config
from ape_cli.dataset import Dataset, Split
from ape_cli.errors import DataError, RunError
from ape_cli.model import loss
from ape_cli.record import Outcome
from ape_cli.score import forward, teacher_forced

_SAVE_EVERY = 60.0  # seconds: what a killed run loses at most
_SAVE_SHARE = 0.02  # of the time: at a validation, state is stored if that takes no more
_SHOW_EVERY = 10  # steps
_AHEAD = {"cuda": 3}  # batches made beside the step; on a CPU it has all cores, and a thread takes more than it gives

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
    stored state that does not fit; `run` raises `RunError` when the loss is no longer a number: within a few
    steps, and before anything is stored.
    """

    def __init__(
        self,
        config: Config,
        data: Dataset,
        store: Store,
        *,
        device: torch.device,
        compiled: bool = False,
        watch: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        process.tune()
        self.config, self.store, self.device, self.stop = config, store, device, stop
        self.watch = watch or (lambda progress: None)
        self.train, self.validation = data.split("train"), data.split("validation")
        for split in (self.train, self.validation):
            if not split.rows:
                raise DataError(f"the {split.name} split is empty", got=data.name, fix="generate rows for it")
        self.structure = reading(config.scheme, data.structure, config.structure)
        self.steps, self.every = total_steps(config, self.train)
        self.model = build(config, data.structure, data.ids).to(device)
        if compiled:
            compile_around(self.model)
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
        self.unread: list[tuple[Tensor, Tensor]] = []  # of each step: nats and correct labels, on the device
        self.storing = 0.0  # seconds that it took, the last time
        self.best: tuple[Tensors, dict[str, Any]] | None = None  # weights that are not stored yet, and about them
        self.since = self.saved = self.shown = time.perf_counter()

    def run(self) -> Outcome:
        self.model.train()
        at = self.at
        left = itertools.islice(self._batches(), self.steps - at.step)
        with closing(ahead(left, _AHEAD.get(self.device.type, 0))) as batches:
            for at.epoch, at.batch, batch in batches:
                self._step(batch)
                ended = at.step == self.steps
                validates = at.step % self.every == 0 or ended
                if validates:
                    self._validate()
                if at.step % _SHOW_EVERY == 0 or ended:
                    self._show()
                stopping = self.stop() and not ended
                due = self.storing / _SAVE_SHARE if validates else _SAVE_EVERY
                if stopping or ended or time.perf_counter() - self.saved > min(due, _SAVE_EVERY):
                    self._save()
                if stopping:
                    raise Stopped
        return Outcome(
            steps=at.step,
            best_step=at.best_step,
            best_accuracy=at.best_accuracy,
            seconds=at.seconds,
            tokens_per_second=at.tokens / max(at.seconds, 1e-9),
            parameters=sum(p.numel() for p in self.model.parameters()),
        )

    def _batches(self) -> Iterator[tuple[int, int, Batch]]:
        """From where the cursor stands, without end: the epoch, how many of its batches are done then, the batch.

        It runs ahead of the cursor, so it only reads where that stood.
        """
        config, done = self.config, self.at.batch
        for epoch in itertools.count(self.at.epoch):
            made = self.train.batches(config.batch_size, config.seed, epoch=epoch, skip=done, structure=self.structure)
            for number, batch in enumerate(made, done + 1):
                yield epoch, number, batch.pinned() if self.device.type == "cuda" else batch
            done = 0

    def _step(self, batch: Batch) -> None:
        """One step of the optimiser. Nothing in it waits for the device: what it came to is read later."""
        at, there = self.at, batch.to(self.device)
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(at.step, self.steps, self.config)
        scores = forward(self.model, there, self.config.precision)
        total, labels = loss(scores, there.labels), int(batch.label_mask.sum())
        self.optimiser.zero_grad(set_to_none=True)
        (total / labels).backward()
        self.optimiser.step()
        at.step += 1
        self.unread.append((total.detach(), ((scores.detach().argmax(-1) == there.labels) & there.label_mask).sum()))
        for sums in (at, self.recent):
            sums.labels, sums.tokens = sums.labels + labels, sums.tokens + labels + int(batch.source_mask.sum())

    def _read(self) -> None:
        """Add what the steps since the last call came to; a `RunError` if the loss of one is no number."""
        if not self.unread:
            return
        nats, correct = (torch.stack(values).tolist() for values in zip(*self.unread, strict=True))
        first = self.at.step - len(self.unread) + 1
        self.unread = []
        for step, lost in enumerate(nats, first):
            if not math.isfinite(lost):
                raise self._diverged(step)
        for sums in (self.at, self.recent):
            for lost, right in zip(nats, correct, strict=True):
                sums.nats, sums.correct = sums.nats + lost, sums.correct + right

    def _diverged(self, step: int) -> RunError:
        return RunError(
            "the loss is no longer a number",
            got=f"step {step} of {self.steps}",
            fix="a smaller --set lr_peak or weight_decay, or --precision fp32 if it was not",
        )

    def _weights(self) -> Tensors:
        """To be stored, so a `RunError` if there is something in them that is no number."""
        weights = self.model.state_dict()
        for value in weights.values():
            # a sum takes one pass; it may overflow where every weight is a number
            if not (value.sum().isfinite() or value.isfinite().all()):
                raise self._diverged(self.at.step)
        return {name: value.cpu() for name, value in weights.items()}

    def _validate(self) -> None:
        self._read()
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
            self.best = {name: value.clone() for name, value in self._weights().items()}, about

    def _show(self) -> None:
        """What happened since it was last shown."""
        self._read()
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
        start = time.perf_counter()
        self._read()
        tensors = {f"model.{k}": v for k, v in self._weights().items()}
        self._clock()
        names = [name for name, _ in self.model.named_parameters()]
        for index, slot in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{names[index]}.{k}": v.cpu() for k, v in slot.items()}
        tensors["rng.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["rng.cuda"] = torch.cuda.get_rng_state(self.device)
        if self.best is not None:
            self.store.save_model(*self.best)
            self.best = None
        self.store.save_history(self.at.history)
        self.store.save_state(tensors, vars(self.at))
        self.saved = time.perf_counter()
        self.storing = self.saved - start

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

"""Training: teacher-forced loss, AdamW, validation, resume.

Paper, section 4.2 and appendix B: AdamW (its schedule in `schedule.py`); the checkpoint kept is the best by token
accuracy on the validation split (of images, equal ones by the lower loss). Token accuracy is a ratio of two sums over
the whole split, padding excluded.

`Loop` knows no folder: it is given a `Store`. What it stores is enough to go on after any kind of
stop, and on a CPU to end with the same weights, bit for bit, as if it had never stopped.

Several ranks (`ranks.py`) train one run together. `batch_size` is that of the whole batch, which is cut into shares.
A rank's loss is the nats of its share over the labels of the whole batch, so that the sum of the gradients is that of
one process, up to rounding. With dropout each rank draws masks of its own. All are at the same step, and stop at the
same one.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any

import torch
from torch import Tensor

from ape_cli.core.errors import DataError, RunError
from ape_cli.data.collation import Labelled, ahead
from ape_cli.data.loader import Dataset, ImageSplit, Split
from ape_cli.data.padding import few_lengths
from ape_cli.evaluation.metrics import MetricSums, forward, teacher_forced
from ape_cli.models import precision
from ape_cli.models.checkpoint import Cursor, Store, Tensors, pack, restore_streams, streams, unpack
from ape_cli.models.device import tune
from ape_cli.models.factory import compile_around, feed, of_data
from ape_cli.models.transformer import loss
from ape_cli.runs.config import Config
from ape_cli.runs.record import TrainingResult
from ape_cli.training.cuda_graphs import Replay
from ape_cli.training.execution import Execution
from ape_cli.training.meter import Meter, Progress, diverged
from ape_cli.training.schedule import learning_rate, total_steps

_SAVE_EVERY = 60.0  # seconds: what a killed run loses at most
_SAVE_SHARE = 0.02  # of the time: at a validation, state is stored if that takes no more
_SHOW_EVERY = {"cuda": 50}  # steps, else 10: to look at a GPU's results is to wait for it
_AHEAD = {"cuda": 3}  # batches made beside the step; on a CPU it has all cores, and a thread takes more than it gives


class Stopped(Exception):  # noqa: N818 - not an error: the run can be resumed
    """The run was asked to stop, and has stored its state."""


class Loop:
    """A run made ready: model, optimiser, and where it stands.

    `watch` is called every few steps. `execution.stop` is asked after each step; `Stopped` is raised if it is true on
    any rank.
    `store` is used by the first rank alone; None on the others.
    Construction raises `DataError` or `UsageError` for what cannot be trained and `RunError` for a
    stored state that does not fit; `run` raises `RunError` when the loss is no longer a number: within a few
    steps, and before anything is stored.
    """

    def __init__(
        self,
        config: Config,
        data: Dataset,
        store: Store | None,
        execution: Execution,
        watch: Callable[[Progress], None] | None = None,
    ) -> None:
        tune()
        device, group = execution.device, execution.group
        precision.check_precision(config.precision, device)
        self.config, self.store, self.device, self.stop, self.group = config, store, device, execution.stop, group
        self.train, self.validation = data.split("train"), data.split("validation")
        for split in (self.train, self.validation):
            if not split.rows:
                raise DataError(f"the {split.name} split is empty", got=data.name, fix="generate rows for it")
        self.on_gpu = device.type == "cuda"
        self.fed, self.fed_training = (feed(config, data, training=training) for training in (False, True))
        if self.on_gpu and config.kind == "sequence":
            self.fed_training["padding"] = few_lengths
        # images: its accuracy is recorded as well, and decides nothing
        self.test = data.split("test") if config.kind == "image" and data.manifest.plan.rows["test"] else None
        self.steps, self.every = total_steps(config, self.train)
        self.model = of_data(config, data).to(device)
        if execution.compiled:
            compile_around(self.model)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(),
            lr=torch.tensor(config.lr_initial, device=device) if self.on_gpu else config.lr_initial,
            betas=(config.beta1, config.beta2),
            weight_decay=config.weight_decay,
            fused=True,
            capturable=self.on_gpu,
        )
        torch.manual_seed(group.seed(config.seed))  # dropout; weights have a generator of their own
        self.at = Cursor()
        stored = group.loaded(store.load_state() if store else None)
        if stored is not None:
            try:
                self._restore(*stored)
            except (KeyError, RuntimeError, TypeError, ValueError, AttributeError) as error:
                raise RunError(
                    "the stored state of the run does not fit it",
                    got=str(error).splitlines()[0],
                    fix="--overwrite begins again",
                ) from error
        self.parallel = group.parallel(self.model)
        # steps of several processes wait for one another, and are not recorded
        records = group.size == 1 and not execution.compiled and not self.model.scheme.waits
        self.replay = Replay(self._worked, device, records) if self.on_gpu else None
        self.meter = Meter(self.at, self.steps, group, watch)
        self.epochs = self.steps / self.train.steps(config.batch_size)
        self.storing = 0.0  # seconds that it took, the last time
        self.best: tuple[Tensors, dict[str, Any]] | None = None  # weights that are not stored yet, and about them
        self.since = self.saved = time.perf_counter()

    def run(self) -> TrainingResult:
        with precision.products(self.config.precision), self._stream():
            return self._run()

    def _stream(self) -> AbstractContextManager[Any]:
        """On a GPU a stream of its own, as recording asks for."""
        if not self.on_gpu:
            return nullcontext()
        own = torch.cuda.Stream(self.device)
        own.wait_stream(torch.cuda.current_stream(self.device))
        return torch.cuda.stream(own)

    def _run(self) -> TrainingResult:
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
                if at.step % _SHOW_EVERY.get(self.device.type, 10) == 0 or ended:
                    self.meter.show()
                asked, due = self.group.any(self.stop(), self._due(validates))
                if asked or ended or due:
                    self._save()
                if asked and not ended:
                    raise Stopped
        return TrainingResult(
            steps=at.step,
            best_step=at.best_step,
            best_accuracy=at.best_accuracy,
            seconds=at.seconds,
            tokens_per_second=at.tokens / max(at.seconds, 1e-9),
            parameters=sum(p.numel() for p in self.model.parameters()),
        )

    def _batches(self) -> Iterator[tuple[int, int, Labelled]]:
        """From where the cursor stands, without end: the epoch, how many of its batches are done then, the batch.

        It runs ahead of the cursor, so it only reads where that stood.
        """
        config, done = self.config, self.at.batch
        for epoch in itertools.count(self.at.epoch):
            made = self.train.batches(
                config.batch_size,
                config.seed,
                epoch=epoch,
                skip=done,
                share=self.group.share,
                **self.fed_training,
            )
            for number, batch in enumerate(made, done + 1):
                yield epoch, number, batch.planned(self.model.scheme).pinned() if self.on_gpu else batch
            done = 0

    def _step(self, batch: Labelled) -> None:
        """One step of the optimiser. Nothing in it waits for the device: what it came to is read later."""
        self.rate = learning_rate(self.at.step, self.steps, self.config)
        for group in self.optimiser.param_groups:
            if self.on_gpu:
                group["lr"].fill_(self.rate)
            else:
                group["lr"] = self.rate
        labels, sources = batch.counts
        nats, correct = self.replay(batch, labels) if self.replay else self._worked(batch, labels)
        self.meter.add(nats, correct, labels, sources)

    def _worked(self, there: Labelled, labels: int | Tensor) -> tuple[Tensor, Tensor]:
        """Forward, backward and the update by a batch of so many labels. -> nats and correct labels of its rows"""
        scores = forward(self.parallel, there, self.config.precision)
        total = loss(scores, there.labels, there.blank, self.config.label_smoothing)
        self.optimiser.zero_grad(set_to_none=True)
        (total / labels * self.group.size).backward()  # what is made of it is the mean over ranks
        self.optimiser.step()
        correct = ((scores.detach().argmax(-1) == there.labels) & there.label_mask).sum()
        return total.detach(), correct

    def _weights(self) -> Tensors:
        """To be stored, so a `RunError` if there is something in them that is no number."""
        weights = self.model.state_dict()
        for value in weights.values():
            # a sum takes one pass; it may overflow where every weight is a number
            if not (value.sum().isfinite() or value.isfinite().all()):
                raise diverged(self.at.step, self.steps)
        return {name: value.cpu() for name, value in weights.items()}

    def _validate(self) -> None:
        self.meter.read()
        at = self.at
        tally = self._scored(self.validation)
        test = None if self.test is None else self._scored(self.test)
        self._clock()
        row = {
            "step": at.step,
            "epoch": at.epoch,
            "loss": at.nats / at.labels,
            "token_accuracy": at.correct / at.labels,
            "lr": self.rate,
            "validation_loss": tally.cross_entropy,
            "validation_token_accuracy": tally.token_accuracy,
            "seconds": at.seconds,
            "tokens": at.tokens,
        }
        lost = tally.cross_entropy if self.config.ties_by_loss else 0.0
        kept = (tally.token_accuracy, -lost) > (at.best_accuracy, -at.best_loss)
        if test is not None:
            row |= {"test_loss": test.cross_entropy, "test_token_accuracy": test.token_accuracy, "kept": kept}
        at.history.append(row)
        at.nats, at.correct, at.labels = 0.0, 0, 0
        if kept:
            at.best_accuracy, at.best_loss, at.best_step = tally.token_accuracy, lost, at.step
            about = {"step": at.step, "validation_token_accuracy": tally.token_accuracy}
            if self.store is not None:
                self.best = {name: value.clone() for name, value in self._weights().items()}, about

    def _scored(self, split: Split | ImageSplit) -> MetricSums:
        """A split, by the weights as they stand."""
        batches = split.batches(self.config.batch_size, share=self.group.share, **self.fed)
        return self.group.pooled(teacher_forced(self.model, batches, self.device, self.config.precision))

    # What is stored

    def _due(self, validated: bool) -> bool:
        """Whether state is to be stored, by the clock of the rank that stores it."""
        patience = self.storing / _SAVE_SHARE if validated else _SAVE_EVERY
        return self.store is not None and time.perf_counter() - self.saved > min(patience, _SAVE_EVERY)

    def _clock(self) -> None:
        now = time.perf_counter()
        self.at.seconds, self.since = self.at.seconds + now - self.since, now

    def _save(self) -> None:
        start = time.perf_counter()
        self.meter.read()
        drawn = self.group.gathered(streams(self.device))
        if self.store is not None:
            tensors = pack(self.model, self._weights(), self.optimiser) | drawn
            self._clock()
            if self.best is not None:
                self.store.save_model(*self.best)
                self.best = None
            self.store.save_history(self.at.history)
            self.store.save_state(tensors, vars(self.at))
        self.saved = time.perf_counter()
        self.storing = self.saved - start

    def _restore(self, tensors: Tensors, cursor: dict[str, Any]) -> None:
        self.at = Cursor(**cursor)
        unpack(tensors, self.model, self.optimiser)
        restore_streams(tensors, self.device, self.group.rank, self.group.seed(self.config.seed, self.at.step))

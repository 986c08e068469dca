"""The training of a run: steps, validations and checkpoints, until it ends or is stopped.

Source: the paper, section 4.2 and appendix B (teacher-forced loss and AdamW). The learning rate is in `schedule.py`,
and metric loggers are in `loggers/`.

Several ranks (`execution.py`) can train one run together. `batch_size` is the size of the global batch, and each rank
computes a share of its rows. It divides its summed loss by the number of labels in the global batch, so that the sum of
the gradients over the ranks is that of a single process, up to rounding. Each rank draws its own masks of dropout. All
ranks are at the same step, and all of them stop after the same step.

The best weights have the highest token accuracy on the validation split. Of weights with equal accuracy the first are
kept, or, for images, those with the lower loss. Token accuracy is a ratio of two sums over the whole split, without
padding.

Shapes: B rows, Q labels, V ids.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from ape_cli.core import memory
from ape_cli.core.errors import RunError
from ape_cli.data.batches import Batch, few_lengths
from ape_cli.data.loader import ImageSplit, Split
from ape_cli.data.position_maps import PLAIN
from ape_cli.evaluation.metrics import MetricSums, teacher_forced
from ape_cli.experiment import Experiment
from ape_cli.models.checkpoint import Progress, RecentSums, Store, Tensors, pack, restore_streams, streams, unpack
from ape_cli.models.device import check_precision, products, tune
from ape_cli.models.factory import compile_around, of_experiment
from ape_cli.models.transformer import Model, forward, loss
from ape_cli.position import planner
from ape_cli.runs.config import Config
from ape_cli.runs.record import TrainingResult
from ape_cli.storage.tensors import AGAIN
from ape_cli.training.cuda_graphs import Replay
from ape_cli.training.execution import Execution
from ape_cli.training.loggers import MetricLogger
from ape_cli.training.schedule import earlier_schedule, learning_rate, schedule, validates

_SHOW_EVERY = {"cuda": 50}  # steps, 10 on other devices; reading the results of a GPU waits for it
_AHEAD = {"cuda": 3}  # batches that a thread makes ahead; on a CPU the step uses all cores, and a thread slows it down
_SAVE_EVERY = 60.0  # seconds; a killed run loses at most the work of this time
_T = TypeVar("_T")


class Stopped(Exception):  # noqa: N818 - not an error: the run can be resumed
    """The run was asked to stop, and has stored its state."""


class DivergenceError(RunError):
    """A loss or a weight is not finite. The same run would diverge again."""


class Trainer:
    """The state of a training: model, optimiser, splits and progress, from the beginning or from the stored state.

    experiment: what is trained, with its dataset open. store: where the state is stored, None on all ranks but the
    first. execution: device, process group and stop signal.
    """

    def __init__(self, experiment: Experiment, store: Store | None, execution: Execution) -> None:
        """Prepare the run, and load its stored state if there is one.

        Raises:
            DataError: A split is empty.
            UsageError: The precision or the compilation is not possible on the device.
            RunError: The stored state does not fit the run.
        """
        config, data, device = experiment.config, experiment.data, execution.device
        self.config, self.store, self.execution, self.on_gpu = config, store, execution, device.type == "cuda"
        with memory.explained("preparing the training", config.batch_size, data.mean_tokens):
            tune()
            check_precision(config.precision, device)
            self.train, self.validation = data.split("train"), data.split("validation")
            for split in (self.train, self.validation):
                split.require_rows()
            self.scoring_options = experiment.batch_options()
            self.training_options = experiment.batch_options(training=True)
            if self.on_gpu and config.modality == "sequence":
                self.training_options = replace(self.training_options, padding=few_lengths)
            # only for images; its accuracy is recorded and decides nothing
            self.test = data.split("test") if config.modality == "image" and data.manifest.plan.rows["test"] else None
            new = Progress(schedule=schedule(config, self.train))
            self.model = of_experiment(experiment).to(device)
            if execution.compiled:
                compile_around(self.model)
            self.optimiser = _optimiser(config, self.model, device)
            self.progress, self.best = self._restored(new)  # the best weights are on the CPU
        self.parallel = execution.group.parallel(self.model)
        # the steps of several processes wait for one another, so they are not recorded
        waits = self.model.scheme.waits_for_positions and config.positions != PLAIN
        records = execution.group.size == 1 and not execution.compiled and not waits
        self.replay = Replay(self.update, device, records) if self.on_gpu else None
        self.rate = config.lr_initial
        self.unread: list[tuple[Tensor, Tensor]] = []  # nats and correct labels of each step, scalars on the device
        self.loggers: Sequence[MetricLogger] = ()
        self.clocked = self.saved = time.perf_counter()  # when the clock was last read, and a checkpoint last stored

    @property
    def epochs(self) -> float:
        """The number of epochs of the whole run."""
        steps, config = self.progress.schedule.steps, self.config
        return config.epochs or steps / self.train.steps(config.batch_size, config.seed)

    def run(self, loggers: Sequence[MetricLogger] = ()) -> TrainingResult:
        """Train to the last step, and pass the metrics to `loggers`.

        Raises:
            Stopped: `execution.stop` was true on a rank. The state is stored.
            RunError: The loss is no longer finite. This is noticed within a few steps, before anything is stored.
            OutOfMemoryError: There is not enough memory.
        """
        self.loggers, progress, config = loggers, self.progress, self.config
        device, mean = self.execution.device, self.train.manifest.mean_tokens
        self.model.train()
        left = itertools.islice(self.batches(), progress.schedule.steps - progress.step)
        self._resume_clock()
        with (
            memory.explained("training", config.batch_size, mean),
            products(config.precision),
            _stream(device),
            closing(prefetch(left, _AHEAD.get(device.type, 0))) as batches,
        ):
            for epoch, number, batch in batches:
                progress.epoch, progress.batch = epoch, number
                self.step(batch)
                ended = progress.step == progress.schedule.steps
                if validates(progress, config):
                    self._validate()
                if progress.step % _SHOW_EVERY.get(device.type, 10) == 0 or ended:
                    self._log(self._recent_metrics())
                self._store(ended)
                self._resume_clock()
        return TrainingResult(
            steps=progress.step,
            best_step=progress.best_step,
            best_accuracy=progress.best_accuracy,
            seconds=progress.seconds,
            tokens_per_second=progress.tokens / max(progress.training_seconds, 1e-9),
            parameters=sum(p.numel() for p in self.model.parameters()),
        )

    def batches(self) -> Iterator[tuple[int, int, Batch]]:
        """An endless iterator over batches that starts at the progress of the run.

        Each item has the number of epochs that are complete after this batch, the number of batches done since, and
        the batch. The progress is read only at the start, because batches are made ahead of the training step.
        """
        size, seed, done = self.config.batch_size, self.config.seed, self.progress.batch
        share, options = self.execution.group.share, self.training_options
        for epoch in itertools.count(self.progress.epoch):
            count = self.train.steps(size, seed, epoch)
            made = self.train.batches(size, seed, epoch=epoch, skip=done, share=share, options=options)
            for number, batch in enumerate(made, done + 1):
                ready = batch.planned(planner(self.model.scheme)).pinned() if self.on_gpu else batch
                yield epoch + number // count, number % count, ready
            done = 0

    # One optimiser step

    def step(self, batch: Batch) -> None:
        """Train on one batch. The results are read later, because reading them waits for the device."""
        progress, (labels, sources) = self.progress, batch.counts  # of the global batch
        self.rate = learning_rate(progress.step, progress.schedule, self.config)
        for group in self.optimiser.param_groups:
            if self.on_gpu:
                group["lr"].fill_(self.rate)
            else:
                group["lr"] = self.rate
        self.unread.append(self.replay(batch, labels) if self.replay else self.update(batch, labels))
        progress.step += 1
        for sums in (progress, progress.recent):
            sums.labels, sums.tokens = sums.labels + labels, sums.tokens + labels + sources

    def update(self, there: Batch, labels: int | Tensor) -> tuple[Tensor, Tensor]:
        """Train on a batch that is on the device, with the current learning rate. It does not wait for the device.

        `labels`: the number of labels in the global batch, a scalar of shape [] on the device if the step is on a GPU.

        Returns two scalars on the device: the summed loss in nats (floating point) and the number of correct labels
        (int64). Both are over the rows of this rank.
        """
        scores = forward(self.model, there, self.config.precision, self.parallel)  # [B, Q, V]
        total = loss(scores, there.labels, there.ignore_index, self.config.label_smoothing)
        self.optimiser.zero_grad(set_to_none=True)
        # the factor is the group size, because gradients are averaged over ranks
        (total / labels * self.execution.group.size).backward()
        self.optimiser.step()
        correct = ((scores.detach().argmax(-1) == there.labels) & there.label_mask).sum()
        return total.detach(), correct

    # Sums and time

    def _read(self) -> None:
        """Add the results of the steps since the last call, and their time, to the progress. This waits for the device.

        Raises `DivergenceError` if the loss of a step is not finite.
        """
        if not self.unread:
            return
        progress, group = self.progress, self.execution.group
        nats, correct = (group.all_reduce(torch.stack(values).tolist()) for values in zip(*self.unread, strict=True))
        first = progress.step - len(self.unread) + 1
        self.unread = []
        for step, lost in enumerate(nats, first):
            if not math.isfinite(lost):
                raise self._diverged(step)
        seconds = self._clock()
        for sums in (progress, progress.recent):
            sums.training_seconds += seconds
            for lost, right in zip(nats, correct, strict=True):
                sums.nats, sums.correct = sums.nats + lost, sums.correct + int(right)

    def _clock(self) -> float:
        """Add the seconds since the last call, or since the start, to the time of the run, and return them."""
        now = time.perf_counter()
        seconds, self.clocked = now - self.clocked, now
        self.progress.seconds += seconds
        return seconds

    def _resume_clock(self) -> None:
        """Continue to train. The time since the steps were read, if they all are, was not spent on training."""
        if not self.unread:
            self._clock()

    def _recent_metrics(self) -> dict[str, float]:
        """The metrics of the steps since the last call, as described in `loggers/__init__.py`."""
        self._read()
        sums, self.progress.recent = self.progress.recent, RecentSums()
        labels = max(1, sums.labels)
        return {
            "recent_loss": sums.nats / labels,
            "recent_token_accuracy": sums.correct / labels,
            "tokens_per_second": sums.tokens / max(1e-9, sums.training_seconds),
        }

    def _log(self, metrics: Mapping[str, float]) -> None:
        """Pass metrics of the current step to all loggers, a copy to each."""
        for logger in self.loggers:
            logger.log(self.progress.step, dict(metrics))

    # Validation

    def score(self, split: Split | ImageSplit) -> MetricSums:
        """The metric sums of the current weights on a split, over all ranks. Each rank scores its share."""
        config, group, mean = self.config, self.execution.group, split.manifest.mean_tokens
        batches = split.batches(config.batch_size, share=group.share, options=self.scoring_options)
        with memory.explained(f"scoring the {split.name} split", config.batch_size, mean):
            sums = teacher_forced(self.model, batches, self.execution.device, config.precision)
        return group.all_reduce_metrics(sums)

    def _validate(self) -> None:
        """Score the weights, log the metrics, and keep the weights if they are the best so far.

        Raises `DivergenceError` if a loss is not finite.
        """
        progress = self.progress
        self._read()
        validation = self.score(self.validation)
        test = None if self.test is None else self.score(self.test)
        if not all(math.isfinite(sums.cross_entropy) for sums in (validation, test) if sums is not None):
            raise self._diverged(progress.step)
        self._clock()
        deciding_loss = validation.cross_entropy if self.config.ties_by_loss else 0.0
        best = (validation.token_accuracy, -deciding_loss) > (progress.best_accuracy, -progress.best_loss)
        metrics: dict[str, float] = {
            "epoch": progress.epoch,
            "loss": progress.nats / progress.labels,
            "token_accuracy": progress.correct / progress.labels,
            "lr": self.rate,
            "validation_loss": validation.cross_entropy,
            "validation_token_accuracy": validation.token_accuracy,
            "seconds": progress.seconds,
            "tokens": progress.tokens,
        }
        if test is not None:
            metrics |= {"test_loss": test.cross_entropy, "test_token_accuracy": test.token_accuracy, "kept": best}
        progress.history.append({"step": progress.step, **metrics})
        self._log(metrics)
        progress.nats, progress.correct, progress.labels = 0.0, 0, 0
        if best:
            progress.best_accuracy, progress.best_loss = validation.token_accuracy, deciding_loss
            progress.best_step = progress.step
            if self.store is not None:
                self.best = {name: value.clone() for name, value in self._weights().items()}

    # Checkpoints, from which a run resumes

    def _restored(self, new: Progress) -> tuple[Progress, Tensors]:
        """Seed dropout, or load the stored checkpoint into the model, the optimiser and the random streams.

        All ranks call this method. Returns the progress of the run, `new` if nothing is stored, and the best weights,
        which are empty in a new run. Raises `RunError` if the stored state does not fit the run.
        """
        config, device, group = self.config, self.execution.device, self.execution.group
        torch.manual_seed(group.seed(config.seed))  # for dropout; weights are drawn from their own generator
        stored = group.broadcast_state(self.store.load_state() if self.store else None)
        if stored is None:
            return new, {}
        tensors, fields = stored
        if "schedule" not in fields:  # stored by version 0.2 or earlier
            earlier = earlier_schedule(config, self.train).model_dump()
            fields |= {"schedule": earlier, "training_seconds": fields.get("seconds")}
        try:
            progress = Progress.model_validate(fields)
            best = unpack(tensors, self.model, self.optimiser)
            restore_streams(tensors, device, group.rank, group.seed(config.seed, progress.step))
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            if memory.ran_out(error):
                raise
            got = str(error).splitlines()[0]
            raise RunError("the stored state does not fit the run", got=got, fix=AGAIN) from error
        return progress, best

    def _store(self, ended: bool) -> None:
        """Store a checkpoint if one is due. Raises `Stopped` if the run was asked to stop before its last step."""
        stops, due = self.execution.group.any(self.execution.stop(), self.due())
        if stops or ended or due:
            self._read()
            for logger in self.loggers:
                logger.flush()
            self.save()
        if stops and not ended:
            raise Stopped

    def due(self) -> bool:
        """Whether it is time to store a checkpoint. This is always False on a rank without a store."""
        return self.store is not None and time.perf_counter() - self.saved > _SAVE_EVERY

    def save(self) -> None:
        """Store a checkpoint. All ranks call this method, after the results of all steps are read.

        Raises `DivergenceError` if a weight is not finite.
        """
        progress = self.progress
        drawn = self.execution.group.gather(streams(self.execution.device))
        if self.store is not None:
            best = self.best if progress.best_step != progress.step else None
            tensors = pack(self.model, self._weights(), self.optimiser, best) | drawn
            self._clock()
            self.store.save_state(tensors, progress.model_dump())
        self.saved = time.perf_counter()

    def _weights(self) -> Tensors:
        """The current weights, on the CPU. Raises `DivergenceError` if one of them is not finite."""
        weights = self.model.state_dict()
        for value in weights.values():
            # the sum is a fast check; it may overflow although every weight is finite
            if not (value.sum().isfinite() or value.isfinite().all()):
                raise self._diverged(self.progress.step)
        return {name: value.cpu() for name, value in weights.items()}

    def _diverged(self, step: int) -> DivergenceError:
        """The error for a loss or a weight that is not finite, noticed at `step`."""
        got = f"step {step} of {self.progress.schedule.steps}"
        fix = "use a smaller `lr_peak` or `weight_decay`, or `precision=fp32`"
        if step <= 2:  # the learning rate has not acted yet
            fix += "; correct a scheme or attention of your own that gives values or gradients that are not finite"
        return DivergenceError("the loss is no longer a number", got=got, fix=fix)


def _optimiser(config: Config, model: Model, device: torch.device) -> torch.optim.Optimizer:
    """AdamW. On a GPU the learning rate is a tensor, so that a recorded step reads its current value."""
    on_gpu = device.type == "cuda"
    return torch.optim.AdamW(
        model.parameters(),
        lr=torch.tensor(config.lr_initial, device=device) if on_gpu else config.lr_initial,
        betas=(config.beta1, config.beta2),
        weight_decay=config.weight_decay,
        fused=all(map(torch.is_floating_point, model.parameters())),  # it takes no complex ones
        capturable=on_gpu,
    )


def _stream(device: torch.device) -> AbstractContextManager[Any]:
    """A context with a new CUDA stream, because CUDA graphs cannot be recorded on the default stream."""
    if device.type != "cuda":
        return nullcontext()
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    return torch.cuda.stream(stream)


def prefetch(items: Iterable[_T], count: int) -> Generator[_T, None, None]:
    """Yield the same items; a thread makes up to `count` of them before they are asked for. 0 uses no thread.

    An error that occurs while an item is made is raised where this item is asked for. After the generator is closed,
    the thread has ended.
    """
    if not count:
        yield from items
        return
    left = iter(items)

    def following() -> list[_T]:  # empty at the end
        return list(itertools.islice(left, 1))

    with ThreadPoolExecutor(1) as thread:
        waiting = deque(thread.submit(following) for _ in range(count))
        while made := waiting.popleft().result():
            waiting.append(thread.submit(following))
            yield made[0]

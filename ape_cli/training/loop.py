"""The training loop: steps, validations and checkpoints, until the run ends or is stopped.

Source: the paper, section 4.2 and appendix B (teacher-forced loss and AdamW). Each part has its own file:

| file | part |
|---|---|
| `setup.py` | splits, model, optimiser, order of the batches, learning rate, number of steps |
| `step.py` | one optimiser step, sums over steps |
| `validation.py` | validation scores, choice of the best weights, checkpoints, resuming |
| `loggers/` | metric loggers |

Several ranks (`execution.py`) can train one run together. `batch_size` is the size of the global batch, and each
rank gets a share of its rows. Each rank draws its own masks of dropout. All ranks are at the same step, and all of them
stop after the same step.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

import torch

from ape_cli.core import memory
from ape_cli.data.batches import Batch
from ape_cli.experiment import Experiment
from ape_cli.models.checkpoint import Store
from ape_cli.models.device import products
from ape_cli.runs.record import TrainingResult
from ape_cli.training.execution import Execution
from ape_cli.training.least_memory import check_memory
from ape_cli.training.loggers import MetricLogger
from ape_cli.training.setup import set_up
from ape_cli.training.step import Meter, TrainingStep
from ape_cli.training.validation import Checkpointer, Validator, restore

_SHOW_EVERY = {"cuda": 50}  # steps, 10 on other devices; reading the results of a GPU waits for it
_AHEAD = {"cuda": 3}  # batches that a thread makes ahead; on a CPU the step uses all cores, and a thread slows it down
_T = TypeVar("_T")


class Stopped(Exception):  # noqa: N818 - not an error: the run can be resumed
    """The run was asked to stop, and has stored its state."""


class Loop:
    """A run that is ready to be trained, from its beginning or from its stored state.

    experiment: what is trained, with its dataset open. store: where the state is stored, None on all ranks but the
    first. execution: device, process group and stop signal.
    """

    def __init__(self, experiment: Experiment, store: Store | None, execution: Execution) -> None:
        """Prepare the run, and load its stored state if there is one.

        Raises:
            DataError, UsageError: The run cannot be trained, for example because it needs more memory than there is.
            RunError: The stored state does not fit the run.
        """
        with memory.explained("preparing the training", experiment.config.batch_size, experiment.dataset.mean_tokens):
            setup = set_up(experiment, execution)
            self.at, best = restore(setup, store)
            self.setup = replace(setup, schedule=self.at.schedule)
            check_memory(self.setup, self.at)
        self.step = TrainingStep(self.setup)
        self.validator = Validator(self.setup)
        self.meter = Meter(self.at, self.setup)
        self.checkpointer = Checkpointer(self.setup, store, self.meter, best)
        self.loggers: Sequence[MetricLogger] = ()

    def run(self, loggers: Sequence[MetricLogger] = ()) -> TrainingResult:
        """Train to the last step, and pass the metrics to `loggers`.

        Raises:
            Stopped: `execution.stop` was true on a rank. The state is stored.
            RunError: The loss is no longer finite. This is noticed within a few steps, before anything is stored.
            OutOfMemoryError: There is not enough memory.
        """
        self.loggers, at, config = loggers, self.at, self.setup.config
        with (
            memory.explained("training", config.batch_size, self.setup.train.manifest.mean_tokens) as watched,
            products(config.precision),
            self._stream(),
        ):
            self._run(watched)
        return TrainingResult(
            steps=at.step,
            best_step=at.best_step,
            best_accuracy=at.best_accuracy,
            seconds=at.seconds,
            tokens_per_second=at.tokens / max(at.training_seconds, 1e-9),
            parameters=sum(p.numel() for p in self.setup.model.parameters()),
        )

    def _stream(self) -> AbstractContextManager[Any]:
        """A context with a new CUDA stream, because CUDA graphs cannot be recorded on the default stream."""
        if not self.setup.on_gpu:
            return nullcontext()
        device = self.setup.execution.device
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        return torch.cuda.stream(stream)

    def _run(self, watched: memory.LengthWatch) -> None:
        """Train from the current step to the last one. `watched` is that of `memory.explained`."""
        self.setup.model.train()
        at, device = self.at, self.setup.execution.device.type
        left = itertools.islice(self.setup.batches(at), at.schedule.steps - at.step)
        self.meter.resume()
        with closing(prefetch(left, _AHEAD.get(device, 0))) as batches:
            for at.epoch, at.batch, batch in batches:
                self._train_on(*watched([batch]))
                ended, validates = at.step == at.schedule.steps, self.setup.validates(at)
                if validates:
                    self._validate()
                if at.step % _SHOW_EVERY.get(device, 10) == 0 or ended:
                    self._log(self.meter.recent())
                self._store(validates, ended)
                self.meter.resume()

    def _train_on(self, batch: Batch) -> None:
        """Train on one batch. The results are read later, because reading them waits for the device."""
        nats, correct = self.step(self.at.step, batch)
        self.meter.add(nats, correct, *batch.counts)

    def _validate(self) -> None:
        """Score the weights, log the metrics, and keep the weights if they are the best so far."""
        at = self.at
        self.meter.read()
        scores = self.validator.scores(at.step)
        self.meter.clock()
        kept = scores.is_best(at)
        validation, test = scores.metrics(kept)
        metrics = {"epoch": at.epoch, "loss": at.nats / at.labels, "token_accuracy": at.correct / at.labels}
        metrics |= {"lr": self.step.rate, **validation, "seconds": at.seconds, "tokens": at.tokens, **test}
        at.history.append({"step": at.step, **metrics})
        self._log(metrics)
        at.nats, at.correct, at.labels = 0.0, 0, 0
        if kept:
            at.best_accuracy, at.best_loss, at.best_step = scores.validation.token_accuracy, scores.loss, at.step
            self.checkpointer.keep()

    def _log(self, metrics: Mapping[str, float]) -> None:
        """Pass metrics of the current step to all loggers, a copy to each."""
        for logger in self.loggers:
            logger.log(self.at.step, dict(metrics))

    def _store(self, validated: bool, ended: bool) -> None:
        """Store a checkpoint if one is due. Raises `Stopped` if the run was asked to stop before its last step."""
        execution = self.setup.execution
        stops, due = execution.group.any(execution.stop(), self.checkpointer.due(validated))
        if stops or ended or due:
            self.meter.read()
            for logger in self.loggers:
                logger.flush()
            self.checkpointer.save()
        if stops and not ended:
            raise Stopped


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

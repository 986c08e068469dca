"""The training loop: steps, validations and checkpoints, one after the other, until the run ends or is stopped.

Paper, section 4.2 and appendix B: teacher-forced loss and AdamW. The parts are in files of their own:

| file | part |
|---|---|
| `setup.py` | splits, model, optimiser, order of the batches |
| `schedule.py` | learning rate, number of steps |
| `step.py` | one optimiser step |
| `validation.py` | scores, and which weights are the best |
| `checkpointing.py` | what is stored, when, and resuming |
| `meter.py` | sums of the steps |
| `loggers/` | who gets the metrics |

Several ranks (`data_parallel.py`) train one run together. `batch_size` is that of the global batch, which is cut into
shares. With dropout each rank draws masks of its own. All ranks are at the same step, and stop at the same one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any

import torch

from ape_cli.data.collation import Labelled, ahead
from ape_cli.data.loader import Dataset
from ape_cli.models import precision
from ape_cli.models.checkpoint import Store
from ape_cli.runs.config import Config
from ape_cli.runs.record import TrainingResult
from ape_cli.training.checkpointing import Checkpointer, restore
from ape_cli.training.execution import Execution
from ape_cli.training.loggers import MetricLogger
from ape_cli.training.loggers._history import History
from ape_cli.training.meter import Meter
from ape_cli.training.setup import set_up
from ape_cli.training.step import TrainingStep
from ape_cli.training.validation import Validator

_SHOW_EVERY = {"cuda": 50}  # steps, else 10: to look at a GPU's results is to wait for it
_AHEAD = {"cuda": 3}  # batches made beside the step; on a CPU it has all cores, and a thread takes more than it gives


class Stopped(Exception):  # noqa: N818 - not an error: the run can be resumed
    """The run was asked to stop, and has stored its state."""


class Loop:
    """A run that is ready to be trained, from its beginning or from its stored state."""

    def __init__(self, config: Config, data: Dataset, store: Store | None, execution: Execution) -> None:
        """Prepare a run. `store`: where its state and its weights are stored; None on all ranks but the first.

        Raises:
            DataError, UsageError: The run cannot be trained.
            RunError: The stored state does not fit the run.
        """
        self.setup = set_up(config, data, execution)
        self.at = restore(self.setup, store)
        self.step = TrainingStep(self.setup)
        self.validator = Validator(self.setup)
        self.meter = Meter(self.at, self.setup.steps, execution.group)
        self.checkpointer = Checkpointer(self.setup, store, self.meter)
        self.loggers: list[MetricLogger] = [History(self.at.history)]

    def run(self, loggers: Sequence[MetricLogger] = ()) -> TrainingResult:
        """Train to the last step, and pass the metrics to `loggers`.

        Raises `Stopped` if `execution.stop` is true on any rank, after the state is stored. Raises `RunError` if the
        loss is no longer a number, within a few steps and before anything is stored.
        """
        self.loggers += loggers
        with precision.products(self.setup.config.precision), self._stream():
            self._run()
        at = self.at
        return TrainingResult(
            steps=at.step,
            best_step=at.best_step,
            best_accuracy=at.best_accuracy,
            seconds=at.seconds,
            tokens_per_second=at.tokens / max(at.seconds, 1e-9),
            parameters=sum(p.numel() for p in self.setup.model.parameters()),
        )

    def _stream(self) -> AbstractContextManager[Any]:
        """On a GPU a stream of its own, as recording asks for."""
        if not self.setup.on_gpu:
            return nullcontext()
        device = self.setup.execution.device
        own = torch.cuda.Stream(device)
        own.wait_stream(torch.cuda.current_stream(device))
        return torch.cuda.stream(own)

    def _run(self) -> None:
        self.setup.model.train()
        at, device = self.at, self.setup.execution.device.type
        left = itertools.islice(self.setup.batches(at), self.setup.steps - at.step)
        with closing(ahead(left, _AHEAD.get(device, 0))) as batches:
            for at.epoch, at.batch, batch in batches:
                self._train_on(batch)
                ended = at.step == self.setup.steps
                validates = at.step % self.setup.validate_every == 0 or ended
                if validates:
                    self._validate()
                if at.step % _SHOW_EVERY.get(device, 10) == 0 or ended:
                    self._log(self.meter.recent())
                self._store(validates, ended)

    def _train_on(self, batch: Labelled) -> None:
        """One step. Its results are read later, because to read them is to wait for the device."""
        nats, correct = self.step(self.at.step, batch)
        self.meter.add(nats, correct, *batch.counts)

    def _validate(self) -> None:
        at = self.at
        self.meter.read()
        scores = self.validator.scores()
        self.meter.clock()
        kept = scores.is_best(at)
        validation, test = scores.metrics(kept)
        trained = {"epoch": at.epoch, "loss": at.nats / at.labels, "token_accuracy": at.correct / at.labels}
        self._log({**trained, "lr": self.step.rate, **validation, "seconds": at.seconds, "tokens": at.tokens, **test})
        at.nats, at.correct, at.labels = 0.0, 0, 0
        if kept:
            at.best_accuracy, at.best_loss, at.best_step = scores.validation.token_accuracy, scores.loss, at.step
            self.checkpointer.keep({"step": at.step, "validation_token_accuracy": at.best_accuracy})

    def _log(self, metrics: Mapping[str, float]) -> None:
        for logger in self.loggers:
            logger.log(self.at.step, metrics)

    def _store(self, validated: bool, ended: bool) -> None:
        """Store the state if it is time to. Raises `Stopped` if the run was asked to stop before its end."""
        execution = self.setup.execution
        asked, due = execution.group.any(execution.stop(), self.checkpointer.due(validated))
        if asked or ended or due:
            self.checkpointer.save()
        if asked and not ended:
            raise Stopped

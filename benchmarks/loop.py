"""Training with `training.trainer.Trainer`, compared with a loop by hand: the same transformer, optimiser and batches.

The loop by hand has its batches in memory. The two sides take turns, a slice of steps each, and each slice is compared
with the same steps of the other side.

- `small` is a run with validation every 100 steps on both sides. `Trainer` also reads the data, computes metrics,
  reports progress, and stores weights and state.
- `paper` is steps without validation, which `paper` has every 785 steps.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ape_cli import experiment
from ape_cli.data.batches import SequenceBatch
from ape_cli.data.loader import Dataset
from ape_cli.experiment import ExperimentSpec
from ape_cli.experiment.choice import preset_dataset
from ape_cli.models import factory
from ape_cli.models.device import choose_device
from ape_cli.models.transformer import loss
from ape_cli.runs.config import Config
from ape_cli.runs.run import Run
from ape_cli.training.execution import Execution
from ape_cli.training.trainer import Trainer
from benchmarks._measure import Row, pair_of
from benchmarks._steps import sequences

SUMMARY = "training with `none` by training.trainer.Trainer, compared with a loop by hand"
TASK = "reverse"


def measure() -> Iterator[Row]:
    """The ratio of step times at presets small and paper."""
    device = choose_device("auto")
    with tempfile.TemporaryDirectory() as folder:
        yield _row(_Plan("small", 100, 4, True, 1.05), device, Path(folder))
        yield _row(_Plan("paper", 100 if device.type == "cuda" else 1, 4, False, None), device, Path(folder))


@dataclass(frozen=True)
class _Plan:
    """How a preset is measured: slices of `steps` steps. After each slice, either both loops validate or none."""

    preset: str
    steps: int
    slices: int
    validates: bool
    bar: float | None

    @property
    def total(self) -> int:
        """Number of steps of all slices."""
        return self.steps * self.slices


def _row(plan: _Plan, device: torch.device, folder: Path) -> Row:
    """The ratio of `Trainer` to the loop by hand."""
    data = preset_dataset(TASK, None, plan.preset, folder / "datasets")
    settings = {"steps": plan.total, "validate_every_steps": plan.steps} if plan.validates else {}
    chosen = experiment.complete(
        ExperimentSpec(preset=plan.preset, scheme="none", set=settings).config("sequence"), data
    )
    hand = _ByHand(chosen, data, plan, device)
    ours, theirs = _in_turn(chosen, data, plan, hand, device, Run(folder / plan.preset))
    pair = pair_of(ours, theirs)
    milliseconds = {"Trainer": ours, "by hand": theirs}
    absolute = {f"{name} ms/step": 1e3 * sum(taken) / plan.total for name, taken in milliseconds.items()}
    what = f"Trainer / by hand, {plan.preset}, {plan.total} steps, {torch.get_num_threads()} threads"
    return Row(what, sum(ours) / sum(theirs), plan.bar, low=pair.low, high=pair.high, absolute=absolute)


class _Enough(Exception):  # noqa: N818 - not an error
    """Raised when all slices are measured."""


def _in_turn(
    chosen: Config, data: Dataset, plan: _Plan, hand: _ByHand, device: torch.device, store: Run
) -> tuple[list[float], list[float]]:
    """Measure both loops in turn. -> seconds of each slice, of `Trainer` and by hand

    The turn of the loop by hand comes when `Trainer` asks whether to stop.
    """
    ours: list[float] = []
    theirs: list[float] = []
    done, since = 0, 0.0

    def turn() -> bool:
        nonlocal done, since
        done += 1
        if done % plan.steps == 0:
            ours.append(_now(device) - since)
            theirs.append(hand.slice(len(theirs)))
            if len(ours) == plan.slices:
                raise _Enough
            since = _now(device)
        return False

    loop = Trainer(experiment.of(chosen, data), store, Execution(device, stop=turn))
    since = _now(device)
    with suppress(_Enough):
        loop.run()
    return ours, theirs


class _ByHand:
    """A loop that does nothing but train, and validate if the plan says so."""

    def __init__(self, chosen: Config, data: Dataset, plan: _Plan, device: torch.device) -> None:
        """Build the model, and load all batches into memory."""
        self.plan, self.device = plan, device
        self.model = factory.build(chosen, data.structure, data.ids).to(device)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=chosen.lr_peak, fused=True)
        train, size = sequences(data, "train"), chosen.batch_size
        epochs = (train.batches(size, chosen.seed, epoch=epoch, structure="seq") for epoch in itertools.count())
        first = itertools.islice(itertools.chain.from_iterable(epochs), plan.total)
        self.batches = [batch.to(device) for batch in first]
        self.validation = [b.to(device) for b in sequences(data, "validation").batches(size, structure="seq")]
        self.train(self.batches[:3])  # warm up: the first calls of a kernel are slower

    def slice(self, number: int) -> float:
        """Train on a slice. -> seconds"""
        start = _now(self.device)
        self.train(self.batches[number * self.plan.steps : (number + 1) * self.plan.steps])
        if self.plan.validates:
            self.validate()
        return _now(self.device) - start

    def train(self, batches: list[SequenceBatch]) -> None:
        """Take one step on each batch."""
        self.model.train()
        for batch in batches:
            mean = loss(self.scores(batch), batch.labels) / batch.label_mask.sum()
            self.optimiser.zero_grad(set_to_none=True)
            mean.backward()
            self.optimiser.step()

    @torch.no_grad()
    def validate(self) -> float:
        """The number of correct labels on the validation split."""
        self.model.eval()
        right = sum(((self.scores(b).argmax(-1) == b.labels) & b.label_mask).sum() for b in self.validation)
        return float(right)

    def scores(self, batch: SequenceBatch) -> Tensor:
        """The scores of a batch."""
        return self.model(*batch.inputs)


def _now(device: torch.device) -> float:
    """The time in seconds, after the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()

"""The schedule of a run, and the order of its batches: epochs of different numbers of batches, and states of before."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ape_cli import experiment
from ape_cli.core.errors import UsageError
from ape_cli.data.loader import Dataset
from ape_cli.experiment import ExperimentSpec
from ape_cli.models.checkpoint import Schedule
from ape_cli.runs import config
from ape_cli.training.execution import SINGLE_PROCESS, Execution, ProcessGroup
from ape_cli.training.schedule import learning_rate, schedule
from ape_cli.training.trainer import Stopped, Trainer
from tests.conftest import uneven_windows, write
from tests.training.test_data_parallel import Apart
from tests.training.test_trainer import CPU, Memory, fit, of_before, stopping_at, tiny


class Rows:
    """A split of this many rows, in one window."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def steps(self, batch_size: int, seed: int | None = None, epoch: int = 0, epochs: int = 1) -> int:
        return epochs * -(-self.rows // batch_size)


def planned(preset: str = "tiny", rows: int = 10_000, **settings: Any) -> Schedule:
    return schedule(ExperimentSpec(preset=preset, scheme="rope", set=settings).config("sequence"), Rows(rows))  # type: ignore[arg-type]


# Numbers of steps, and learning rates


def test_learning_rate_of_the_paper() -> None:
    """1e-7 up to 5e-4 over 5% of 31,400 steps (not 1.25%), then a cosine to 1e-9. There are 200 epochs of 157 batches,
    and a validation follows every fifth epoch.
    """
    paper, found = ExperimentSpec(preset="paper", scheme="rope").config("sequence"), planned("paper")
    assert found == Schedule(steps=31_400, warmup=1570, validate_every=0)
    rates = np.array([learning_rate(s, found, paper) for s in range(31_400)])
    assert rates[0] == 1e-7
    assert rates.argmax() == 1570 == 0.05 * 31_400
    assert rates[1570] == 5e-4
    assert np.isclose(rates[-1], 1e-9)
    assert np.allclose(np.diff(rates[:1571]), (5e-4 - 1e-7) / 1570)
    middle = 1570 + (31_399 - 1570) / 2
    assert np.isclose(np.interp(middle, np.arange(31_400), rates), (5e-4 + 1e-9) / 2, rtol=1e-6)
    assert (np.diff(rates[1570:]) < 0).all()


def test_the_paper_s_preset_is_the_paper_s() -> None:
    """Table 4, appendix B, and what the authors' first release adds."""
    paper = ExperimentSpec(preset="paper", scheme="orthogonal-tree").config("sequence")
    wanted = {
        "d_model": 512, "d_ff": 2048, "heads": 8, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.15,
        "lr_initial": 1e-7, "lr_peak": 5e-4, "lr_final": 1e-9, "warmup": 0.05, "weight_decay": 0.01,
        "beta1": 0.9, "beta2": 0.999, "epochs": 200, "batch_size": 64, "validate_every_epochs": 5,
    }  # fmt: skip
    assert {k: getattr(paper, k) for k in wanted} == wanted
    assert config.PRESETS["paper"].rows == {"train": 10_000, "validation": 1_000, "test": 1_000}


def test_the_published_paper_s_schedule() -> None:
    """400 epochs of 6,000 rows in 94 batches, and a warm-up of 5%."""
    preset = config.PRESETS["neurips"]
    assert preset.rows == {"train": 6_000, "validation": 2_000, "test": 2_000}
    found = planned("neurips", rows=preset.rows["train"])
    assert found == Schedule(steps=94 * 400, warmup=1880, validate_every=0)
    assert (found.steps, preset.sequence["validate_every_epochs"]) == (37_600, 5)


def test_the_warm_up_is_the_smallest_whole_number_that_is_not_below_its_fraction() -> None:
    """In floating point, 0.07 * 100 is 7.000000000000001, and 0.1 * 30 is 3.0000000000000004 if it is added up."""
    assert planned(steps=100, warmup=0.07).warmup == 7
    chosen = ExperimentSpec(preset="tiny", scheme="rope", set={"steps": 100, "warmup": 0.07}).config("sequence")
    rates = [learning_rate(s, planned(steps=100, warmup=0.07), chosen) for s in range(100)]
    assert rates.index(chosen.lr_peak) == rates.index(max(rates)) == 7
    assert planned(steps=101, warmup=0.07).warmup == 8
    for thousandths, steps in itertools.product(range(1000), (1, 20, 100, 800, 1000)):
        exact = math.ceil(Decimal(thousandths) * steps / 1000)
        assert planned(steps=steps, warmup=thousandths / 1000).warmup == exact, (thousandths, steps)
    assert planned(steps=10**12, warmup=1e-12, validate_every_steps=10**9).warmup == 1


def test_more_validations_than_a_state_can_hold() -> None:
    with pytest.raises(UsageError, match=r"too many validations[\s\S]*20,001\n[\s\S]*steps=2`, or more"):
        planned(steps=20_001, validate_every_steps=1)
    assert planned(steps=20_001, validate_every_steps=2).validate_every == 2
    with pytest.raises(UsageError, match="too many validations"):
        planned("paper", epochs=10**9)
    assert planned("paper", epochs=10**9, validate_every_epochs=10**5).steps == 157 * 10**9


# Epochs of different numbers of batches


@pytest.fixture
def uneven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """280 rows in blocks of 64, 64, 64, 64 and 24 rows, and windows of 130 rows: batches of 100 are 4 or 5."""
    uneven_windows(monkeypatch)
    return write(tmp_path / "data", "reverse", rows=(280, 8, 8))


def epochs(count: int, data: Dataset, **settings: Any) -> config.Config:
    """A run of whole epochs with the seed 7, whose first epochs have 4, 5, 5 and 4 batches of the uneven rows."""
    chosen = {"epochs": count, "batch_size": 100, "dropout": 0.0}
    chosen |= settings or {"validate_every_epochs": 1}
    return experiment.complete(
        ExperimentSpec(preset="tiny", scheme="none", seed=7, set=chosen).config("sequence"), data
    )


def rows_of(wanted: config.Config, data: Dataset, group: ProcessGroup = SINGLE_PROCESS) -> list[int]:
    """The rows of all steps of a run on one rank."""
    running = Trainer(experiment.of(wanted, data), None, Execution(CPU, group=group))
    taken = itertools.islice(running.batches(), running.progress.schedule.steps)
    return [int(row) for *_, batch in taken if batch.label_mask.any() for row in batch.row]


def test_epochs_have_each_row_once(uneven: Dataset) -> None:
    counts = [uneven.split("train").steps(100, 7, epoch) for epoch in range(6)]
    assert counts == [4, 5, 5, 4, 4, 4]
    for count in (1, 2, 6):
        wanted = epochs(count, uneven)
        assert schedule(wanted, uneven.split("train")).steps == sum(counts[:count])
        assert sorted(rows_of(wanted, uneven)) == sorted(list(range(280)) * count)
    shares = [rows_of(epochs(2, uneven), uneven, Apart(rank, 3)) for rank in range(3)]
    assert sorted(itertools.chain(*shares)) == sorted(list(range(280)) * 2)


def test_the_history_counts_complete_passes(uneven: Dataset, words: Dataset) -> None:
    """In whole epochs, also where they have different numbers of batches; with a number of steps, rounded down."""
    for data in (words, uneven):
        store = Memory()
        fit(epochs(3, data), data, store, Execution(CPU))
        ends = list(itertools.accumulate(data.split("train").steps(100, 7, epoch) for epoch in range(3)))
        assert [(row["epoch"], row["step"]) for row in store.history] == list(enumerate(ends, 1))
        train = data.split("train").table()
        once = sum(len(ids) + 1 for side in ("source_ids", "target_ids") for ids in train[side].to_pylist())
        assert [row["tokens"] for row in store.history] == [once, 2 * once, 3 * once]  # with their EOS
    fit(tiny("none", words, steps=7, validate_every_steps=1, batch_size=50), words, store := Memory(), Execution(CPU))
    assert [row["epoch"] for row in store.history] == [0, 0, 1, 1, 1, 2, 2]  # 120 rows: three batches
    fit(epochs(5, uneven, validate_every_epochs=2), uneven, store := Memory(), Execution(CPU))
    assert [row["epoch"] for row in store.history] == [2, 4, 5]
    fit(epochs(3, uneven, validate_every_steps=4), uneven, store := Memory(), Execution(CPU))
    assert [row["step"] % 4 for row in store.history[:-1]] == [0] * (len(store.history) - 1)


def test_a_run_that_stops_at_any_step_goes_on_with_the_next_batch(uneven: Dataset) -> None:
    """Also exactly between two epochs."""
    wanted, whole = epochs(2, uneven), Memory()
    fit(wanted, uneven, whole, Execution(CPU))
    for stop in range(1, schedule(wanted, uneven.split("train")).steps):
        store = Memory()
        with pytest.raises(Stopped):
            fit(wanted, uneven, store, Execution(CPU, stop=stopping_at(stop)))
        fit(wanted, uneven, store, Execution(CPU))
        assert [row | {"seconds": 0} for row in store.history] == [row | {"seconds": 0} for row in whole.history]


# States of version 0.2 and earlier


def test_a_run_of_before_keeps_its_schedule(words: Dataset, uneven: Dataset) -> None:
    """Eight steps of warm-up, as many steps as it was begun with, and the validations of before."""
    store, execution = Memory(), Execution(CPU, stop=stopping_at(3, 10))
    wanted = tiny("none", words, steps=100, warmup=0.07, validate_every_steps=1)
    for _ in range(2):
        with pytest.raises(Stopped):
            fit(wanted, words, store, execution)
        of_before(store)
    expected = [*[1e-7 + (wanted.lr_peak - 1e-7) * step / 8 for step in range(3, 8)], wanted.lr_peak]
    assert [row["lr"] for row in store.history][3:9] == expected
    train = uneven.split("train")
    per_epoch = train.steps(100)
    assert train.steps(100, 7, epochs=3) != 3 * per_epoch
    wanted, store = epochs(3, uneven), Memory()
    with pytest.raises(Stopped):
        fit(wanted, uneven, store, Execution(CPU, stop=stopping_at(2)))
    of_before(store)
    assert fit(wanted, uneven, store, Execution(CPU)).steps == 3 * per_epoch
    assert [row["step"] for row in store.history] == [per_epoch, 2 * per_epoch, 3 * per_epoch]

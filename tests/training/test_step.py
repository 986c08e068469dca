"""The sums and the time of the steps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ape_cli import experiment
from ape_cli.data.loader import Dataset
from ape_cli.runs.record import TrainingResult
from ape_cli.training import trainer
from ape_cli.training.execution import Execution
from ape_cli.training.loggers import MetricLogger
from ape_cli.training.trainer import Stopped, Trainer
from tests.training.test_loop import CPU, Memory, tiny
from tests.training.test_setup import of_before


class Clock:
    """A clock that moves only when something is done, by as many seconds as that takes here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(trainer, "time", SimpleNamespace(perf_counter=lambda: self.now))
        for owner, name, seconds in (
            (Trainer, "update", 2.0),
            (Trainer, "score", 1000.0),
            (Trainer, "save", 100.0),
        ):
            monkeypatch.setattr(owner, name, self.taking(seconds, getattr(owner, name)))

    def taking(self, seconds: float, call: Any) -> Any:
        def called(*given: Any) -> Any:
            found = call(*given)
            self.now += seconds
            return found

        return called


class Slow(MetricLogger):
    """A logger that takes ten seconds for each call, and keeps the metrics."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.lines = clock, list[dict[str, float]]()

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.clock.now += 10.0
        self.lines.append(dict(metrics))

    def flush(self) -> None:
        self.clock.now += 10.0

    def close(self) -> None: ...


@pytest.mark.parametrize("every", [4, 7, 20])
def test_the_speed_is_that_of_the_steps_alone(words: Dataset, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    """However often a run is validated, stored and logged, also if it was stopped; `seconds` has all of it."""
    clock, store, asked = Clock(monkeypatch), Memory(), itertools.count(1)
    monkeypatch.setattr(Trainer, "due", lambda self, validated: self.progress.step % 3 == 0)
    logger, results = Slow(clock), list[TrainingResult]()
    for stop in (13, 0):
        clock.now += 1e6  # to start a process
        wanted = experiment.of(tiny("none", words, validate_every_steps=every), words)
        running = Trainer(wanted, store, Execution(CPU, stop=lambda: next(asked) == stop))  # noqa: B023
        clock.now += 500.0  # to open loggers
        try:
            results.append(running.run([logger]))
        except Stopped:
            assert running.progress.training_seconds == 26.0
    (result,), at = results, running.progress
    assert at.training_seconds == 40.0  # 20 steps of two seconds
    assert result.tokens_per_second == at.tokens / 40.0
    recent = [line["tokens_per_second"] for line in logger.lines if "recent_loss" in line]
    assert len(recent) == 2
    assert sum(recent) * 20.0 == pytest.approx(at.tokens)  # ten steps each
    stored = len({3, 6, 9, 12, 13, 15, 18, 20})
    validated = 20 // every + (every == 7)
    others = 1000 * validated + 100 * (stored - 1) + 10 * (validated + len(recent) + stored) + 2 * 500
    assert result.seconds == 40 + others  # a stored time cannot have the time of storing it


def test_a_speed_that_began_before_it_was_told_apart(words: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of version 0.2 has only the time of everything. It counts as training, and the rest is told apart."""
    clock, store, asked = Clock(monkeypatch), Memory(), itertools.count(1)
    monkeypatch.setattr(Trainer, "due", lambda self, validated: False)
    wanted = experiment.of(tiny("none", words, validate_every_steps=5), words)
    with pytest.raises(Stopped):
        Trainer(wanted, store, Execution(CPU, stop=lambda: next(asked) == 10)).run()
    of_before(store)
    assert store.state is not None
    before = store.state[1]["seconds"]
    running = Trainer(wanted, store, Execution(CPU))
    assert running.run().tokens_per_second == running.progress.tokens / (before + 20.0)
    assert before == 2020.0
    assert clock.now > 4000


def test_the_sums_of_a_stopped_run_go_on(words: Dataset) -> None:
    """The recent metrics after a resume cover all steps since they were last logged, also those before it."""
    lines: list[list[tuple[int, dict[str, float]]]] = []
    for stops in ((), (13, 16)):
        found: list[tuple[int, dict[str, float]]] = []
        logger = SimpleNamespace(log=lambda at, metrics: found.append((at, dict(metrics))), flush=lambda: None)  # noqa: B023
        store, asked = Memory(), itertools.count(1)
        for _ in range(1 + len(stops)):
            torch.manual_seed(9)
            running = Trainer(
                experiment.of(tiny("none", words), words),
                store,
                Execution(CPU, stop=lambda: next(asked) in stops),  # noqa: B023
            )
            try:
                running.run([logger])  # type: ignore[list-item]
            except Stopped:
                continue
        timed = {"seconds", "tokens_per_second"}
        lines.append([(at, {k: v for k, v in metrics.items() if k not in timed}) for at, metrics in found])
    assert lines[0] == lines[1]

"""Planning of a sweep: the trials of its grids, and the state of each in the registry and the datasets folder.

Planning changes no files, except that `prepare` generates missing datasets.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ape_cli.core.errors import RunError
from ape_cli.data.plan import DatasetInfo
from ape_cli.evaluation import evaluate
from ape_cli.experiment import Experiment, ExperimentOptions, resolve
from ape_cli.experiment.choice import Datasets
from ape_cli.experiment.datasets import ChosenDataset
from ape_cli.experiment.reading import UnreadableError
from ape_cli.experiment.resolution import prepared
from ape_cli.runs import record
from ape_cli.runs.config import Config
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.storage.paths import StoragePath
from ape_cli.sweep.past_runs import PastRuns
from ape_cli.sweep.specification import SweepSpecification, points

_SHORT = 100.0  # seconds: a task of a cluster should not be shorter


@dataclass(frozen=True)
class PlannedTrial:
    """A trial of a sweep and its state.

    `data` is its dataset, as it is before the sweep. `run` is None as long as its name is not known. `state` is
    `finished`, `new`, `stopped` or `failed` (which are resumed), `damaged` (training it reports the damage), or
    `running` in another process. `seconds` is an estimate from similar runs (`PastRuns`), or None.
    """

    experiment: Experiment
    data: ChosenDataset
    run: Run | None
    state: str
    seconds: float | None = None

    @property
    def config(self) -> Config:
        """The configuration of the experiment."""
        return self.experiment.config

    @property
    def variant(self) -> str:
        """The settings that differ from the preset."""
        return record.settings_text(self.experiment.variant)

    @property
    def name(self) -> str:
        """The name of the run. It is incomplete if the dataset has no fingerprint yet."""
        parts = (self.data.task, self.data.order, self.config.scheme, str(self.config.seed))
        return self.run.name if self.run else "-".join(p for p in parts if p) + "-…"


def plan(
    trials: Iterable[ExperimentOptions], registry: Registry, datasets: StoragePath, past: PastRuns | None = None
) -> tuple[list[PlannedTrial], list[str]]:
    """The trials of a grid with their states, each run once, and a line about each trial that is impossible.

    Nothing is generated. The fingerprint of a missing dataset is taken from registered runs that used it (`past`).
    Raises `DataError` if a dataset is damaged or is not the one that is needed, and `UsageError` for unknown names and
    invalid values.
    """
    past = past or PastRuns(registry)
    planned: dict[str, PlannedTrial] = {}
    left: dict[str, None] = {}
    chosen = Datasets(datasets, past.datasets)
    for options in trials:
        try:
            experiment = resolve(options, chosen)
        except UnreadableError as error:
            left[f"{options.scheme} on {chosen.of(options).folder.name}: {error.summary}"] = None
            continue
        assert isinstance(experiment.data, ChosenDataset)
        item = _planned(experiment, experiment.data, registry, past.seconds(experiment.config, experiment.data))
        planned.setdefault(item.run.name if item.run else repr(options), item)
    return list(planned.values()), list(left)


def of_grids(
    grids: list[SweepSpecification],
    preset: str,
    registry: Registry,
    datasets: StoragePath,
    folder: Callable[[str], StoragePath],
    device: str = "cpu",
) -> tuple[list[PlannedTrial], list[str]]:
    """`plan` for all trials of several grids. `preset` is for grids that name none; times are those on `device`.

    `folder` maps the name of a dataset to its folder.
    """
    return plan(points(grids, preset, folder), registry, datasets, PastRuns(registry, device))


def shard(items: list[PlannedTrial], number: int, of: int) -> list[PlannedTrial]:
    """The trials of one of `of` machines: every `of`-th trial, starting with trial `number`, counted from 1."""
    return items[number - 1 :: of]


def per_task(items: list[PlannedTrial]) -> int:
    """The number of trials in a task of a cluster, so that a task takes a minute or two and there are at least 16."""
    known = [item.seconds for item in items if item.seconds is not None]
    usual = statistics.median_high(known) if known else _SHORT
    return max(1, min(int(_SHORT / max(usual, 1.0)), len(items) // 16))


def _planned(experiment: Experiment, data: ChosenDataset, registry: Registry, seconds: float | None) -> PlannedTrial:
    """Plan one trial."""
    if not experiment.is_named:
        return PlannedTrial(experiment, data, None, "new", seconds)
    run = registry.run_for(experiment.config, experiment.data)
    return PlannedTrial(experiment, data, run, _state(run, experiment.data), seconds)


def _state(run: Run, data: DatasetInfo) -> str:
    """The state of a run, as in `PlannedTrial`. A run whose files cannot be read is damaged."""
    try:
        state = run.status if run.exists() else "new"
        done = not data.plan.rows["test"] or run.evaluation(evaluate.name_of(data, "test", "teacher")) is not None
        done &= state != "finished" or not run.has_leftovers()
    except (RunError, OSError):
        return "damaged"
    # a run that was stopped before its evaluation, or before it was tidied, has to be resumed
    return "stopped" if state == "finished" and not done else state


def prepare(items: list[PlannedTrial], registry: Registry) -> list[PlannedTrial]:
    """Generate the missing datasets of the trials, and return the trials with their datasets.

    If another process is generating a dataset, this waits for it. Each dataset is opened once. If two
    trials turn out to be the same run, one of them is dropped.
    """
    ready: dict[str, PlannedTrial] = {}
    for item in items:
        now = item
        if item.state != "finished":
            now = _planned(prepared(item.experiment), item.data, registry, item.seconds)
        ready.setdefault(now.name, now)
    return list(ready.values())

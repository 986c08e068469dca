"""Planning of a sweep: the trials of its grids, and the state of each in the registry and the datasets folder.

Planning changes no files, except that `prepare` generates missing datasets.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ape_cli import position
from ape_cli.core.errors import DataError, RunError
from ape_cli.evaluation import evaluate
from ape_cli.models import settling
from ape_cli.models.own_files import changed
from ape_cli.runs import record
from ape_cli.runs.config import Config
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.storage.paths import StoragePath
from ape_cli.sweep import trial_data
from ape_cli.sweep.past_runs import PastRuns
from ape_cli.sweep.specification import Point, SweepSpecification, points
from ape_cli.sweep.trial_data import TrialDataset

_SHORT = 100.0  # seconds: a task of a cluster should not be shorter


@dataclass(frozen=True)
class PlannedTrial:
    """A trial of a sweep and its state.

    `state` is `finished`, `new`, `stopped` or `failed` (which are resumed), `changed` (`mark_changed`), `damaged`
    (training it reports the damage), or `running` in another process. `variant` lists the settings that differ from the
    preset. `seconds` is an estimate from similar runs (`PastRuns`), or None.
    """

    config: Config
    data: TrialDataset
    run: Run | None
    state: str
    variant: str = ""
    seconds: float | None = None

    @property
    def name(self) -> str:
        """The name of the run. It is incomplete if the dataset has no fingerprint yet."""
        parts = (self.data.task, self.data.order, self.config.scheme, str(self.config.seed))
        return self.run.name if self.run else "-".join(p for p in parts if p) + "-…"


def plan(
    trials: Iterable[Point],
    registry: Registry,
    datasets: StoragePath,
    named: Callable[[str], StoragePath],
    past: PastRuns | None = None,
) -> tuple[list[PlannedTrial], list[str]]:
    """The trials of a grid with their states, each run once, and a line about each trial that is impossible.

    `named` maps the name of a dataset to its folder. Nothing is generated. The fingerprint of a missing dataset is
    taken from registered runs that used it (`past`). Raises `DataError` if a dataset is damaged or is not the one that
    is needed.
    """
    past = past or PastRuns(registry)
    found: dict[str, PlannedTrial] = {}
    left: dict[str, None] = {}
    known: dict[Any, TrialDataset] = {}
    for point in trials:
        place = (point.data, point.task, point.order, point.config.preset)
        if place not in known:
            known[place] = (
                trial_data.of_task(point, datasets, past)
                if point.data is None
                else trial_data.given(named(point.data), past)
            )
        try:
            settling.reading(point.config.scheme, known[place].structure, point.config.structure)
        except DataError as error:
            left[f"{point.config.scheme} on {known[place].folder.name}: {error.summary}"] = None
            continue
        item = _item(point.config, known[place], registry)
        found.setdefault(
            item.run.name if item.run else repr(item), replace(item, seconds=past.seconds(item.config, item.data))
        )
    return list(found.values()), list(left)


def of_grids(
    grids: list[SweepSpecification],
    preset: str,
    registry: Registry,
    datasets: StoragePath,
    named: Callable[[str], StoragePath],
    device: str = "cpu",
) -> tuple[list[PlannedTrial], list[str]]:
    """`plan` for all trials of several grids. `preset` is for grids that name none; times are those on `device`."""
    past = PastRuns(registry, device)
    # look at a dataset only once, however many trials it has
    kind = cache(lambda data: trial_data.given(named(data), past).kind)
    return plan(points(grids, preset, kind), registry, datasets, named, past)


def mark_changed(items: list[PlannedTrial]) -> list[PlannedTrial]:
    """The trials, with the state `changed` for each run whose scheme or attention has other code now.

    A damaged run, and a run that another process is training, keep their states.
    """

    def is_changed(item: PlannedTrial) -> bool:
        return (
            item.run is not None and item.state not in ("damaged", "running") and bool(changed(item.run, item.config))
        )

    return [replace(item, state="changed") if is_changed(item) else item for item in items]


def shard(items: list[PlannedTrial], number: int, of: int) -> list[PlannedTrial]:
    """The trials of one of `of` machines: every `of`-th trial, starting with trial `number`, counted from 1."""
    return items[number - 1 :: of]


def per_task(items: list[PlannedTrial]) -> int:
    """The number of trials in a task of a cluster, so that a task takes a minute or two and there are at least 16."""
    known = [item.seconds for item in items if item.seconds is not None]
    usual = statistics.median_high(known) if known else _SHORT
    return max(1, min(int(_SHORT / max(usual, 1.0)), len(items) // 16))


def _item(config: Config, data: TrialDataset, registry: Registry) -> PlannedTrial:
    """Plan one trial. Raises `DataError` if the dataset is damaged."""
    settled = settling.settle(config, data)
    variant = record.settings_text(settling.variant(settled, data))
    if not data.fingerprint or (position.load(config.scheme).bounded and settled.max_size is None):
        return PlannedTrial(settled, data, None, "new", variant)
    run = registry.run_for(settled, data)
    return PlannedTrial(settled, data, run, _state(run, data), variant)


def _state(run: Run, data: TrialDataset) -> str:
    """The state of a run, as in `PlannedTrial`. A run whose files cannot be read is damaged."""
    try:
        if not run.exists():
            return "new"
        known = run.read()
        state = run.status_in(known)
        done = not data.tested or run.evaluation(evaluate.name_of(data, "test", "teacher")) is not None
        done &= state != "finished" or not run.has_leftovers()
    except (RunError, OSError):
        return "damaged"
    # a run that was stopped before its evaluation, or before it was tidied, has to be resumed
    return "stopped" if state == "finished" and not done else state


def prepare(items: list[PlannedTrial], registry: Registry, datasets: StoragePath) -> list[PlannedTrial]:
    """Generate the missing datasets of the trials, and return the trials with their datasets.

    If another process is generating a dataset, this waits for it. If two trials turn out to be the same run, one of
    them is dropped.
    """
    ready: dict[StoragePath, TrialDataset] = {}
    found: dict[str, PlannedTrial] = {}
    for item in items:
        data, now = item.data, item
        if data.missing and item.state != "finished":
            if data.folder not in ready:
                trial_data.generate(data, item.config.preset, datasets)
                ready[data.folder] = trial_data.standing(data.folder)
            now = replace(_item(item.config, ready[data.folder], registry), seconds=item.seconds)
            now = replace(now, state="changed") if item.state == "changed" else now
        found.setdefault(now.name, now)
    return list(found.values())

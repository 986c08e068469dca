"""Planning of a sweep: the trials of its grids, and the state of each in the registry and the datasets folder.

Planning changes no files, except that `prepare` generates missing datasets.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ape_cli.core.errors import BusyError, DataError, RunError
from ape_cli.data.facts import Facts
from ape_cli.data.loader import open_dataset
from ape_cli.data.manifest import manifest_path, read_manifest
from ape_cli.evaluation import evaluate
from ape_cli.models import factory
from ape_cli.runs import record
from ape_cli.runs.config import Config
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.storage import folders
from ape_cli.storage.paths import StoragePath
from ape_cli.sweep.estimates import PastRuns
from ape_cli.sweep.specification import Point, SweepSpecification, points
from ape_cli.training import dataset_choice

_LOOK = 2.0  # seconds between two checks of a dataset that another process generates
_SHORT = 100.0  # seconds: a task of a cluster should not be shorter

logger = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class TrialDataset(Facts):
    """The dataset of a trial, which may not have been generated yet.

    `missing` says that it has to be generated, or that some of its shards are missing.
    """

    folder: StoragePath
    missing: bool

    @property
    def train_rows(self) -> int:
        """The number of training rows."""
        return self.plan.rows["train"]

    @property
    def tested(self) -> bool:
        """Whether there are test rows."""
        return self.plan.rows["test"] > 0


@dataclass(frozen=True)
class PlannedTrial:
    """A trial of a sweep and its state.

    `state` is `finished`, `new`, `stopped` or `failed` (which are resumed), `damaged` (training it reports the
    damage), or `running` in another process. `variant` lists the settings that differ from the preset. `seconds` is an
    estimate from similar runs (`PastRuns`), or None.
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
    trials: Iterable[Point], registry: Registry, datasets: StoragePath, named: Callable[[str], StoragePath]
) -> tuple[list[PlannedTrial], list[str]]:
    """The trials of a grid with their states, each run once, and a line about each trial that is impossible.

    `named` maps the name of a dataset to its folder. Nothing is generated. The fingerprint of a missing dataset is
    taken from registered runs that used it. Raises `DataError` if a dataset is damaged or is not the one that is
    needed.
    """
    past = PastRuns(registry)
    found: dict[str, PlannedTrial] = {}
    left: dict[str, None] = {}
    known: dict[Any, TrialDataset] = {}
    for point in trials:
        place = (point.data, point.task, point.order, point.config.preset)
        if place not in known:
            known[place] = _of_task(point, datasets, past) if point.data is None else _given(named(point.data))
        try:
            item = _item(point.config, known[place], registry)
        except DataError as error:
            left[f"{point.config.scheme} on {known[place].folder.name}: {error.summary}"] = None
            continue
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
) -> tuple[list[PlannedTrial], list[str]]:
    """`plan` for all trials of several grids. `preset` is for grids that name none."""
    # look at a dataset only once, however many trials it has
    kind = cache(lambda data: dataset_choice.given_dataset(named(data))[0])
    found = points(grids, preset, kind)
    return plan(found, registry, datasets, named)


def shard(items: list[PlannedTrial], number: int, of: int) -> list[PlannedTrial]:
    """The trials of one of `of` machines: every `of`-th trial, starting with trial `number`, counted from 1."""
    return items[number - 1 :: of]


def per_task(items: list[PlannedTrial]) -> int:
    """The number of trials in a task of a cluster, so that a task takes a minute or two and there are at least 16."""
    known = [item.seconds for item in items if item.seconds is not None]
    usual = statistics.median_high(known) if known else _SHORT
    return max(1, min(int(_SHORT / max(usual, 1.0)), len(items) // 16))


def _item(config: Config, data: TrialDataset, registry: Registry) -> PlannedTrial:
    """Plan one trial. Raises `DataError` if its scheme cannot read the dataset."""
    settled = factory.settle(config, data)
    variant = record.variant_text({"variant": factory.variant(settled, data)})
    if not data.fingerprint:
        return PlannedTrial(settled, data, None, "new", variant)
    run = registry.place(settled, data)
    return PlannedTrial(settled, data, run, _state(run, data), variant)


def _state(run: Run, data: TrialDataset) -> str:
    """The state of a run, as in `PlannedTrial`. A run whose files cannot be read is damaged."""
    try:
        state = run.status if (run.folder / "run.json").exists() else "new"
        done = not data.tested or run.evaluation(evaluate.name_of(data, "test", "teacher")) is not None
        done &= state != "finished" or not run.has_leftovers()
    except (RunError, OSError):
        return "damaged"
    # a run that was stopped before its evaluation, or before it was tidied, has to be resumed
    return "stopped" if state == "finished" and not done else state


def _standing(folder: StoragePath) -> TrialDataset:
    """The dataset in a folder. Raises `DataError` if its manifest is missing or damaged."""
    manifest = read_manifest(folder)
    there = {name for name, _ in folders.entries(folder / "data")}
    missing = any(s.file.removeprefix("data/") not in there for shards in manifest.shards.values() for s in shards)
    return TrialDataset(
        folder=folder,
        plan=manifest.plan,
        mean_size=manifest.mean_size,
        mean_tokens=manifest.mean_tokens,
        fingerprint=manifest.fingerprint,
        missing=missing,
    )


def _given(folder: StoragePath) -> TrialDataset:
    """An existing dataset. Raises `DataError` if parts are missing, because it is not known how to generate it."""
    found = _standing(folder)
    if found.missing:
        open_dataset(folder)
    return found


def _of_task(point: Point, datasets: StoragePath, past: PastRuns) -> TrialDataset:
    """The dataset of a task with the sizes of a preset. Raises `DataError` if its folder holds another dataset."""
    assert point.task is not None
    made, wanted, folder = dataset_choice.preset_plan(point.task, point.order, point.config.preset, datasets)
    if manifest_path(folder).exists():
        if read_manifest(folder).plan != wanted:
            raise DataError(
                f"{folder} holds another dataset than that of preset {point.config.preset}",
                got="another plan in its manifest.json",
                allowed=f"what `ape train --task {point.task} --preset {point.config.preset}` generates",
                fix="move it away, name another folder with --datasets, or name it with --data",
            )
        return _standing(folder)
    return TrialDataset(
        folder=folder,
        plan=wanted,
        mean_size=made.mean_size,
        mean_tokens=made.mean_tokens,
        fingerprint=past.fingerprint(wanted),
        missing=True,
    )


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
                _generate(data, item.config.preset, datasets)
                ready[data.folder] = _standing(data.folder)
            now = replace(_item(item.config, ready[data.folder], registry), seconds=item.seconds)
        found.setdefault(now.name, now)
    return list(found.values())


def _generate(data: TrialDataset, preset: str, datasets: StoragePath) -> None:
    """Generate the dataset of a preset, or wait for another process that generates it."""
    told = False
    while True:
        try:
            dataset_choice.preset_dataset(data.task, data.order, preset, datasets)
            return
        except BusyError as error:
            if not told:
                logger.info(f"waiting: {error.summary}")
            told = True
            time.sleep(_LOOK)

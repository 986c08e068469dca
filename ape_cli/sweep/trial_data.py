"""The datasets of the trials of a sweep, which may not exist yet, or no longer."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ape_cli.core.errors import BusyError, DataError
from ape_cli.data.facts import Facts
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.data.manifest import manifest_path, read_manifest, shard_files
from ape_cli.data.plan import DatasetPlan
from ape_cli.storage.parquet import ROW_GROUP
from ape_cli.storage.paths import StoragePath
from ape_cli.structure import Structure, linearisation
from ape_cli.sweep.past_runs import PastRuns
from ape_cli.sweep.specification import Point
from ape_cli.training import dataset_choice

_LOOK = 2.0  # seconds between two checks of a dataset that another process generates

logger = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class TrialDataset(Facts):
    """The dataset of a trial, which may not have been generated yet.

    `missing` says that it is not there, or that some of its shards are missing. `remembered` says that the facts come
    from runs, and that it is not known how to generate it. `sizes` is what runs tell of the largest sizes of its
    training split, by the structure that is read.
    """

    folder: StoragePath
    missing: bool
    remembered: bool = False
    sizes: dict[str, int] = field(default_factory=dict)

    def largest(self, read: Structure) -> int | None:
        """See `Facts.largest`. If the dataset is not there, runs tell it. Raises `DataError` if shards are damaged."""
        if self.missing:
            return self.sizes.get(read.expression)
        return self._opened.largest(read)

    @cached_property
    def _opened(self) -> Dataset:
        return open_dataset(self.folder)

    @property
    def train_rows(self) -> int:
        """The number of training rows."""
        return self.plan.rows["train"]

    @property
    def tested(self) -> bool:
        """Whether there are test rows."""
        return self.plan.rows["test"] > 0


def standing(folder: StoragePath, past: PastRuns | None = None) -> TrialDataset:
    """The dataset in a folder. Raises `DataError` if its manifest is missing or damaged."""
    manifest = read_manifest(folder)
    present = {f"data/{path.name}" for path in shard_files(folder)}
    missing = any(shard.file not in present for shards in manifest.shards.values() for shard in shards)
    return TrialDataset(
        folder=folder,
        plan=manifest.plan,
        mean_size=manifest.mean_size,
        mean_tokens=manifest.mean_tokens,
        fingerprint=manifest.fingerprint,
        missing=missing,
        sizes=past.sizes(manifest.fingerprint) if past else {},
    )


def given(folder: StoragePath, past: PastRuns) -> TrialDataset:
    """The dataset in a folder that the sweep names.

    If the folder has no dataset, but all registered runs on a dataset of this name used the same one, their record of
    it is taken. It is enough to find these runs, and not to train others.

    Raises `DataError` if it is not known, or if parts are missing, because it is not known how to generate it.
    """
    if not manifest_path(folder).exists() and (told := past.dataset(folder.name)):
        return _recorded(told, folder, past)
    found = standing(folder, past)
    if found.missing:
        open_dataset(folder)
    return found


def _recorded(told: dict[str, Any], folder: StoragePath, past: PastRuns) -> TrialDataset:
    """A dataset that is no longer there, from the record of a run."""
    order, source_order = linearisation.parse(told["order"])
    plan = DatasetPlan(
        **{name: told[name] for name in ("task", "structure", "parameters", "seed", "rows", "image")},
        order=order,
        source_order=source_order,
        shard_rows=ROW_GROUP,
    )
    known = {name: told[name] for name in ("mean_size", "mean_tokens", "fingerprint")}
    sizes = past.sizes(known["fingerprint"])
    return TrialDataset(plan=plan, folder=folder, missing=True, remembered=True, sizes=sizes, **known)


def of_task(point: Point, datasets: StoragePath, past: PastRuns) -> TrialDataset:
    """The dataset of a task with the sizes of a preset. Raises `DataError` if its folder holds another dataset."""
    assert point.task is not None
    made, wanted, folder = dataset_choice.preset_plan(point.task, point.order, point.config.preset, datasets)
    if manifest_path(folder).exists():
        there = read_manifest(folder).plan
        if there != wanted:
            raise DataError(
                f"{folder} holds another dataset than that of preset {point.config.preset}",
                got="; ".join(there.differences(wanted)),
                allowed=f"what `ape train --task {point.task} --preset {point.config.preset}` generates",
                fix="move it away, name another folder with --datasets, or name it with --data",
            )
        return standing(folder, past)
    fingerprint = past.fingerprint(wanted)
    return TrialDataset(
        folder=folder,
        plan=wanted,
        mean_size=made.mean_size,
        mean_tokens=made.mean_tokens,
        fingerprint=fingerprint,
        missing=True,
        sizes=past.sizes(fingerprint),
    )


def generate(data: TrialDataset, preset: str, datasets: StoragePath) -> None:
    """Generate the dataset of a preset, or wait for another process that generates it.

    Raises `DataError` if the dataset is one that cannot be generated.
    """
    if data.remembered:
        open_dataset(data.folder)
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

"""The datasets of the trials of a sweep, which may not exist yet, or no longer."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from functools import cached_property

from ape_cli.core.errors import BusyError, DataError
from ape_cli.data.facts import Facts
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.data.manifest import manifest_path, read_manifest
from ape_cli.data.plan import DatasetPlan
from ape_cli.data.staging import code_changed
from ape_cli.runs.record import Trained
from ape_cli.storage import folders
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
    there = {name for name, _ in folders.entries(folder / "data")}
    missing = any(s.file.removeprefix("data/") not in there for shards in manifest.shards.values() for s in shards)
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
    if not manifest_path(folder).exists() and (trained := past.dataset(folder.name)):
        return _recorded(trained, folder, past)
    found = standing(folder, past)
    if found.missing:
        open_dataset(folder)
    return found


def _recorded(trained: Trained, folder: StoragePath, past: PastRuns) -> TrialDataset:
    """A dataset that is no longer there, from the record of a run."""
    order, source_order = linearisation.parse(trained.order)
    plan = DatasetPlan(
        **{name: getattr(trained, name) for name in ("task", "structure", "parameters", "seed", "rows", "image")},
        order=order,
        source_order=source_order,
        shard_rows=ROW_GROUP,
    )
    return TrialDataset(
        plan=plan,
        folder=folder,
        mean_size=trained.mean_size,
        mean_tokens=trained.mean_tokens,
        fingerprint=trained.fingerprint,
        missing=True,
        remembered=True,
        sizes=past.sizes(trained.fingerprint),
    )


def of_task(point: Point, datasets: StoragePath, past: PastRuns) -> TrialDataset:
    """The dataset of a task with the sizes of a preset. Raises `DataError` if its folder holds another dataset."""
    assert point.task is not None
    made, wanted, folder = dataset_choice.preset_plan(point.task, point.order, point.config.preset, datasets)
    if manifest_path(folder).exists():
        there = read_manifest(folder).plan
        if not there.is_that_of(wanted):
            raise code_changed(folder, there, wanted) or DataError(
                f"{folder} holds another dataset than that of preset {point.config.preset}",
                got="another plan in its manifest.json",
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

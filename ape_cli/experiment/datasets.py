"""The dataset of an experiment, which may not have been generated yet, and what runs recorded of datasets."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ape_cli import tasks
from ape_cli.core.errors import BusyError, DataError
from ape_cli.core.slow_steps import slow_step
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import generation, overlap
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.data.manifest import Manifest
from ape_cli.data.plan import DatasetInfo, DatasetPlan, size_key
from ape_cli.runs import config
from ape_cli.runs.record import Trained
from ape_cli.storage.parquet import ROW_GROUP
from ape_cli.storage.paths import StoragePath
from ape_cli.structure import Structure, linearisation
from ape_cli.tasks import BaseTask

logger = logging.getLogger(__name__)
_DATA_SEED = 42
_WAIT = 2.0  # seconds between two attempts to generate a dataset that another process generates


@dataclass(eq=False, kw_only=True)
class ChosenDataset(DatasetInfo):
    """The dataset of an experiment, which may not have been generated yet.

    `missing` says that it is not there, or that some of its shards are missing. `manifest` is None then. `made_by`
    generates it; None if it is not known how. `required` is the fingerprint that a configuration file names. `sizes` is
    what earlier runs tell of the largest sizes of its training split, by the structure that is read.
    """

    folder: StoragePath
    missing: bool
    manifest: Manifest | None = None
    made_by: BaseTask | None = None
    required: str | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    told: bool = field(default=False, init=False)  # whether `tell_overlap` was called

    def largest(self, read: Structure, *, joined: bool = False) -> int | None:
        """See `DatasetInfo`. If the dataset is missing, runs tell it. Raises `DataError` if shards are damaged."""
        if self.missing:
            return self.sizes.get(size_key(read, joined=joined))
        return self.opened.largest(read, joined=joined)

    @cached_property
    def opened(self) -> Dataset:
        """The dataset, open. Raises `DataError` if it is not complete."""
        return open_dataset(self.folder) if self.manifest is None else Dataset(self.folder, self.manifest)


def generated(data: ChosenDataset) -> Dataset:
    """Open a dataset. If it is missing, generate it, or wait for another process that generates it.

    Raises `DataError` if it cannot be generated, or is damaged.
    """
    waiting = False
    while data.missing and data.made_by is not None:
        try:
            with slow_step(f"generating {data.folder} ({sum(data.plan.rows.values()):,} rows)"):
                outcome = generation.generate(data.made_by, data.plan, data.folder, verify=False)
        except BusyError as error:
            if not waiting:
                logger.info(f"waiting: {error.summary}")
            waiting = True
            time.sleep(_WAIT)
        else:
            data.missing = False
            if outcome.written:
                logger.info(f"generated {data.folder} ({outcome.written:,} rows)")
    if data.required is not None:
        check_fingerprint(data.opened, data.folder, data.required)
    tell_overlap(data)
    return data.opened


def tell_overlap(data: ChosenDataset) -> None:
    """Say once how many rows of a dataset have a source that is also in training, unless the dataset is missing."""
    if not data.missing and not data.told:
        data.told = True
        if line := overlap.remark(data.opened):
            logger.warning(f"overlap in {data.opened.name}: {line}")


def check_fingerprint(data: DatasetInfo, folder: StoragePath, required: str) -> None:
    """Check that a dataset is the one that a configuration file names. Raises `DataError` if it is another one."""
    if data.fingerprint != required:
        raise DataError(
            "this is not the dataset that the configuration file names",
            got=f"{folder}: fingerprint {data.fingerprint[:16]}…",
            allowed=f"{required[:16]}…",
            fix="choose another folder with `datasets`, or name a dataset with `data`",
        )


def preset_plan(
    task: str, order: str | None, preset: str, root: StoragePath, chosen_sizes: str | None = None
) -> tuple[BaseTask, DatasetPlan, StoragePath]:
    """A task at the sizes of a preset, the plan of its dataset, and its folder, `root`/TASK[-ORDER][-sizes-…]-PRESET.

    `order` is the name of a linearisation, or the order of the target if the preset has one for sources. A task with
    fixed rows has one dataset for all presets, with all of its rows. `chosen_sizes`, such as `1-20,30`, replace the
    sizes of the preset. Each has the same number of rows, which is rounded up.

    Raises `UsageError` if the task has no such sizes.
    """
    chosen, kind = config.preset(preset), tasks.load(task)
    sizes = kind.options_at(preset, chosen.sizes)
    if chosen_sizes is not None:
        extents = kind.replaced_by_sizes()
        sizes = {k: v for k, v in sizes.items() if k not in extents} | {"sizes": chosen_sizes}
    written = chosen.linearisation(order) if kind.ordered else order
    sized = tasks.make(task, *linearisation.parse(written), **sizes)
    rows: Mapping[str, int] = chosen.rows
    if sized.fixed_rows:
        rows = sized.rows(dict.fromkeys(SPLITS), _DATA_SEED)
    elif chosen_sizes is not None:
        each = sized.rows(dict.fromkeys(SPLITS, 1), _DATA_SEED)  # as many as there are sizes
        rows = {split: -(-count // each[split]) for split, count in rows.items()}
    folder = root / (sized.title if sized.fixed_rows else f"{sized.title}-{preset}")
    return sized, generation.plan(sized, seed=_DATA_SEED, rows=rows, shard_rows=ROW_GROUP), folder


class RecordedDatasets:
    """What registered runs recorded about their datasets."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._fingerprints: dict[str, str] = {}  # by the plan
        self._sizes: dict[str, dict[str, int]] = {}  # by the fingerprint
        self._by_name: dict[str, dict[str, Trained]] = {}  # records by name and fingerprint

    def add(self, record: Trained) -> None:
        """Add the record of a dataset, the field `dataset` of a run.json."""
        self._fingerprints[_plan_key(record.model_dump(), record.order)] = record.fingerprint
        self._sizes.setdefault(record.fingerprint, {}).update(record.largest)
        self._by_name.setdefault(record.name, {})[record.fingerprint] = record

    def fingerprint(self, plan: DatasetPlan) -> str:
        """The fingerprint of the dataset of a plan, or an empty string if no run used it."""
        return self._fingerprints.get(_plan_key(plan.model_dump(), plan.linearisation), "")

    def sizes(self, fingerprint: str) -> dict[str, int]:
        """The largest sizes of the training split of a dataset, by the structure that is read, as far as runs know."""
        return self._sizes.get(fingerprint, {})

    def named(self, name: str) -> Trained | None:
        """The record of the dataset of this name, or None if none or several datasets had this name."""
        records = list(self._by_name.get(name, {}).values())
        return records[0] if len(records) == 1 else None


def _plan_key(plan: dict[str, Any], order: str | None) -> str:
    """A key for a dataset's plan. `order` is the name of its linearisation."""
    return repr([order, *(plan[key] for key in ("task", "parameters", "seed", "rows"))])

"""The dataset of an experiment, which may be missing: its plan, and its generation."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from ape_cli import tasks
from ape_cli.core.errors import BusyError, DataError
from ape_cli.core.slow_steps import slow_step
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import generation, overlap
from ape_cli.data.loader import Dataset
from ape_cli.data.manifest import DatasetPlan, Manifest, manifest_path, missing_shards, read_manifest
from ape_cli.runs import config
from ape_cli.runs.record import DatasetRecord
from ape_cli.storage.parquet import ROW_GROUP
from ape_cli.storage.paths import StoragePath
from ape_cli.structure import linearisation
from ape_cli.tasks import BaseTask

logger = logging.getLogger(__name__)
_DATA_SEED = 42
_WAIT = 2.0  # seconds between two attempts to generate a dataset that another process generates


def existing(folder: StoragePath, manifest: Manifest, made_by: BaseTask | None = None) -> Dataset:
    """The dataset of a manifest, some of whose shards may be missing."""
    if missing_shards(folder, manifest):
        return missing(folder, manifest.plan, manifest, manifest.fingerprint, made_by)
    return Dataset(folder, manifest)


def missing(
    folder: StoragePath,
    plan: DatasetPlan,
    means: Manifest | DatasetRecord | BaseTask,
    fingerprint: str,
    made_by: BaseTask | None = None,
) -> Dataset:
    """A dataset that is missing or incomplete, whose mean sizes are those of `means`."""
    sizes = means.mean_size, means.mean_tokens
    return Dataset(folder, plan=plan, means=sizes, fingerprint=fingerprint, made_by=made_by)


def planned_dataset(task: BaseTask, plan: DatasetPlan, folder: StoragePath) -> Dataset:
    """The dataset of a plan of a task in a folder, which may be missing. Raises `DataError` if it is damaged."""
    if manifest_path(folder).exists():
        return existing(folder, read_manifest(folder), task)
    return missing(folder, plan, task, "", task)


def preset_plan(
    task: str, order: str | None, preset: str, root: StoragePath, chosen_sizes: str | None = None
) -> tuple[BaseTask, DatasetPlan, StoragePath]:
    """A task at the sizes of a preset, the plan of its dataset, and its folder, `root`/TASK[-ORDER][-sizes-…]-PRESET.

    `order` is the name of a linearisation, or the order of the target if the preset has one for sources. A task with
    fixed rows has one dataset for all presets, with all of its rows. `chosen_sizes`, such as `1-20,30`, replace the
    sizes of the preset. Each has the same number of rows, which is rounded up.

    Raises `UsageError` if the task has no such sizes.
    """
    chosen, task_class = config.preset(preset), tasks.load(task)
    sizes = task_class.options_at(preset, chosen.sizes)
    if chosen_sizes is not None:
        extents = task_class.replaced_by_sizes()
        sizes = {k: v for k, v in sizes.items() if k not in extents} | {"sizes": chosen_sizes}
    written = chosen.linearisation(order) if task_class.ordered else order
    sized = tasks.make(task, *linearisation.parse(written), **sizes)
    rows: Mapping[str, int] = chosen.rows
    if sized.fixed_rows:
        rows = sized.rows(dict.fromkeys(SPLITS), _DATA_SEED)
    elif chosen_sizes is not None:
        count = sized.rows(dict.fromkeys(SPLITS, 1), _DATA_SEED)  # as many as there are sizes
        rows = {split: -(-total // count[split]) for split, total in rows.items()}
    folder = root / (sized.title if sized.fixed_rows else f"{sized.title}-{preset}")
    return sized, generation.plan(sized, seed=_DATA_SEED, rows=rows, shard_rows=ROW_GROUP), folder


def generated(data: Dataset) -> Dataset:
    """Complete a dataset. If it is missing, generate it, or wait for another process that generates it.

    Returns the same dataset, which is no longer missing. Raises `DataError` if it cannot be generated, or is damaged.
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
            data.reload()
            if outcome.written:
                logger.info(f"generated {data.folder} ({outcome.written:,} rows)")
    if data.missing:
        data.reload()  # raises an error, unless it is there by now
    check_fingerprint(data)
    tell_overlap(data)
    return data


def tell_overlap(data: Dataset) -> None:
    """Say once how many rows of a dataset have a source that is also in training, unless the dataset is missing."""
    if not data.missing and not data.overlap_told:
        data.overlap_told = True
        if line := overlap.remark(data):
            logger.warning(f"overlap in {data.name}: {line}")


def check_fingerprint(data: Dataset) -> None:
    """Check that a dataset is the one that a configuration file names. Raises `DataError` if it is another one."""
    if data.required not in (None, data.fingerprint):
        raise DataError(
            "this is not the dataset that the configuration file names",
            got=f"{data.folder}: fingerprint {data.fingerprint[:16]}…",
            allowed=f"{data.required[:16]}…" if data.required else None,
            fix="choose another folder with `datasets`, or name a dataset with `data`",
        )

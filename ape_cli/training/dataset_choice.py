"""The dataset of a training: one that is named, a task's at the sizes of a preset, or one that the scheme can read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from ape_cli import tasks
from ape_cli.core.errors import DataError
from ape_cli.data import generation, manifest
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.data.staging import DatasetTask
from ape_cli.models import factory
from ape_cli.runs import config
from ape_cli.storage.parquet import ROW_GROUP
from ape_cli.storage.paths import StoragePath
from ape_cli.structure import Structure, example, linearisation, parse_structure
from ape_cli.tasks import _images

logger = logging.getLogger(__name__)
_DATA_SEED = 42
_DEFAULT_TASK = {  # where a scheme has no data at all: of the first kind of structure that it reads
    "seq": "reverse",
    "tree(k)": "tree-rotate",
    "grid(n)": "grid-rotate",
    "cyclic(n)": "ring-shift",
}


def kind_of(task: str) -> str:
    """Of a task's data: `sequence` or `image`."""
    return "image" if task == _images.NAME else "sequence"


def preset_plan(
    task: str, order: str | None, preset: str, root: StoragePath
) -> tuple[DatasetTask, manifest.DatasetPlan, StoragePath]:
    """A task's dataset at a preset's own sizes, and its folder, `root`/TASK[-ORDER]-PRESET.

    `order`: the name of a linearisation. Of images it is the bundled digits, all of them at every preset.
    """
    chosen = config.preset(preset)
    orders = linearisation.parse(order)
    if task == _images.NAME:
        found = _images.make(*orders)
        rows = found.available(_DATA_SEED)
        return found, generation.plan(found, seed=_DATA_SEED, rows=rows, shard_rows=ROW_GROUP), root / found.title
    own = {f.name for f in tasks.fields_of(tasks.load(task))}
    made = tasks.make(task, *orders, **{k: v for k, v in chosen.sizes.items() if k in own})
    folder = root / f"{made.title}-{preset}"
    return made, generation.plan(made, seed=_DATA_SEED, rows=chosen.rows, shard_rows=ROW_GROUP), folder


def preset_dataset(task: str, order: str | None, preset: str, root: StoragePath) -> Dataset:
    """A task's dataset at a preset's own sizes; generated if it is missing."""
    made, wanted, folder = preset_plan(task, order, preset, root)
    outcome = generation.generate(made, wanted, folder)
    if outcome.written:
        logger.info(f"generated {folder} ({outcome.written:,} rows)")
    return open_dataset(folder)


def note_unused(task: str, order: str | None, preset: str, root: StoragePath) -> None:
    """Say so where `root` has a dataset that `ape gen` made of the task, as `preset_dataset` does not use it."""
    if kind_of(task) == "image":  # of images there is one dataset
        return
    made, _, folder = preset_plan(task, order, preset, root)
    existing = root / made.title
    if manifest.manifest_path(existing).exists():
        logger.info(f"data: {folder}, at the sizes of preset {preset}; the existing {existing} is not used")
        logger.info(f"to train on the existing dataset: --data {existing} in place of --task")


Choice = tuple[str, Callable[[], Dataset]]  # the kind of some data, and how to have it


def choose_dataset(
    scheme: str, structure: str | Structure | None, order: str | None, preset: str, root: StoragePath
) -> Choice:
    """The newest dataset in `root` that the scheme can read, or its default one at the preset's sizes.

    `structure`: the structure as which positions are read, or its expression; None for the scheme's choice.
    """
    wanted = None if structure is None else parse_structure(structure)
    found, all_of_them = list[StoragePath](), list[StoragePath](root.glob("*/manifest.json"))
    for path in sorted(all_of_them, key=lambda path: path.parent.name):
        try:
            plan = manifest.read_manifest(path.parent).plan
        except DataError:
            continue
        if order in (None, plan.linearisation) and _readable(scheme, plan.structure, wanted):
            found.append(path)
    how = "(--data DIR or --task TASK chooses another)"
    if found:
        newest = max(found, key=lambda p: p.stat().st_mtime_ns).parent
        logger.info(f"data: {newest}, the newest that {scheme} can read {how}")
        return given_dataset(newest)
    kinds = [k for k in _DEFAULT_TASK if order is None or k == "tree(k)"]  # an order is of trees
    kinds = [k for k in kinds if _readable(scheme, example(k), wanted)]
    if not kinds:
        raise DataError(
            f"no dataset in {root} has such positions",
            got=f"scheme {scheme}"
            + (f", structure {wanted.expression}" if wanted else "")
            + (f", order {order}" if order else ""),
            allowed="tree(k), grid(n) and cyclic(n) as the data has them; seq and cyclic(n) along its linearisation",
            fix="generate one: `ape gen tree-rotate --branching 3`, `ape gen ring-shift --ring 6`, …",
        )
    task = _DEFAULT_TASK[kinds[0]]
    logger.info(f"no dataset in {root} that {scheme} can read: taking {task} at the sizes of preset {preset} {how}")
    return kind_of(task), partial(preset_dataset, task, order, preset, root)


def given_dataset(folder: StoragePath) -> Choice:
    """The dataset in a folder."""
    plan = manifest.read_manifest(folder).plan
    return kind_of(plan.task), partial(open_dataset, folder)


def _readable(scheme: str, own: Structure, wanted: Structure | None) -> bool:
    try:
        factory.reading(scheme, own, wanted)
    except DataError:
        return False
    return True

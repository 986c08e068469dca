"""The dataset of a training run: a named one, that of a task at a preset's sizes, or one that the scheme can read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from ape_cli import tasks
from ape_cli.core.errors import ApeError, DataError
from ape_cli.core.names import checked_name
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import generation, manifest
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.data.plan import DatasetPlan
from ape_cli.models import settling
from ape_cli.runs import config
from ape_cli.runs.record import Trained
from ape_cli.storage.parquet import ROW_GROUP
from ape_cli.storage.paths import StoragePath
from ape_cli.structure import Structure, example, linearisation, parse_structure

logger = logging.getLogger(__name__)
_DATA_SEED = 42
_PREFERRED = ["seq", "tree(k)", "grid(n)", "cyclic(n)"]  # structures whose default tasks are tried first, in this order

Choice = tuple[str, Callable[[], Dataset]]  # the kind of the data, `sequence` or `image`, and a function that opens it


def preset_plan(
    task: str, order: str | None, preset: str, root: StoragePath
) -> tuple[tasks.BaseTask, DatasetPlan, StoragePath]:
    """A task at the sizes of a preset, the plan of its dataset, and its folder, `root`/TASK[-ORDER]-PRESET.

    `order` is the name of a linearisation. A task with fixed rows has one dataset for all presets, with all of its
    rows.
    """
    chosen = config.preset(preset)
    found = tasks.load(task)
    own = tasks.options_of(found)
    sizes = {k: v for k, v in chosen.sizes.items() if k in own} | dict(found.preset_options.get(preset, {}))
    made = tasks.make(task, *linearisation.parse(order), **sizes)
    rows = made.rows(dict.fromkeys(SPLITS), _DATA_SEED) if made.fixed_rows else chosen.rows
    folder = root / (made.title if made.fixed_rows else f"{made.title}-{preset}")
    return made, generation.plan(made, seed=_DATA_SEED, rows=rows, shard_rows=ROW_GROUP), folder


def preset_dataset(
    task: str,
    order: str | None,
    preset: str,
    root: StoragePath,
    check: Callable[[Structure], object] = lambda own: None,
) -> Dataset:
    """Open a task's dataset at the sizes of a preset. It is generated if it is missing.

    `check` is called with its structure before that, and may raise an error.
    """
    made, wanted, folder = preset_plan(task, order, preset, root)
    check(wanted.structure)
    outcome = generation.generate(made, wanted, folder, verify=False)  # opening it does
    if outcome.written:
        logger.info(f"generated {folder} ({outcome.written:,} rows)")
    return open_dataset(folder)


def note_unused(task: str, order: str | None, preset: str, root: StoragePath) -> None:
    """Log a note if `root` has a dataset of the task that `ape gen` wrote and `preset_dataset` does not use."""
    if tasks.load(task).fixed_rows:  # there is one dataset for all presets
        return
    made, _, folder = preset_plan(task, order, preset, root)
    existing = root / made.title
    if manifest.manifest_path(existing).exists():
        logger.info(f"data: {folder}, at the sizes of preset {preset}; the existing {existing} is not used")
        logger.info(f"to train on the existing dataset, use --data {existing} in place of --task")


def task_dataset(
    task: str,
    order: str | None,
    preset: str,
    root: StoragePath,
    scheme: str,
    structure: str | Structure | None,
    also: Callable[[Structure], object] = lambda own: None,
) -> Choice:
    """The dataset of a task at the sizes of a preset.

    Opening it raises an error before anything is generated if the scheme cannot read it, as `structure` if that is not
    None, or if `also`, which is called with its structure, raises one.
    """
    wanted = None if structure is None else parse_structure(structure)

    def check(own: Structure) -> None:
        settling.reading(scheme, own, wanted)
        also(own)

    return tasks.load(task).kind, partial(preset_dataset, task, order, preset, root, check)


def given_dataset(folder: StoragePath) -> Choice:
    """The dataset in a folder. Raises `DataError` if there is none."""
    plan = manifest.read_manifest(folder).plan
    return plan.kind, partial(open_dataset, folder)


def recorded_dataset(about: Trained, root: StoragePath) -> Choice:
    """The dataset that a run recorded: `root`/NAME, or else the recorded folder, or else generated as `root`/NAME.

    Opening it raises `DataError` if `root`/NAME is another dataset, or if it cannot be generated again. Raises
    `ApeError` if the recorded name cannot be the name of a folder.
    """
    folder = root / checked_name("name of the dataset", about.name)
    return "sequence" if about.image is None else "image", partial(_again, about, folder)


def _again(about: Trained, folder: StoragePath) -> Dataset:
    """Open or generate a recorded dataset in a folder."""
    if not manifest.manifest_path(folder).exists():
        if (there := _recorded_folder(about)) is not None:
            return open_dataset(there)
        try:
            options = tasks.load(about.task).recorded(about.parameters)
            made = tasks.make(about.task, *linearisation.parse(about.order), **options)
            wanted = generation.plan(made, seed=about.seed, rows=about.rows, shard_rows=ROW_GROUP)
        except ApeError as error:  # it was made of the user's own files, or of a task that is not known here
            raise DataError(
                "the dataset is not there, and cannot be generated again",
                got=f"{folder}: {error.what}",
                fix="generate it with its own options, and name it with --data",
            ) from error
        outcome = generation.generate(made, wanted, folder)
        logger.info(f"generated {folder} ({outcome.written:,} rows)")
    found = open_dataset(folder)
    if found.fingerprint != about.fingerprint:
        raise DataError(
            "the dataset is not the one that the configuration file names",
            got=f"{folder}: fingerprint {found.fingerprint[:16]}…",
            allowed=f"{about.fingerprint[:16]}…",
            fix="choose another folder with --datasets, or name a dataset with --data",
        )
    return found


def _recorded_folder(about: Trained) -> StoragePath | None:
    """The folder in which a run found its dataset, if that is on this machine and still has the dataset."""
    folder = Path(about.path)
    with suppress(ApeError, OSError):
        if manifest.read_manifest(folder).fingerprint == about.fingerprint:
            return folder
    return None


def choose_dataset(
    scheme: str,
    structure: str | Structure | None,
    order: str | None,
    preset: str,
    root: StoragePath,
    also: Callable[[Structure], object] = lambda own: None,
) -> Choice:
    """The newest dataset in `root` that the scheme can read, or its default task's at the sizes of the preset.

    `structure` is the structure as which positions are read, or its expression; None leaves the choice to the scheme.
    `also` is called as in `task_dataset`.

    Raises `DataError` if there is no such dataset, and no default task with such positions.
    """
    wanted = None if structure is None else parse_structure(structure)
    found, all_of_them = list[StoragePath](), list[StoragePath](root.glob("*/manifest.json"))
    for path in sorted(all_of_them, key=lambda path: path.parent.name):
        try:
            plan = manifest.read_manifest(path.parent).plan
        except DataError as error:
            logger.warning(f"left out: {path.parent.name}: {error.summary}")
            continue
        if order in (None, plan.linearisation) and _readable(scheme, plan.structure, wanted):
            found.append(path)
    how = "(--data DIR or --task TASK chooses another)"
    if found:
        newest = max(found, key=lambda p: p.stat().st_mtime_ns).parent
        logger.info(f"data: {newest}, the newest that {scheme} can read {how}")
        return given_dataset(newest)
    defaults = _default_tasks(only_ordered=order is not None)
    task = next((task for kind, task in defaults.items() if _readable(scheme, example(kind), wanted)), None)
    if task is None:
        raise DataError(
            f"no dataset in {root} has such positions",
            got=f"scheme {scheme}"
            + (f", structure {wanted.expression}" if wanted else "")
            + (f", order {order}" if order else ""),
            allowed="tree(k), grid(n) or cyclic(n) if the data has it; seq or cyclic(n) along its linearisation",
            fix="generate one: `ape gen tree-rotate --branching 3`, `ape gen ring-shift --ring 6`, …",
        )
    logger.info(f"no dataset in {root} that {scheme} can read: taking {task} at the sizes of preset {preset} {how}")
    return task_dataset(task, order, preset, root, scheme, structure, also)


def _default_tasks(only_ordered: bool) -> dict[str, str]:
    """The task that each kind of structure is trained on by default, in the order in which they are tried.

    Tasks declare this (`BaseTask.default_for`). With `only_ordered`, tasks without linearisations are left out.
    """
    found: dict[str, str] = {}
    for name in tasks.names():
        with suppress(ApeError):  # a plug-in's file may be broken
            task = tasks.load(name)
            if task.default_for and (task.ordered or not only_ordered):
                found.setdefault(task.default_for, name)
    return {kind: found[kind] for kind in dict.fromkeys([*_PREFERRED, *found]) if kind in found}


def _readable(scheme: str, own: Structure, wanted: Structure | None) -> bool:
    """Whether a scheme can read data of structure `own`, as structure `wanted` if that is given."""
    try:
        settling.reading(scheme, own, wanted)
    except DataError:
        return False
    return True

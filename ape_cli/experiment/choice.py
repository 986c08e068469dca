"""The dataset of an experiment: its choice, for which only manifests are read, its plan, and its generation."""

from __future__ import annotations

import logging
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ape_cli import tasks
from ape_cli.core.errors import LEFT_OUT, ApeError, BusyError, DataError, UsageError, unknown
from ape_cli.core.slow_steps import slow_step
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import generation, overlap
from ape_cli.data.card import gen_command
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.data.manifest import DatasetPlan, Manifest, manifest_path, plan_of, read_manifest
from ape_cli.experiment.reading import UnreadableError, structure_for
from ape_cli.experiment.spec import ExperimentSpec
from ape_cli.runs import config
from ape_cli.runs.record import DatasetRecord
from ape_cli.storage.parquet import ROW_GROUP
from ape_cli.storage.paths import StoragePath, checked_name
from ape_cli.structure import Structure, example, linearisation, parse_structure
from ape_cli.tasks import BaseTask

logger = logging.getLogger(__name__)
_DATA_SEED = 42
_WAIT = 2.0  # seconds between two attempts to generate a dataset that another process generates
_PREFERRED = ["seq", "tree(k)", "grid(n)", "cyclic(n)"]  # structures whose default tasks are tried first, in this order


def find_dataset(
    request: ExperimentSpec,
    root: StoragePath,
    records: Sequence[DatasetRecord] = (),
    cache: dict[Any, Dataset] | None = None,
) -> Dataset:
    """The dataset that a request names. Nothing is generated.

    `root` is the folder of datasets. `records` are what runs recorded, which describes datasets that are missing.
    A dataset that is named by a folder or a task is looked at once for all calls with the same `cache`.

    Raises `DataError` if it is damaged, is not the one that is needed, or if none can be read by the scheme.
    """
    if request.data is None and request.task is None:
        return _newest(request, root) if request.recorded is None else _of_record(request, request.recorded, root)
    by_task = (request.task, request.order, request.preset, request.sizes, request.rows)
    key = by_task if request.data is None else str(request.data)
    cache = {} if cache is None else cache
    if key not in cache:
        data = _of_task(request, root, records) if request.data is None else _in_folder(request.data, records)
        for record in records:
            if record.fingerprint == data.fingerprint:
                data.sizes |= record.largest
        cache[key] = data
    return cache[key]


def _in_folder(folder: StoragePath, records: Sequence[DatasetRecord]) -> Dataset:
    """The dataset in a folder, or what runs recorded about it if it is no longer there.

    This needs that all runs on a dataset of this name used the same one. It is enough to find these runs, and not to
    train others.
    """
    by_fingerprint = {record.fingerprint: record for record in records if record.name == folder.name}
    if not manifest_path(folder).exists() and len(by_fingerprint) == 1:
        (record,) = by_fingerprint.values()
        order, source_order = linearisation.parse(record.order)
        same = {name: getattr(record, name) for name in ("task", "structure", "parameters", "seed", "rows", "image")}
        plan = DatasetPlan(**same, order=order, source_order=source_order, shard_rows=ROW_GROUP)
        return Dataset(folder, plan=plan, about=record, fingerprint=record.fingerprint)
    data = open_dataset(folder)  # a missing shard is an error: it is not known how to generate it
    if not data.plan.rows["train"]:
        fix = "name another dataset; `ape eval` evaluates runs on this one"
        raise DataError("the dataset has no training rows", got=str(folder), fix=fix)
    return data


def _of_task(request: ExperimentSpec, root: StoragePath, records: Sequence[DatasetRecord] = ()) -> Dataset:
    """The dataset of a task at the sizes of a preset. Raises `DataError` if its folder holds another dataset."""
    assert request.task is not None
    task, plan, folder = preset_plan(request.task, request.order, request.preset, root, request.sizes, request.rows)
    if not manifest_path(folder).exists():
        planned = [plan.linearisation, plan.task, plan.parameters, plan.seed, plan.rows]
        same = (r for r in reversed(records) if [r.order, r.task, r.parameters, r.seed, r.rows] == planned)
        same = (r for r in same if r.code in (None, plan.code))  # earlier versions did not record it
        fingerprint = next((record.fingerprint for record in same), "")
        return Dataset(folder, plan=plan, about=task, fingerprint=fingerprint, made_by=task)
    manifest = read_manifest(folder)
    if manifest.plan != plan:
        again = f"{gen_command(task, plan.rows, plan.seed, plan.shard_rows)} --out {shlex.quote(str(folder))}"
        raise DataError(
            f"{folder} does not hold the dataset of preset {request.preset}",
            got="; ".join(manifest.plan.differences(plan)),
            allowed=f"what task {request.task} has at preset {request.preset}",
            fix=f"choose other `datasets`, or this dataset with `data`, or replace it: `{again} --overwrite`",
        )
    return Dataset(folder, manifest, made_by=task)


def _of_record(request: ExperimentSpec, record: DatasetRecord, root: StoragePath) -> Dataset:
    """The dataset that a configuration file recorded: `root`/NAME, or else the recorded folder, or else generated.

    Raises `UsageError` if the request names an order, and `DataError` if `root`/NAME is another dataset, or if it
    cannot be generated again.
    """
    if request.order is not None:
        fix = "name a task with `task`, or leave the order out"
        raise UsageError("the configuration file already names a dataset", got=f"order {request.order}", fix=fix)
    folder = root / checked_name("name of the dataset", record.name)
    if manifest_path(folder).exists():
        data = Dataset(folder, read_manifest(folder))
        data.required = record.fingerprint
        check_fingerprint(data)
        return data
    with suppress(ApeError, OSError):  # the folder that the run recorded, if it is on this machine
        manifest = read_manifest(recorded := Path(record.path))
        if manifest.fingerprint == record.fingerprint:
            return Dataset(recorded, manifest)
    try:
        task = tasks.recorded(record.task, record.order, record.parameters)
        plan = plan_of(task, seed=record.seed, rows=record.rows, shard_rows=ROW_GROUP)
    except ApeError as error:  # it was made of the user's own files, or of a task that is not known here
        raise DataError(
            "the dataset is missing and cannot be generated again",
            got=f"{folder}: {error.what}",
            fix="generate it with its own options, and name it with `data`",
        ) from error
    data = Dataset(folder, plan=plan, about=record, fingerprint=record.fingerprint, made_by=task)
    data.required = record.fingerprint
    return data


def _newest(request: ExperimentSpec, root: StoragePath) -> Dataset:
    """The newest dataset in `root` that the scheme can read, or its default task's at the sizes of the preset.

    Raises `DataError` if there is no such dataset, and no default task with such positions.
    """
    scheme, order, preset = request.scheme, request.order, request.preset
    structure = None if request.structure is None else parse_structure(request.structure)
    readable = [
        (path.parent, manifest)
        for path, manifest in _manifests(root)
        if order in (None, manifest.plan.linearisation)
        and manifest.plan.rows["train"]
        and _is_readable(scheme, manifest.plan.structure, structure)
    ]
    how = "(`data` or `task` chooses another)"
    if readable:
        newest, manifest = max(readable, key=lambda pair: manifest_path(pair[0]).stat().st_mtime_ns)
        logger.info(f"data: {newest}, the newest that {scheme} can read {how}")
        return Dataset(newest, manifest)
    defaults = default_tasks(only_ordered=order is not None)
    task = next((task for pattern, task in defaults.items() if _is_readable(scheme, example(pattern), structure)), None)
    if task is None:
        raise DataError(
            f"no dataset in {root} has such positions",
            got=f"scheme {scheme}, structure {request.structure}, order {order}",
            allowed="tree(k), grid(n) or cyclic(n) if the data has it; seq or cyclic(n) along its linearisation",
            fix="generate one: `ape gen tree-rotate --branching 3`, `ape gen ring-shift --ring 6`, …",
        )
    logger.info(f"no dataset in {root} that {scheme} can read: taking {task} at the sizes of preset {preset} {how}")
    return _of_task(ExperimentSpec(preset=preset, scheme=scheme, task=task, order=order), root)


def _manifests(root: StoragePath) -> Iterator[tuple[StoragePath, Manifest]]:
    """The manifests in `root`, by the names of their folders. Logs a warning about each that cannot be read."""
    paths = list[StoragePath](root.glob("*/manifest.json"))
    for path in sorted(paths, key=lambda path: path.parent.name):
        try:
            yield path, read_manifest(path.parent)
        except DataError as error:
            logger.warning(f"{LEFT_OUT}{path.parent.name}: {error.summary}")


def _is_readable(scheme: str, data: Structure, chosen: Structure | None) -> bool:
    with suppress(UnreadableError):
        return bool(structure_for(scheme, data, chosen))
    return False


def default_tasks(only_ordered: bool) -> dict[str, str]:
    """The task that each kind of structure is trained on by default, in the order in which they are tried.

    Tasks declare this (`BaseTask.default_for`). With `only_ordered`, tasks without linearisations are left out.
    """
    by_structure: dict[str, str] = {}
    for name in tasks.names():
        with suppress(ApeError):  # a plug-in's file may be broken
            task = tasks.load(name)
            if task.default_for and (task.ordered or not only_ordered):
                by_structure.setdefault(task.default_for, name)
    tried = dict.fromkeys([*_PREFERRED, *by_structure])
    return {structure: by_structure[structure] for structure in tried if structure in by_structure}


def preset_dataset(task: str, order: str | None, preset: str, root: StoragePath) -> Dataset:
    """Open a task's dataset at the sizes of a preset. It is generated if it is missing."""
    request = ExperimentSpec(preset=preset, scheme="none", task=task, order=order)
    return generated(find_dataset(request, root))


def note_unused(request: ExperimentSpec, folder: StoragePath) -> None:
    """Log a note if `ape gen` wrote a dataset of the task beside the `folder` that this experiment uses."""
    if request.task is None or request.data is not None:
        return
    if tasks.load(task_and_options(request.task)[0]).fixed_rows:
        return
    unused = folder.with_name(folder.name.removesuffix(f"-{request.preset}"))
    if manifest_path(unused).exists():
        logger.info(f"data: {folder}, at the sizes of preset {request.preset}; the existing {unused} is not used")
        logger.info("to train on the existing dataset, choose it with `data` instead of `task`")


def planned_dataset(task: BaseTask, plan: DatasetPlan, folder: StoragePath) -> Dataset:
    """The dataset of a plan of a task in a folder, which may be missing. Raises `DataError` if it is damaged."""
    if manifest_path(folder).exists():
        return Dataset(folder, read_manifest(folder), made_by=task)
    return Dataset(folder, plan=plan, about=task, made_by=task)


def preset_plan(
    task: str,
    order: str | None,
    preset: str,
    root: StoragePath,
    chosen_sizes: str | None = None,
    train_rows: int | None = None,
) -> tuple[BaseTask, DatasetPlan, StoragePath]:
    """A task at the sizes of a preset, the plan of its dataset, and its folder.

    The folder is `root`/TASK[-ORDER][-sizes-…][-OPTION-VALUE…][-rows-…]-PRESET.

    `task` may have options, as in `modular kind=parity`; then it has only the sizes of the preset, not its other
    options. `order` is the name of a linearisation, or the order of the target if the preset has one for sources. A
    task with fixed rows has one dataset for all presets, with all of its rows. `chosen_sizes`, such as `1-20,30`,
    replace the sizes of the preset. Each has the same number of rows, which is rounded up. `train_rows` replaces the
    number of training rows of the preset.

    Raises `UsageError` if the task has no such sizes, or a number of rows of its own.
    """
    name, given = task_and_options(task)
    chosen, task_class = config.preset(preset), tasks.load(name)
    has_options = bool(given)
    if chosen_sizes is not None:
        given["sizes"] = chosen_sizes
    extents = task_class.replaced_by_sizes()
    options = task_class.options_at(preset, chosen.sizes)
    if has_options:
        options = {k: v for k, v in options.items() if k in {*extents, *chosen.sizes}}
    if "sizes" in given:
        options = {k: v for k, v in options.items() if k not in extents}
    written = chosen.linearisation(order) if task_class.ordered else order
    sized = tasks.make(name, *linearisation.parse(written), **(options | given))
    rows = dict(chosen.rows) | ({} if train_rows is None else {"train": train_rows})
    if sized.fixed_rows:
        if train_rows is not None:
            what, fix = f"{name} has the rows of its source", "leave `rows` out"
            raise UsageError(what, got=f"rows {train_rows}", fix=fix)
        rows = sized.rows(dict.fromkeys(SPLITS), _DATA_SEED)
    elif "sizes" in given:
        count = sized.rows(dict.fromkeys(SPLITS, 1), _DATA_SEED)  # as many as there are sizes
        rows = {split: -(-total // count[split]) for split, total in rows.items()}
    plan = plan_of(sized, seed=_DATA_SEED, rows=rows, shard_rows=ROW_GROUP)
    words = [f"{k}-{v}" for k, v in given.items() if k != "sizes"]
    words += [] if train_rows is None else [f"rows-{train_rows}"]
    words += [] if sized.fixed_rows else [preset]
    ending = "".join("-" + re.sub(r"[^A-Za-z0-9.]+", "-", word) for word in words)
    return sized, plan, generation.titled_folder(root, sized, plan, ending)


def task_and_options(text: str) -> tuple[str, dict[str, Any]]:
    """The name of a task and its options, from text such as `modular kind=parity`.

    A value with spaces or commas is written in quotes. Raises `UsageError` for text of another form, for an unknown
    task, and for an order, which is no option of a task.

    >>> task_and_options("modular kind=brackets modulus=7")
    ('modular', {'kind': 'brackets', 'modulus': 7})
    """
    name, *pairs = config.outside_quotes(r"\s+", text.strip())
    task = tasks.load(name)
    if bad := [pair for pair in pairs if not all(pair.partition("="))]:
        fix = "for example `modular kind=parity`"
        raise UsageError(f"an option of task {name} has no value", got=bad[0], allowed="KEY=VALUE", fix=fix)
    options, declared = config.parse_settings(pairs), tasks.options_of(task)
    texts = {key: text.strip('"') for key, _, text in (pair.partition("=") for pair in pairs)}
    options |= {key: texts[key] for key in options if key in declared and declared[key].kind == "str"}
    for key in options.keys() & {"name", "order", "source_order"}:  # arguments of `tasks.make`
        raise unknown(f"option of {name}", key, declared)
    return name, options


def linearisations(task: str, orders: Sequence[str], preset: str) -> list[str | None]:
    """The linearisations of a task at a preset, each once; None for a task that has no choice of orders."""
    written = [config.preset(preset).linearisation(order) for order in orders]  # several may be the same
    return [*dict.fromkeys(written)] if tasks.load(task_and_options(task)[0]).ordered else [None]


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
    """Say how many rows of a dataset have a source that is also in training, unless the dataset is missing."""
    if data.missing:
        return
    if line := overlap.of_dataset(data.folder, data.manifest).words(data.plan):
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

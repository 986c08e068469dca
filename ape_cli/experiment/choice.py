"""The choice of the dataset of an experiment. Only manifests are read, and nothing is generated."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ape_cli import tasks
from ape_cli.core.errors import ApeError, DataError, UsageError
from ape_cli.core.validation import checked_name
from ape_cli.data import generation
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.data.manifest import Manifest, manifest_path, missing_shards, read_manifest
from ape_cli.data.plan import DatasetPlan
from ape_cli.experiment.datasets import ChosenDataset, RecordedDatasets, check_fingerprint, generated, preset_plan
from ape_cli.experiment.reading import UnreadableError, reading
from ape_cli.experiment.spec import ExperimentSpec
from ape_cli.runs.record import Trained
from ape_cli.storage.parquet import ROW_GROUP
from ape_cli.storage.paths import StoragePath
from ape_cli.structure import Structure, example, linearisation, parse_structure
from ape_cli.tasks import BaseTask

logger = logging.getLogger(__name__)
_PREFERRED = ["seq", "tree(k)", "grid(n)", "cyclic(n)"]  # structures whose default tasks are tried first, in this order


class Datasets:
    """Finds the datasets of experiments. Each dataset is looked at once, however many experiments use it.

    `root` is the folder of datasets. `recorded` is what runs know of datasets that are missing.
    """

    def __init__(self, root: StoragePath, recorded: RecordedDatasets | None = None) -> None:
        """Nothing is read yet."""
        self.root, self.recorded = root, recorded or RecordedDatasets()
        self._chosen: dict[Any, ChosenDataset] = {}

    def of(self, options: ExperimentSpec) -> ChosenDataset:
        """The dataset of an experiment. Nothing is generated.

        Raises `DataError` if it is damaged, is not the one that is needed, or if none can be read by the scheme.
        """
        if options.data is not None:
            key: Any = str(options.data)
        elif options.task is not None:
            key = (options.task, options.order, options.preset, options.sizes)
        elif options.recorded is not None:
            return self._of_file(options)
        else:
            return self._newest(options)
        if key not in self._chosen:
            self._chosen[key] = self._named(options.data) if options.data is not None else self._of_task(options)
        return self._chosen[key]

    def _named(self, folder: StoragePath) -> ChosenDataset:
        """The dataset in a folder, or what runs recorded about it if it is no longer there.

        This needs that all runs on a dataset of this name used the same one. It is enough to find these runs, and not
        to train others.
        """
        if not manifest_path(folder).exists() and (record := self.recorded.named(folder.name)):
            order, source_order = linearisation.parse(record.order)
            same = {
                name: getattr(record, name) for name in ("task", "structure", "parameters", "seed", "rows", "image")
            }
            plan = DatasetPlan(**same, order=order, source_order=source_order, shard_rows=ROW_GROUP)
            return self._chosen_as(folder, plan, record, record.fingerprint, missing=True)
        chosen = self._existing(folder, read_manifest(folder))
        if not chosen.plan.rows["train"]:
            fix = "name another dataset; `ape eval` evaluates runs on this one"
            raise DataError("the dataset has no training rows", got=str(folder), fix=fix)
        if chosen.missing:
            open_dataset(folder)  # says which shards are missing: it is not known how to generate them
        return chosen

    def _of_task(self, options: ExperimentSpec) -> ChosenDataset:
        """The dataset of a task at the sizes of a preset. Raises `DataError` if its folder holds another dataset."""
        assert options.task is not None
        task, plan, folder = preset_plan(options.task, options.order, options.preset, self.root, options.sizes)
        if not manifest_path(folder).exists():
            fingerprint = self.recorded.fingerprint(plan)
            return self._chosen_as(folder, plan, task, fingerprint, missing=True, made_by=task)
        manifest = read_manifest(folder)
        if manifest.plan != plan:
            raise DataError(
                f"{folder} holds another dataset than that of preset {options.preset}",
                got="; ".join(manifest.plan.differences(plan)),
                allowed=f"what task {options.task} has at preset {options.preset}",
                fix="move it away, name another folder with `datasets`, or name it with `data`",
            )
        return self._existing(folder, manifest, task)

    def _of_file(self, options: ExperimentSpec) -> ChosenDataset:
        """The dataset that a configuration file recorded: `root`/NAME, or else the recorded folder, or else generated.

        Raises `UsageError` if the options name an order, and `DataError` if `root`/NAME is another dataset, or if it
        cannot be generated again.
        """
        record = options.recorded
        assert record is not None
        if options.order is not None:
            fix = "name a task with `task`, or leave the order out"
            raise UsageError("the configuration file already names a dataset", got=f"order {options.order}", fix=fix)
        folder = self.root / checked_name("name of the dataset", record.name)
        if not manifest_path(folder).exists():
            with suppress(ApeError, OSError):  # the folder that the run recorded, if it is on this machine
                manifest = read_manifest(recorded := Path(record.path))
                if manifest.fingerprint == record.fingerprint:
                    return self._existing(recorded, manifest)
            task, plan = _recorded_plan(record, folder)
            chosen = self._chosen_as(folder, plan, record, record.fingerprint, missing=True, made_by=task)
            return replace(chosen, required=record.fingerprint)
        chosen = self._existing(folder, read_manifest(folder))
        check_fingerprint(chosen, folder, record.fingerprint)
        return chosen

    def _newest(self, options: ExperimentSpec) -> ChosenDataset:
        """The newest dataset in `root` that the scheme can read, or its default task's at the sizes of the preset.

        Raises `DataError` if there is no such dataset, and no default task with such positions.
        """
        scheme, order, root = options.scheme, options.order, self.root
        structure = None if options.structure is None else parse_structure(options.structure)
        readable = [
            (path.parent, manifest)
            for path, manifest in self._manifests()
            if order in (None, manifest.plan.linearisation)
            and manifest.plan.rows["train"]
            and _readable(scheme, manifest.plan.structure, structure)
        ]
        how = "(`data=DIR` or `task=TASK` chooses another)"
        if readable:
            newest, manifest = max(readable, key=lambda pair: manifest_path(pair[0]).stat().st_mtime_ns)
            logger.info(f"data: {newest}, the newest that {scheme} can read {how}")
            return self._existing(newest, manifest)
        defaults = default_tasks(only_ordered=order is not None)
        task = next((task for kind, task in defaults.items() if _readable(scheme, example(kind), structure)), None)
        if task is None:
            raise DataError(
                f"no dataset in {root} has such positions",
                got=f"scheme {scheme}"
                + (f", structure {structure.expression}" if structure else "")
                + (f", order {order}" if order else ""),
                allowed="tree(k), grid(n) or cyclic(n) if the data has it; seq or cyclic(n) along its linearisation",
                fix="generate one: `ape gen tree-rotate --branching 3`, `ape gen ring-shift --ring 6`, …",
            )
        preset = options.preset
        logger.info(f"no dataset in {root} that {scheme} can read: taking {task} at the sizes of preset {preset} {how}")
        return self._of_task(ExperimentSpec(preset=preset, scheme=scheme, task=task, order=order))

    def _manifests(self) -> Iterator[tuple[StoragePath, Manifest]]:
        """The manifests in `root`, by the names of their folders. Logs a warning about each that cannot be read."""
        paths = list[StoragePath](self.root.glob("*/manifest.json"))
        for path in sorted(paths, key=lambda path: path.parent.name):
            try:
                yield path, read_manifest(path.parent)
            except DataError as error:
                logger.warning(f"left out: {path.parent.name}: {error.summary}")

    def _existing(self, folder: StoragePath, manifest: Manifest, made_by: BaseTask | None = None) -> ChosenDataset:
        """The dataset of a manifest, some of whose shards may be missing."""
        missing = bool(missing_shards(folder, manifest))
        chosen = self._chosen_as(folder, manifest.plan, manifest, manifest.fingerprint, missing, made_by)
        return chosen if missing else replace(chosen, manifest=manifest)

    def _chosen_as(
        self,
        folder: StoragePath,
        plan: DatasetPlan,
        means: Manifest | Trained | BaseTask,
        fingerprint: str,
        missing: bool,
        made_by: BaseTask | None = None,
    ) -> ChosenDataset:
        """A dataset, whose mean sizes are those of `means`."""
        return ChosenDataset(
            folder=folder,
            plan=plan,
            mean_size=means.mean_size,
            mean_tokens=means.mean_tokens,
            fingerprint=fingerprint,
            missing=missing,
            made_by=made_by,
            sizes=self.recorded.sizes(fingerprint),
        )


def preset_dataset(task: str, order: str | None, preset: str, root: StoragePath) -> Dataset:
    """Open a task's dataset at the sizes of a preset. It is generated if it is missing."""
    options = ExperimentSpec(preset=preset, scheme="none", task=task, order=order)
    return generated(Datasets(root).of(options))


def note_unused(options: ExperimentSpec, folder: StoragePath) -> None:
    """Log a note if `ape gen` wrote a dataset of the task beside the `folder` that this experiment uses."""
    if options.task is None or options.data is not None or tasks.load(options.task).fixed_rows:
        return
    existing = folder.with_name(folder.name.removesuffix(f"-{options.preset}"))
    if manifest_path(existing).exists():
        logger.info(f"data: {folder}, at the sizes of preset {options.preset}; the existing {existing} is not used")
        logger.info(f"to train on the existing dataset, use `data={existing}` in place of `task`")


def _recorded_plan(record: Trained, folder: StoragePath) -> tuple[BaseTask, DatasetPlan]:
    """The task and the plan of a recorded dataset. Raises `DataError` if it cannot be generated again."""
    try:
        task = tasks.recorded(record.task, record.order, record.parameters)
        return task, generation.plan(task, seed=record.seed, rows=record.rows, shard_rows=ROW_GROUP)
    except ApeError as error:  # it was made of the user's own files, or of a task that is not known here
        raise DataError(
            "the dataset is missing and cannot be generated again",
            got=f"{folder}: {error.what}",
            fix="generate it with its own options, and name it with `data`",
        ) from error


def default_tasks(only_ordered: bool) -> dict[str, str]:
    """The task that each kind of structure is trained on by default, in the order in which they are tried.

    Tasks declare this (`BaseTask.default_for`). With `only_ordered`, tasks without linearisations are left out.
    """
    by_kind: dict[str, str] = {}
    for name in tasks.names():
        with suppress(ApeError):  # a plug-in's file may be broken
            task = tasks.load(name)
            if task.default_for and (task.ordered or not only_ordered):
                by_kind.setdefault(task.default_for, name)
    return {kind: by_kind[kind] for kind in dict.fromkeys([*_PREFERRED, *by_kind]) if kind in by_kind}


def _readable(scheme: str, data: Structure, chosen: Structure | None) -> bool:
    """Whether a scheme can read data of structure `data`, as structure `chosen` if that is given."""
    with suppress(UnreadableError):
        return bool(reading(scheme, data, chosen))
    return False

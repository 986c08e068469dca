"""A trial: from a configuration and a dataset to a run that is trained, evaluated and registered.

What `ape train` does, and what a sweep does many times: find or generate the data, train or resume or
find that it is done, evaluate on the test split.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ape_cli import position, tasks
from ape_cli.core.errors import BusyError, DataError, RunError, UsageError
from ape_cli.data import generation, manifest
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.data.staging import DatasetTask
from ape_cli.evaluation import evaluate
from ape_cli.models import factory
from ape_cli.models.device import describe, processor
from ape_cli.runs import config
from ape_cli.runs.config import Config
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.storage.parquet import ROW_GROUP
from ape_cli.storage.paths import StoragePath
from ape_cli.structure import Structure, example, linearisation, parse_structure
from ape_cli.tasks import _images
from ape_cli.training.execution import Execution, ExistingRun
from ape_cli.training.loggers import LoggedRun, opened
from ape_cli.training.loop import Loop, Stopped
from ape_cli.training.process_group import Gone, ProcessGroup

logger = logging.getLogger(__name__)
_DATA_SEED = 42
_DEFAULT_TASK = {  # where a scheme has no data at all: of the first kind of structure that it reads
    "seq": "reverse",
    "tree(k)": "tree-rotate",
    "grid(n)": "grid-rotate",
    "cyclic(n)": "ring-shift",
}


@dataclass(frozen=True)
class Trial:
    """What came of it."""

    run: Run
    trained: bool  # now, not before
    evaluation: dict[str, Any] | None


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


def run_trial(
    config: Config,
    data: Dataset,
    registry: Registry,
    execution: Execution,
    *,
    existing: ExistingRun = ExistingRun.REFUSE,
    test: bool = True,
) -> Trial:
    """Train a run unless it is finished, and evaluate it on the test split unless that is done or `test` is False.

    All ranks of a process group train. The first rank alone reads and writes the registry, and evaluates.

    Raises:
        RunError: The run is unfinished, and `existing` does not resume or overwrite it; or training failed.
        UsageError: There is no run to resume.
        BusyError: Another process trains the run.
        Stopped: `execution.stop` was true; the state is stored.
    """
    config = factory.settle(config, data)
    run, group = registry.place(config, data), execution.group
    status = group.tell(lambda: None if existing is ExistingRun.OVERWRITE else _status(run))
    _check_existing(run, status, existing)
    if status == "finished":
        logger.info(f"{run.name} is trained already (--overwrite trains it again)")
    elif group.first:
        with run.writing():
            if existing is not ExistingRun.OVERWRITE:
                _check_unchanged(run, status)
            _train(run, config, data, registry, status is None, execution)
    else:
        with group.together(execution.device):
            Loop(config, data, None, execution).run()
    evaluation = _evaluated(run, data, execution) if test and group.first else None
    return Trial(run, status != "finished", evaluation)


def _check_existing(run: Run, status: str | None, existing: ExistingRun) -> None:
    """Check that `existing` allows to train a run of this status, which is None where there is no run."""
    if existing is ExistingRun.RESUME and status is None:
        raise UsageError("there is no such run to resume", got=run.name, fix="leave --resume out to begin it")
    if existing is not ExistingRun.REFUSE:
        return
    if status == "failed":
        raise RunError("this run failed", got=run.name, fix="--overwrite begins again; other settings are another run")
    if status == "stopped":
        raise RunError(
            "this run was begun and did not finish",
            got=f"{run.name}: {status}",
            fix="--resume goes on with it, --overwrite begins again",
        )


def _evaluated(run: Run, data: Dataset, execution: Execution) -> dict[str, Any] | None:
    """On the test split, if it has rows; now, unless that was done before."""
    if not data.manifest.plan.rows["test"]:
        logger.info(f"{data.name} has no test rows: nothing to evaluate")
        return None
    found = run.evaluation(evaluate.name_of(data, "test", "teacher"))
    if found is None:
        found = evaluate.evaluate(
            run, data, split="test", decode="teacher", device=execution.device, stop=execution.stop
        )
    return found


def _status(run: Run) -> str | None:
    """None where there is no run, or only what a start that was cut short has left; `BusyError` while it is trained."""
    if not (run.folder / "run.json").exists():
        return None
    status = run.status
    return run.settled() if status == "running" else status


def _check_unchanged(run: Run, status: str | None) -> None:
    """That nobody has written the run between the look at it and the lock; else a `BusyError`."""
    now = str(run.read()["status"]) if (run.folder / "run.json").exists() else None
    if ("stopped" if now == "running" else now) != status:
        raise BusyError("another process has trained this run meanwhile", got=f"{run.name}: {now}", fix="try again")


def _train(
    run: Run,
    config: Config,
    data: Dataset,
    registry: Registry,
    new: bool,
    execution: Execution,
) -> None:
    if new:
        run.clear()
    registered, group = False, execution.group
    try:
        with group.together(execution.device):
            # whatever is wrong with the configuration or the stored state shows here, before a run is registered
            loop = Loop(config, data, run, execution)
            if new:
                device = describe(execution.device)
                registry.begin(run, config, data, device, factory.variant(config, data), group.size)
            else:
                _note_ranks(run, config, group)
                run.resume(group.size, processor())
            registered = True
            _note_training(run, config, loop, execution)
            with opened(execution.loggers, _logged(run, config, loop)) as loggers:
                result = loop.run(loggers)
    except BaseException as error:
        if registered:
            resumable = isinstance(error, Stopped | Gone | KeyboardInterrupt)
            run.update(status="stopped" if resumable else "failed")
        elif new:
            run.forget()
        raise
    run.finish(result)


def _logged(run: Run, config: Config, loop: Loop) -> LoggedRun:
    return LoggedRun(run.name, config, run.logs, loop.setup.steps, tuple(loop.at.history), loop.at.step)


def _note_training(run: Run, config: Config, loop: Loop, execution: Execution) -> None:
    beyond = position.load(config.scheme).beyond
    if beyond:
        logger.info(f"{config.scheme} is sized at {config.max_size}: {beyond} (--set max_size=… sizes it otherwise)")
    device, processes = execution.device, execution.group.size
    where = f"on {device}" if processes == 1 else f"in {processes} processes on {device.type}"
    amount = f"{loop.setup.steps:,} steps of {config.batch_size} rows, {loop.setup.epochs:.3g} epochs"
    logger.info(f"training {run.name}: {amount}, {where}")


def _note_ranks(run: Run, config: Config, group: ProcessGroup) -> None:
    before = run.read().get("processes", 1)
    if before != group.size:
        same = "the same batches" + (", other masks of dropout" if config.dropout else "")
        processes = f"{before} process{'' if before == 1 else 'es'}"
        logger.info(f"trained in {processes} so far, in {group.size} from here on: {same}")

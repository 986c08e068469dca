"""A trial: from a configuration and a dataset to a run that is trained, evaluated and registered.

What `ape train` does, and what a sweep does many times: find or generate the data, train or resume or
find that it is done, evaluate on the test split.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ape_cli import position, structure, tasks
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
from ape_cli.structure import linearisation
from ape_cli.tasks import _images
from ape_cli.training.loop import Loop, Stopped
from ape_cli.training.meter import Progress
from ape_cli.training.process_group import SINGLE_PROCESS, Gone, ProcessGroup

Note = Callable[[str], None]
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


def preset_dataset(task: str, order: str | None, preset: str, root: StoragePath, note: Note) -> Dataset:
    """A task's dataset at a preset's own sizes; generated if it is missing."""
    made, wanted, folder = preset_plan(task, order, preset, root)
    outcome = generation.generate(made, wanted, folder)
    if outcome.written:
        note(f"generated {folder} ({outcome.written:,} rows)")
    return open_dataset(folder)


def note_unused(task: str, order: str | None, preset: str, root: StoragePath, note: Note) -> None:
    """Say so where `root` has a dataset that `ape gen` made of the task, as `preset_dataset` does not use it."""
    if kind_of(task) == "image":  # of images there is one dataset
        return
    made, _, folder = preset_plan(task, order, preset, root)
    existing = root / made.title
    if manifest.manifest_path(existing).exists():
        note(f"data: {folder}, at the sizes of preset {preset}; the existing {existing} is not used")
        note(f"to train on the existing dataset: --data {existing} in place of --task")


Choice = tuple[str, Callable[[], Dataset]]  # the kind of some data, and how to have it


def choose_dataset(
    scheme: str, wanted: str | None, order: str | None, preset: str, root: StoragePath, note: Note
) -> Choice:
    """The newest dataset in `root` that the scheme can read, or its default one at the preset's sizes."""
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
        note(f"data: {newest}, the newest that {scheme} can read {how}")
        return given_dataset(newest)
    kinds = [k for k in _DEFAULT_TASK if order is None or k == "tree(k)"]  # an order is of trees
    kinds = [k for k in kinds if _readable(scheme, structure.example(k).expression, wanted)]
    if not kinds:
        raise DataError(
            f"no dataset in {root} has such positions",
            got=f"scheme {scheme}"
            + (f", structure {wanted}" if wanted else "")
            + (f", order {order}" if order else ""),
            allowed="tree(k), grid(n) and cyclic(n) as the data has them; seq and cyclic(n) along its linearisation",
            fix="generate one: `ape gen tree-rotate --branching 3`, `ape gen ring-shift --ring 6`, …",
        )
    task = _DEFAULT_TASK[kinds[0]]
    note(f"no dataset in {root} that {scheme} can read: taking {task} at the sizes of preset {preset} {how}")
    return kind_of(task), partial(preset_dataset, task, order, preset, root, note)


def given_dataset(folder: StoragePath) -> Choice:
    """The dataset in a folder."""
    plan = manifest.read_manifest(folder).plan
    return kind_of(plan.task), partial(open_dataset, folder)


def _readable(scheme: str, own: str, wanted: str | None) -> bool:
    try:
        return bool(factory.reading(scheme, own, wanted))
    except DataError:
        return False


def run_trial(
    config: Config,
    data: Dataset,
    registry: Registry,
    *,
    device: torch.device,
    compiled: bool = False,
    resume: bool | None = False,
    overwrite: bool = False,
    test: bool = True,
    note: Note = lambda line: None,
    watch: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    world: ProcessGroup = SINGLE_PROCESS,
) -> Trial:
    """Train, unless it is done; evaluate on the test split, unless that is done or not wanted.

    Of several ranks all train; the first alone has to do with the registry, and evaluates when the others have left.
    `compiled`: by torch.compile, which changes no result. `resume`: go on with a run that was stopped; None: go on
    with one that was stopped or failed, and begin where there is none. `overwrite`: forget what there is and begin.
    Raises `RunError` where a begun run is met and neither is said; `train.Stopped` when told to stop.
    """
    config = factory.settle(config, data)
    run = registry.place(config, data)
    status = world.tell(lambda: None if overwrite else _status(run))
    if status == "failed" and resume is False:
        raise RunError("this run failed", got=run.name, fix="--overwrite begins again; other settings are another run")
    if status == "stopped" and resume is False:
        raise RunError(
            "this run was begun and did not finish",
            got=f"{run.name}: {status}",
            fix="--resume goes on with it, --overwrite begins again",
        )
    if status is None and resume:
        raise UsageError("there is no such run to resume", got=run.name, fix="leave --resume out to begin it")
    if status == "finished":
        note(f"{run.name} is trained already (--overwrite trains it again)")
    else:

        def make(store: Run | None) -> Loop:
            return Loop(config, data, store, device=device, compiled=compiled, watch=watch, stop=stop, world=world)

        if world.first:
            with run.writing():
                if not overwrite:
                    _check_unchanged(run, status)
                _train(run, config, data, registry, status is None, device, world, make, note)
        else:
            with world.together(device):
                make(None).run()
    evaluation = _evaluated(run, data, device, note, stop) if test and world.first else None
    return Trial(run, status != "finished", evaluation)


def _evaluated(
    run: Run, data: Dataset, device: torch.device, note: Note, stop: Callable[[], bool]
) -> dict[str, Any] | None:
    """On the test split, if it has rows; now, unless that was done before."""
    if not data.manifest.plan.rows["test"]:
        note(f"{data.name} has no test rows: nothing to evaluate")
        return None
    found = run.evaluation(evaluate.name_of(data, "test", "teacher"))
    if found is None:
        found = evaluate.evaluate(run, data, split="test", decode="teacher", device=device, stop=stop)
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
    device: torch.device,
    world: ProcessGroup,
    make: Callable[[Run], Loop],
    note: Note,
) -> None:
    if new:
        run.clear()
    registered = False
    try:
        with world.together(device):
            # whatever is wrong with the configuration or the stored state shows here, before a run is registered
            loop = make(run)
            if new:
                registry.begin(run, config, data, describe(device), factory.variant(config, data), world.size)
            else:
                _note_ranks(run, config, world, note)
                run.resume(world.size, processor())
            registered = True
            _note_training(run, config, loop, device, world, note)
            result = loop.run()
    except BaseException as error:
        if registered:
            resumable = isinstance(error, Stopped | Gone | KeyboardInterrupt)
            run.update(status="stopped" if resumable else "failed")
        elif new:
            run.forget()
        raise
    run.finish(result)


def _note_training(run: Run, config: Config, loop: Loop, device: torch.device, world: ProcessGroup, note: Note) -> None:
    beyond = position.load(config.scheme).beyond
    if beyond:
        note(f"{config.scheme} is sized at {config.max_size}: {beyond} (--set max_size=… sizes it otherwise)")
    where = f"on {device}" if world.size == 1 else f"in {world.size} processes on {device.type}"
    note(f"training {run.name}: {loop.steps:,} steps of {config.batch_size} rows, {loop.epochs:.3g} epochs, {where}")


def _note_ranks(run: Run, config: Config, world: ProcessGroup, note: Note) -> None:
    before = run.read().get("processes", 1)
    if before != world.size:
        same = "the same batches" + (", other masks of dropout" if config.dropout else "")
        note(f"trained in {before} process{'' if before == 1 else 'es'} so far, in {world.size} from here on: {same}")

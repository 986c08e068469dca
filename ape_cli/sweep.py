"""Sweeps: a grid of trials on an engine.

What is finished is found in the registry and skipped, what was stopped goes on, what failed is tried again, and
datasets that are missing are generated first. A trial that fails does not stop the others. Every trial is a run of the
registry, and the registry is the only memory: a sweep that was killed is given again, by the same command.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ape_cli import build, dataset, evaluate, files, schema, trial
from ape_cli import registry as registering
from ape_cli.config import Config
from ape_cli.engine import Job, Link
from ape_cli.errors import ApeError, BusyError, DataError
from ape_cli.grid import Point
from ape_cli.place import Place
from ape_cli.progress import Progress
from ape_cli.registry import Registry
from ape_cli.run import Run

_PATIENCE = 150.0  # seconds that a trial waits for a run that another process holds, which may be dying
_LOOK = 2.0  # seconds between two looks
_SHORT = 100.0  # seconds: a task of a cluster should not be shorter
_TELL = 1.0  # seconds between two lines of a trial's progress

Note = Callable[[str], None]


@dataclass(frozen=True)
class Data:
    """The dataset of a trial, there or not: `dataset.Facts`. Its fingerprint is "" where nobody knows it yet."""

    folder: Place
    task: str
    order: str | None
    structure: str
    mean_size: float
    mean_tokens: float
    fingerprint: str
    missing: bool


@dataclass(frozen=True)
class Item:
    """A trial of a sweep, and how it stands.

    `state`: `finished`; `new`; `stopped` and `failed`, which go on; `running`, by another process. `seconds`: as long
    as runs like it took; None where there are none.
    """

    config: Config
    data: Data
    run: Run | None
    state: str
    seconds: float | None = None

    @property
    def name(self) -> str:
        """The run's, or what is known of it."""
        parts = (self.data.task, self.data.order, self.config.scheme, str(self.config.seed))
        return self.run.name if self.run else "-".join(p for p in parts if p) + "-…"


@dataclass(frozen=True)
class Work:
    """What a worker has to know."""

    config: Config
    data: Place
    results: Place
    device: str
    compiled: bool


# The plan -----------------------------------------------------------------------------------------


def plan(
    points: Iterable[Point], registry: Registry, datasets: Place, named: Callable[[str], Place]
) -> tuple[list[Item], list[str]]:
    """The trials of a grid as they stand, each run once; and a line about each that makes no sense.

    `named`: from the name of a dataset to its folder. Nothing is generated: where a dataset is missing, its fingerprint
    is that of the runs that had it.
    """
    past = _Past(registry)
    found: dict[str, Item] = {}
    left: dict[str, None] = {}
    known: dict[Any, Data] = {}
    for point in points:
        place = (point.data, point.task, point.order, point.config.preset)
        if place not in known:
            known[place] = _standing(named(point.data)) if point.data else _of_task(point, datasets, past)
        try:
            item = _item(point.config, known[place], registry)
        except DataError as error:
            left[f"{point.config.scheme} on {known[place].folder.name}: {error.what} ({error.got})"] = None
            continue
        found.setdefault(item.run.name if item.run else repr(item), replace(item, seconds=past.seconds(item)))
    return list(found.values()), list(left)


def shard(items: list[Item], number: int, of: int) -> list[Item]:
    """Every `of`-th trial, from `number` = 1 on: each of `of` machines takes its own."""
    return items[number - 1 :: of]


def per_task(items: list[Item]) -> int:
    """How many trials make one task of a cluster: so many that it takes a minute or two, and no fewer than 16 tasks."""
    known = sorted(item.seconds for item in items if item.seconds is not None)
    usual = known[len(known) // 2] if known else _SHORT
    return max(1, min(int(_SHORT / max(usual, 1.0)), len(items) // 16))


def _item(config: Config, data: Data, registry: Registry) -> Item:
    settled = build.settle(config, data)
    if not data.fingerprint:
        return Item(settled, data, None, "new")
    run = registry.place(settled, data)
    state = run.status if (run.folder / "run.json").exists() else "new"
    if state == "finished" and run.evaluation(evaluate.name_of(data, "test", "teacher")) is None:
        state = "stopped"  # before it was evaluated
    return Item(settled, data, run, state)


def _standing(folder: Place) -> Data:
    manifest = schema.read_manifest(folder)
    own = manifest.plan
    return Data(
        *(folder, own.task, own.order, own.structure, manifest.mean_size, manifest.mean_tokens),
        *(manifest.fingerprint, False),
    )


def _of_task(point: Point, datasets: Place, past: _Past) -> Data:
    """A task's dataset at its preset's sizes. One of another plan in its place is an error when it is generated."""
    assert point.task is not None
    made, wanted, folder = trial.preset_plan(point.task, point.order, point.config.preset, datasets)
    if schema.manifest_path(folder).exists() and schema.read_manifest(folder).plan == wanted:
        return _standing(folder)
    size, tokens, fingerprint = made.mean_size, made.mean_tokens, past.fingerprint(wanted)
    return Data(folder, wanted.task, wanted.order, wanted.structure, size, tokens, fingerprint, True)


class _Past:
    """What the registered runs tell: how long they took, and the fingerprints of their data."""

    def __init__(self, registry: Registry) -> None:
        self.took: dict[Any, list[float]] = {}
        self.fingerprints: dict[str, str] = {}
        for _, about in registry.sound([]):
            data, config = about["dataset"], Config.model_validate(about["config"])
            self.fingerprints[_plan_key(data)] = data["fingerprint"]
            if about["status"] == "finished":
                for key in _alike(config, data["task"], data["order"]):
                    self.took.setdefault(key, []).append(about["result"]["seconds"])

    def seconds(self, item: Item) -> float | None:
        """The median of the runs most like it."""
        for key in _alike(item.config, item.data.task, item.data.order):
            if key in self.took:
                return sorted(self.took[key])[len(self.took[key]) // 2]
        return None

    def fingerprint(self, wanted: schema.Plan) -> str:
        return self.fingerprints.get(_plan_key(wanted.model_dump()), "")


def _plan_key(plan: dict[str, Any]) -> str:
    return repr([plan[key] for key in ("task", "order", "parameters", "seed", "rows")])


def _alike(config: Config, task: str, order: str | None) -> list[Any]:
    """What runs may have in common, the most telling first."""
    own = config.model_copy(update={"seed": 0})
    return [
        (own.digest(f"{task} {order}"), "configuration"),
        (config.preset, task, order, config.scheme),
        (config.preset, task, order),
        (config.preset,),
    ]


# The work -----------------------------------------------------------------------------------------


def prepare(items: list[Item], registry: Registry, datasets: Place, note: Note) -> list[Item]:
    """The trials with their datasets, of which those that are missing are generated.

    What another process generates is waited for. A trial is dropped if it turns out to be one of the others.
    """
    ready: dict[Place, Data] = {}
    found: dict[str, Item] = {}
    for item in items:
        data, now = item.data, item
        if data.missing and item.state != "finished":
            if data.folder not in ready:
                _generate(data, item.config.preset, datasets, note)
                ready[data.folder] = _standing(data.folder)
            now = replace(_item(item.config, ready[data.folder], registry), seconds=item.seconds)
        found.setdefault(now.name, now)
    return list(found.values())


def _generate(data: Data, preset: str, datasets: Place, note: Note) -> None:
    """A preset's dataset; where another process is at it, that is waited for."""
    told = False
    while True:
        try:
            trial.preset_dataset(data.task, data.order, preset, datasets, note)
            return
        except BusyError as error:
            if not told:
                note(f"waiting: {error.what} ({error.got})")
            told = True
            time.sleep(_LOOK)


def job(item: Item, registry: Registry, device: str, compiled: bool) -> Job:
    """A trial as an engine's job."""
    assert item.run is not None
    return Job(item.run.name, train_one, (Work(item.config, item.data.folder, registry.folder, device, compiled),))


def train_one(link: Link, work: Work) -> dict[str, Any]:
    """Train, resume or find one run, evaluated; `{"state": "finished" or "elsewhere", ...}`.

    What it notes goes into a log, which stays if it fails: `results/logs/RUN.log`.
    """
    data, registry = dataset.open(work.data), registering.open(work.results)
    run = registry.place(work.config, data)
    log, path = io.StringIO(), registry.folder / "logs" / f"{run.name}.log"
    try:
        with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            found = _train(link, work, data, registry, lambda line: print(line, file=log))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = str(error) if isinstance(error, ApeError) else f"{type(error).__name__}: {error}"
        files.write_text(path, f"{log.getvalue()}{text}\n")
        raise
    path.unlink(missing_ok=True)
    return found


def _train(link: Link, work: Work, data: dataset.Dataset, registry: Registry, note: Note) -> dict[str, Any]:
    import torch

    from ape_cli import train

    where = build.choose_device(work.device)
    if where.type == "cuda":
        torch.cuda.set_device(link.number % torch.cuda.device_count())
    run, since, told = registry.place(work.config, data), time.monotonic(), 0.0

    def watch(now: Progress) -> None:
        nonlocal told
        if time.monotonic() - told > _TELL:
            told = time.monotonic()
            link.tell({"step": now.step, "steps": now.steps, "accuracy": now.accuracy, "validation": now.validation})

    while True:
        begun = (run.folder / "run.json").exists() and run.status in ("stopped", "failed")
        try:
            done = trial.run_trial(
                *(work.config, data, registry),
                device=where,
                compiled=work.compiled,
                resume=begun,
                note=note,
                watch=watch,
                stop=link.stopping,
            )
        except BusyError:
            if time.monotonic() - since > _PATIENCE:
                return {"state": "elsewhere"}
            link.tell({"waiting": True})
            time.sleep(_LOOK)
        except train.Stopped:
            raise KeyboardInterrupt from None
        else:
            about = run.read()["result"]
            test = done.evaluation["overall"]["token_accuracy"] if done.evaluation else None
            return {"state": "finished", "trained": done.trained, "seconds": about["seconds"], "test": test}

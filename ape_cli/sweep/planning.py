"""What a sweep has to do: the trials of a grid as the registry and the datasets stand.

Looking changes nothing; `prepare` generates the datasets that are missing.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ape_cli.core.errors import BusyError, DataError, RunError
from ape_cli.data.facts import Facts
from ape_cli.data.loader import open_dataset
from ape_cli.data.manifest import DatasetPlan, manifest_path, read_manifest
from ape_cli.evaluation import evaluate
from ape_cli.models import factory
from ape_cli.runs import record
from ape_cli.runs.config import Config, read_config
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath
from ape_cli.sweep.specification import Point, SweepSpecification, points
from ape_cli.training import dataset_choice, schedule

_LOOK = 2.0  # seconds between two looks at what another process generates
_SHORT = 100.0  # seconds: a task of a cluster should not be shorter

logger = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class TrialDataset(Facts):
    """The dataset of a trial, which may not have been generated yet.

    `missing` says that it has to be generated, or that some of its shards are missing.
    """

    folder: StoragePath
    missing: bool

    @property
    def train_rows(self) -> int:
        return self.plan.rows["train"]

    @property
    def tested(self) -> bool:
        """Whether it has test rows."""
        return self.plan.rows["test"] > 0


@dataclass(frozen=True)
class PlannedTrial:
    """A trial of a sweep, and how it stands.

    `state`: `finished`; `new`; `stopped` and `failed`, which go on; `running`, by another process. `variant`: what it
    sets otherwise than its preset. `seconds`: an estimate from runs like it (`_Past`); None where there are none.
    """

    config: Config
    data: TrialDataset
    run: Run | None
    state: str
    variant: str = ""
    seconds: float | None = None

    @property
    def name(self) -> str:
        """The run's, or what is known of it."""
        parts = (self.data.task, self.data.order, self.config.scheme, str(self.config.seed))
        return self.run.name if self.run else "-".join(p for p in parts if p) + "-…"


def plan(
    trials: Iterable[Point], registry: Registry, datasets: StoragePath, named: Callable[[str], StoragePath]
) -> tuple[list[PlannedTrial], list[str]]:
    """The trials of a grid as they stand, each run once; and a line about each that makes no sense.

    `named`: from the name of a dataset to its folder. Nothing is generated: where a dataset is missing, its fingerprint
    is that of the runs that had it.
    """
    past = _Past(registry)
    found: dict[str, PlannedTrial] = {}
    left: dict[str, None] = {}
    known: dict[Any, TrialDataset] = {}
    for point in trials:
        place = (point.data, point.task, point.order, point.config.preset)
        if place not in known:
            known[place] = _of_task(point, datasets, past) if point.data is None else _given(named(point.data))
        try:
            item = _item(point.config, known[place], registry)
        except DataError as error:
            left[f"{point.config.scheme} on {known[place].folder.name}: {error.what} ({error.got})"] = None
            continue
        found.setdefault(item.run.name if item.run else repr(item), replace(item, seconds=past.seconds(item)))
    return list(found.values()), list(left)


def of_grids(
    grids: list[SweepSpecification],
    preset: str,
    registry: Registry,
    datasets: StoragePath,
    named: Callable[[str], StoragePath],
) -> tuple[list[PlannedTrial], list[str]]:
    """`plan` of all trials of some grids; `preset`: where one names none."""
    # one look at a dataset, however many trials it has
    kind = cache(lambda data: dataset_choice.given_dataset(named(data))[0])
    found = points(grids, preset, kind)
    return plan(found, registry, datasets, named)


def shard(items: list[PlannedTrial], number: int, of: int) -> list[PlannedTrial]:
    """Every `of`-th trial, from `number` = 1 on: each of `of` machines takes its own."""
    return items[number - 1 :: of]


def per_task(items: list[PlannedTrial]) -> int:
    """How many trials make one task of a cluster: so many that it takes a minute or two, and no fewer than 16 tasks."""
    known = [item.seconds for item in items if item.seconds is not None]
    usual = statistics.median_high(known) if known else _SHORT
    return max(1, min(int(_SHORT / max(usual, 1.0)), len(items) // 16))


def _item(config: Config, data: TrialDataset, registry: Registry) -> PlannedTrial:
    settled = factory.settle(config, data)
    variant = record.variant_text({"variant": factory.variant(settled, data)})
    if not data.fingerprint:
        return PlannedTrial(settled, data, None, "new", variant)
    run = registry.place(settled, data)
    return PlannedTrial(settled, data, run, _state(run, data), variant)


def _state(run: Run, data: TrialDataset) -> str:
    """As `Item` has it. What is damaged counts as failed: whoever trains it meets the damage, and says so."""
    try:
        state = run.status if (run.folder / "run.json").exists() else "new"
        done = not data.tested or run.evaluation(evaluate.name_of(data, "test", "teacher")) is not None
    except RunError:
        return "failed"
    return "stopped" if state == "finished" and not done else state  # before it was evaluated


def _standing(folder: StoragePath) -> TrialDataset:
    manifest = read_manifest(folder)
    there = {name for name, _ in files.entries(folder / "data")}
    missing = any(s.file.removeprefix("data/") not in there for shards in manifest.shards.values() for s in shards)
    return TrialDataset(
        folder=folder,
        plan=manifest.plan,
        mean_size=manifest.mean_size,
        mean_tokens=manifest.mean_tokens,
        fingerprint=manifest.fingerprint,
        missing=missing,
    )


def _given(folder: StoragePath) -> TrialDataset:
    """A dataset that is there. Raises `DataError` where some of it is missing: nobody knows how it was made."""
    found = _standing(folder)
    if found.missing:
        open_dataset(folder)
    return found


def _of_task(point: Point, datasets: StoragePath, past: _Past) -> TrialDataset:
    """A task's dataset at its preset's sizes. Raises `DataError` where another one is in its place."""
    assert point.task is not None
    made, wanted, folder = dataset_choice.preset_plan(point.task, point.order, point.config.preset, datasets)
    if manifest_path(folder).exists():
        if read_manifest(folder).plan != wanted:
            raise DataError(
                f"{folder} holds another dataset than that of preset {point.config.preset}",
                got="another plan in its manifest.json",
                allowed=f"what `ape train --task {point.task} --preset {point.config.preset}` generates",
                fix="move it away, name another folder with --datasets, or name it with --data",
            )
        return _standing(folder)
    return TrialDataset(
        folder=folder,
        plan=wanted,
        mean_size=made.mean_size,
        mean_tokens=made.mean_tokens,
        fingerprint=past.fingerprint(wanted),
        missing=True,
    )


class _Past:
    """What the registered runs tell: how fast they were, and the fingerprints of their data.

    An estimate is the pace of similar runs times the work of a trial. Work is steps x batch size x mean tokens of a
    source. This neglects what a step costs whatever its batch, and that attention grows with the square of the tokens.
    Time does not grow in proportion to the width or the depth of a model, so only runs of the same model are similar.
    """

    def __init__(self, registry: Registry) -> None:
        self.paces: dict[Any, list[float]] = {}  # seconds for each step, row and token
        self.fingerprints: dict[str, str] = {}
        for _, about in registry.sound([]):
            data, config = about["dataset"], read_config(about["config"])
            self.fingerprints[_plan_key(data, data["order"])] = data["fingerprint"]
            if about["status"] == "finished":
                result = about["result"]
                work = result["steps"] * config.batch_size * data.get("mean_tokens", 0)
                for key in _alike(config, data["task"], data["order"]) if work else ():
                    self.paces.setdefault(key, []).append(result["seconds"] / work)

    def seconds(self, item: PlannedTrial) -> float | None:
        """How long a trial takes at the median pace of the runs most like it; None where no run has its model."""
        config, data = item.config, item.data
        steps = schedule.steps_of(config, -(-data.train_rows // config.batch_size))
        for key in _alike(config, data.task, data.order):
            if key in self.paces:
                return statistics.median_high(self.paces[key]) * steps * config.batch_size * data.mean_tokens
        return None

    def fingerprint(self, wanted: DatasetPlan) -> str:
        return self.fingerprints.get(_plan_key(wanted.model_dump(), wanted.linearisation), "")


def _plan_key(plan: dict[str, Any], order: str | None) -> str:
    """What a dataset is made of; `order` is the name of its linearisation."""
    return repr([order, *(plan[key] for key in ("task", "parameters", "seed", "rows"))])


_SCALED = {"seed": 0, "steps": None, "epochs": None, "batch_size": 1}  # what an estimate allows for, or does not need
_MODEL = ["d_model", "d_ff", "heads", "encoder_layers", "decoder_layers", "precision"]
_MODEL += ["convolution_size", "convolution_stride", "pool_size", "pool_stride"]  # of images


def _alike(config: Config, task: str, order: str | None) -> list[Any]:
    """What similar runs have in common, the most telling first; the model in any case."""
    own = config.model_copy(update=_SCALED).digest(f"{task} {order}")
    model = (config.kind, *(getattr(config, name, None) for name in _MODEL))
    return [
        (own, "configuration"),
        (model, task, order, config.scheme, config.structure, config.attention),
        (model, task, order),
        (model,),
    ]


def prepare(items: list[PlannedTrial], registry: Registry, datasets: StoragePath) -> list[PlannedTrial]:
    """The trials with their datasets, of which those that are missing are generated.

    What another process generates is waited for. A trial is dropped if it turns out to be one of the others.
    """
    ready: dict[StoragePath, TrialDataset] = {}
    found: dict[str, PlannedTrial] = {}
    for item in items:
        data, now = item.data, item
        if data.missing and item.state != "finished":
            if data.folder not in ready:
                _generate(data, item.config.preset, datasets)
                ready[data.folder] = _standing(data.folder)
            now = replace(_item(item.config, ready[data.folder], registry), seconds=item.seconds)
        found.setdefault(now.name, now)
    return list(found.values())


def _generate(data: TrialDataset, preset: str, datasets: StoragePath) -> None:
    """A preset's dataset; where another process is at it, that is waited for."""
    told = False
    while True:
        try:
            dataset_choice.preset_dataset(data.task, data.order, preset, datasets)
            return
        except BusyError as error:
            if not told:
                logger.info(f"waiting: {error.what} ({error.got})")
            told = True
            time.sleep(_LOOK)

"""The trials of a sweep: every combination of the values of its grids, in groups of which each is tuned."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ape_cli import tasks
from ape_cli.core.errors import UsageError
from ape_cli.experiment import ExperimentOptions
from ape_cli.runs import config
from ape_cli.storage.paths import StoragePath, storage_path
from ape_cli.sweep.specification import SweepSpecification
from ape_cli.sweep.tuned import TuneSpecification, default_setting, settings_of

_MOST_TRIALS = 10_000


@dataclass(frozen=True)
class TrialGroup:
    """Trials that differ only in their seeds and in the tuned settings. Without tuning, there is a single setting, {}.

    `seeds` are those of all settings. `later` are the seeds of the setting that is chosen, if these are others.
    """

    base: ExperimentOptions
    settings: list[dict[str, Any]]
    seeds: list[int]
    later: list[int]
    of_grid: list[int]  # the seeds that the grid asks for

    @property
    def tuned(self) -> bool:
        """Whether a setting is chosen."""
        return self.settings != [{}]

    def point(self, setting: dict[str, Any], seed: int) -> ExperimentOptions:
        """One trial."""
        return replace(self.base, seed=seed, settings={**self.base.settings, **setting})


def groups(
    grids: list[SweepSpecification], preset: str, folder: Callable[[str], StoragePath] = storage_path
) -> list[TrialGroup]:
    """The groups of trials of all grids.

    `preset` is for grids that name none. `folder` maps the name of an existing dataset to its folder. Raises
    `UsageError` for orders without a task that has one, for too many trials, and for what cannot be tuned.
    """
    ordered = [grid for grid in grids if "orders" in grid.model_fields_set]
    if ordered and not any(tasks.load(task).ordered for grid in ordered for task in grid.tasks):
        got = f"orders {', '.join(ordered[0].orders)}"
        raise UsageError("no task of the sweep has an order", got=got, fix="leave it out")
    found: list[TrialGroup] = []
    bases_of = [_few(_bases(grid, preset, folder)) for grid in grids]
    for grid, bases in zip(grids, bases_of, strict=True):
        alike = [base for other, of in zip(grids, bases_of, strict=True) if other.tune == grid.tune for base in of]
        settings = settings_of(grid.tune, _defaults(grid.tune, alike)) if grid.tune else [{}]
        every = [*dict.fromkeys(grid.seeds)]
        seeds = [*dict.fromkeys(grid.tune.seeds)] if grid.tune and grid.tune.seeds else every
        if foreign := [seed for seed in seeds if seed not in every]:
            fix = "tune with some of the seeds of the grid"
            got = ", ".join(map(str, foreign))
            raise UsageError("seeds of [tune] are not among `seeds`", got=got, allowed=str(every), fix=fix)
        later = [seed for seed in every if seed not in seeds]
        found += [TrialGroup(base, settings, seeds, later, every) for base in bases]
    return found


def first_stage(found: list[TrialGroup]) -> list[ExperimentOptions]:
    """The trials of groups, without those of settings that have to be chosen first.

    Those of the first seed come first, so that an interrupted sweep leaves complete tables. Raises `UsageError` if
    there are too many.
    """
    with_seeds = [(group, set(group.seeds)) for group in found]
    trials = (
        group.point(setting, seed)
        for seed in dict.fromkeys(seed for group in found for seed in group.seeds)
        for group, seeds in with_seeds
        if seed in seeds
        for setting in group.settings
    )
    return list({repr(point): point for point in _few(trials)}.values())


def _few(trials: Iterator[ExperimentOptions]) -> list[ExperimentOptions]:
    """A list of trials. Raises `UsageError` if there are too many."""
    first = list(itertools.islice(trials, _MOST_TRIALS + 1))
    if len(first) > _MOST_TRIALS:
        raise UsageError("too many trials", allowed=f"{_MOST_TRIALS:,}", fix="split it into several sweeps")
    return first


def _defaults(tune: TuneSpecification, bases: list[ExperimentOptions]) -> list[dict[str, Any]]:
    """The default settings of all trials of a grid. Nothing is known about the kind of data of existing datasets."""
    found: dict[str, dict[str, Any]] = {}
    for base in bases:
        for kind in ("sequence", "image") if base.task is None else (tasks.load(base.task).modality,):
            with suppress(UsageError):  # what is not valid is reported when it is planned
                setting = default_setting(base, kind, tune.set)
                found[repr(setting)] = setting
    return list(found.values())


def _bases(grid: SweepSpecification, preset: str, folder: Callable[[str], StoragePath]) -> Iterator[ExperimentOptions]:
    """All trials of one grid without seeds and tuned settings. Raises `UsageError` if a setting has no values."""
    places: list[dict[str, Any]] = [{"data": folder(data)} for data in grid.data]
    named = preset if grid.preset is None else grid.preset
    linearised = [config.preset(named).linearisation(order) for order in grid.orders]  # several may be the same
    for task in grid.tasks:
        orders: list[str | None] = [*dict.fromkeys(linearised)] if tasks.load(task).ordered else [None]
        places += [{"task": task, "order": order} for order in orders]
    lists = [value if isinstance(value, list) else [value] for value in grid.set.values()]
    if not all(lists):
        raise UsageError("a setting has no values", got=str(grid.set), fix="leave it out, or give one")
    structures: list[str | None] = [*grid.structures] or [None]
    for place, scheme, structure, attention, positions, model, *values in itertools.product(
        places, grid.schemes, structures, grid.attentions, grid.positions, grid.models, *lists
    ):
        yield ExperimentOptions(
            preset=named,
            scheme=scheme,
            structure=structure,
            attention=attention,
            positions=positions,
            model=model,
            precision=grid.precision,
            settings=dict(zip(grid.set, values, strict=True)),
            sizes=grid.sizes_text if "task" in place else None,
            tests=grid.tests(),
            **place,
        )

"""The trials of a sweep: every combination of the values of its grids, in groups of which each is tuned.

The settings that are tried are all combinations of the tuned values, or a subset. It is the same for all schemes, tasks
and machines, and has the default setting of each scheme, if that is a combination of the values, so that the effect of
tuning can be measured.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ape_cli.core import rng
from ape_cli.core.errors import UsageError, brief
from ape_cli.experiment import ExperimentSpec
from ape_cli.experiment.choice import linearisations
from ape_cli.experiment.resolution import default_settings
from ape_cli.storage.paths import StoragePath, storage_path
from ape_cli.sweep.specification import SweepSpec, TuneSpec

_MOST_TRIALS = 10_000
_MOST_COMBINATIONS = 10_000
_SEED = 0  # of the subset of the combinations


@dataclass(frozen=True)
class TrialGroup:
    """Trials that differ only in their seeds and in the tuned settings. Without tuning, there is a single setting, {}.

    `seeds` are those of all settings. `later` are the seeds of the setting that is chosen, if these are others.
    """

    base: ExperimentSpec
    settings: list[dict[str, Any]]
    seeds: list[int]
    later: list[int]
    of_grid: list[int]  # the seeds that the grid asks for

    @property
    def tuned(self) -> bool:
        """Whether a setting is chosen."""
        return self.settings != [{}]

    def point(self, setting: dict[str, Any], seed: int) -> ExperimentSpec:
        """One trial."""
        return self.base.model_copy(update={"seed": seed, "settings": {**self.base.settings, **setting}})


def groups(
    grids: list[SweepSpec], preset: str, folder: Callable[[str], StoragePath] = storage_path
) -> list[TrialGroup]:
    """The groups of trials of all grids.

    `preset` is for grids that name none. `folder` maps the name of an existing dataset to its folder. Raises
    `UsageError` for orders without a task that has one, for too many trials, and for what cannot be tuned.
    """
    ordered = [grid for grid in grids if "orders" in grid.model_fields_set]
    written = [linearisations(task, grid.orders, grid.preset or preset) for grid in ordered for task in grid.tasks]
    if ordered and all(orders == [None] for orders in written):
        got = f"orders {', '.join(ordered[0].orders)}"
        raise UsageError("no task of the sweep has an order", got=got, fix="leave it out")
    all_groups: list[TrialGroup] = []
    bases_of = [_few(_bases(grid, preset, folder)) for grid in grids]
    for grid, bases in zip(grids, bases_of, strict=True):
        alike = [base for other, of in zip(grids, bases_of, strict=True) if other.tune == grid.tune for base in of]
        settings = settings_of(grid.tune, alike) if grid.tune else [{}]
        every = [*dict.fromkeys(grid.seeds)]
        seeds = [*dict.fromkeys(grid.tune.seeds)] if grid.tune and grid.tune.seeds else every
        if foreign := [seed for seed in seeds if seed not in every]:
            fix = "tune with some of the seeds of the grid"
            got = ", ".join(map(str, foreign))
            raise UsageError("seeds of [tune] are not among `seeds`", got=got, allowed=str(every), fix=fix)
        later = [seed for seed in every if seed not in seeds]
        all_groups += [TrialGroup(base, settings, seeds, later, every) for base in bases]
    return all_groups


def first_stage(all_groups: list[TrialGroup]) -> list[ExperimentSpec]:
    """The trials of groups, without those of settings that have to be chosen first.

    Those of the first seed come first, so that an interrupted sweep leaves complete tables. Raises `UsageError` if
    there are too many.
    """
    with_seeds = [(group, set(group.seeds)) for group in all_groups]
    trials = (
        group.point(setting, seed)
        for seed in dict.fromkeys(seed for group in all_groups for seed in group.seeds)
        for group, seeds in with_seeds
        if seed in seeds
        for setting in group.settings
    )
    return list({repr(point): point for point in _few(trials)}.values())


def _few(trials: Iterator[ExperimentSpec]) -> list[ExperimentSpec]:
    """A list of trials. Raises `UsageError` if there are too many."""
    first = list(itertools.islice(trials, _MOST_TRIALS + 1))
    if len(first) > _MOST_TRIALS:
        raise UsageError("too many trials", allowed=f"{_MOST_TRIALS:,}", fix="split it into several sweeps")
    return first


def _bases(grid: SweepSpec, preset: str, folder: Callable[[str], StoragePath]) -> Iterator[ExperimentSpec]:
    """All trials of one grid without seeds and tuned settings. Raises `UsageError` if a setting has no values."""
    named = preset if grid.preset is None else grid.preset
    datasets: list[dict[str, Any]] = [{"data": folder(data)} for data in grid.data]
    for task in grid.tasks:
        orders = linearisations(task, grid.orders, named)
        datasets += [{"task": task, "order": order, "sizes": grid.sizes, "rows": grid.rows} for order in orders]
    lists = [value if isinstance(value, list) else [value] for value in grid.settings.values()]
    if [] in lists:
        got = brief(grid.settings)
        raise UsageError("a setting has no values", got=got, fix="leave it out, or give one")
    structures: list[str | None] = [*grid.structures] or [None]
    for dataset, scheme, structure, attention_type, positions, model, *values in itertools.product(
        datasets, grid.schemes, structures, grid.attentions, grid.positions, grid.models, *lists
    ):
        yield ExperimentSpec(
            preset=named,
            scheme=scheme,
            structure=structure,
            attention=attention_type,
            positions=positions,
            model=model,
            precision=grid.precision,
            set=dict(zip(grid.settings, values, strict=True)),
            generalise=grid.generalise,
            decode=grid.decode,
            **dataset,
        )


def settings_of(tune: TuneSpec, bases: Iterable[ExperimentSpec]) -> list[dict[str, Any]]:
    """The settings that are tried, in the order of the combinations. A subset has the default settings of all `bases`.

    Raises `UsageError` if a value is repeated, if there are too many combinations, or if the number of trials does not
    fit them.
    """
    for key, values in tune.settings.items():
        if any(value in values[:index] for index, value in enumerate(values)):
            raise UsageError(f"a value of {key} is listed twice under `tune`", got=str(values), fix="write it once")
    count = math.prod(map(len, tune.settings.values()))
    if count > _MOST_COMBINATIONS:
        allowed = f"{_MOST_COMBINATIONS:,} combinations of values"
        raise UsageError(
            "too many values to tune", got=f"{count:,} combinations", allowed=allowed, fix="leave some out"
        )
    every = [dict(zip(tune.settings, values, strict=True)) for values in itertools.product(*tune.settings.values())]
    if tune.trials is None:
        return every
    if tune.trials > count:
        what = "there are more trials than combinations of the tuned values"
        raise UsageError(what, got=f"trials {tune.trials}", allowed=f"1 to {count}", fix="leave `trials` out")
    kept: set[int] = set()
    if tune.trials < count:
        defaults = [
            {key: setting[key] for key in tune.settings if setting.get(key) is not None}
            for base in bases
            for setting in default_settings(base)
        ]
        kept = {index for index, setting in enumerate(every) if setting in defaults}
    if len(kept) > tune.trials:
        what = "there are fewer trials than default settings of the schemes"
        fix = f"`trials={len(kept)}`, or tune these schemes in separate sweeps"
        raise UsageError(what, got=f"trials {tune.trials}, {len(kept)} default settings", fix=fix)
    shuffled = np.argsort(rng.rows(_SEED, "tune", np.arange(count)), kind="stable").tolist()
    others = [index for index in shuffled if index not in kept]
    return [every[index] for index in sorted([*kept, *others[: tune.trials - len(kept)]])]

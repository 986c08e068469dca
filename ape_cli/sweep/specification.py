"""The specification of a sweep: grids of trials (schemes x tasks x orders x settings x seeds), from a file or options.

A TOML file gives lists. It may have tables `[[grid]]`; fields that a table lacks are taken from the lines above it:

    preset = "small"
    seeds = [42, 43, 44]
    tasks = ["copy", "reverse"]

    [[grid]]
    schemes = ["rope", "sinusoidal"]

    [[grid]]
    schemes = ["orthogonal-seq"]
    set = { decay = [0.98, 1.0] }  # one trial for each value of a list

A table `[tune]` has settings of which one is chosen for each scheme (see `tuned`).
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ape_cli import tasks
from ape_cli.core.errors import UsageError, brief, pick, unknown
from ape_cli.experiment import ExperimentOptions, generalisation
from ape_cli.experiment.generalisation import FurtherTests
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath, storage_path
from ape_cli.structure.linearisation import NAMES
from ape_cli.sweep.tuned import Scalar, TuneSpecification, Whole, default_setting, settings_of

_LARGEST_FILE = 16 * 2**10  # bytes; the parser's time can grow with the square of the size
_MOST_TRIALS = 10_000


class SweepSpecification(BaseModel):
    """The fields of one grid. Every combination of their values is a trial."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    schemes: list[str] = Field(min_length=1)
    tasks: list[str] = []  # each has a dataset with the sizes of the preset, or with `sizes`
    sizes: str | None = None  # such as "1-20,30"
    data: list[str] = []  # existing datasets: folders, or names
    orders: list[str] = Field(["breadth"], min_length=1)  # names of linearisations, for tasks on trees
    seeds: list[Whole] = Field([42], min_length=1)
    structures: list[str] = []
    attentions: list[str] = Field(["dot"], min_length=1)
    positions: list[str] = Field(["plain"], min_length=1)
    models: list[str] = Field(["encoder-decoder"], min_length=1)
    preset: str | None = None  # None: `paper` on a GPU, `small` on a CPU
    precision: str = "fp32"
    set: dict[str, Scalar | list[Scalar]] = {}
    generalise: bool | str | list[Whole] = False  # sizes of further test rows; true for multiples of the training size
    decode: str = "teacher"  # `greedy`: test rows are also decoded greedily
    tune: TuneSpecification | None = None


def read(path: Path) -> list[dict[str, Any]]:
    """The fields of each grid of a file, unchecked. Raises `UsageError` if the file cannot be read or is not TOML."""
    try:
        fields = tomllib.loads(files.read_bytes(path, _LARGEST_FILE).decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        fix = "name a TOML file; several schemes, tasks or seeds are divided by commas: `schemes=none,rope`"
        raise UsageError("cannot read the sweep's file", got=f"{path}: {error}", fix=fix) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML", got=str(error), fix='for example: schemes = ["rope"]') from error
    parts = fields.pop("grid", [{}])
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        raise UsageError("`grid` is not a list of tables", got=brief(parts), fix="write [[grid]]")
    return [over(fields, part) for part in parts]


def over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Merge the fields of a grid: those of `above` replace those of `below`. `set` and `tune` are merged key by key.

    Raises `UsageError` if one of these two is not a table.
    """
    merged = below | above
    for key, example in (("set", "set = { decay = 1 }, or [set]"), ("tune", "[tune], and set = { … } below it")):
        tables = [fields.get(key, {}) for fields in (below, above)]
        for table in tables:
            if not isinstance(table, dict):
                raise UsageError(f"`{key}` is not a table", got=brief(table), fix=f"write {example}")
        if key == "set":
            merged["set"] = tables[0] | tables[1]
        elif any(tables):
            merged["tune"] = over(*tables)
    return merged


def check(fields: dict[str, Any]) -> SweepSpecification:
    """Validate the fields of a grid. Raises `UsageError` that names the invalid field."""
    for key in fields:
        if key not in SweepSpecification.model_fields:
            raise unknown("field of a sweep", key, SweepSpecification.model_fields)
    _check_tune(fields)
    for key, what in (("schemes", "`schemes=rope,sinusoidal`"), ("tasks", "`tasks=copy,reverse`, or `data=DIR`")):
        if not fields.get(key) and not (key == "tasks" and fields.get("data")):
            raise UsageError(f"the sweep names no {key}", got="none", fix=f"{what}; or in a file: {key} = [...]")
    try:
        grid = SweepSpecification.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        if where.startswith(("set.", "tune.set.")):
            where, first = where.split(".bool")[0], first | {"msg": "true, false, a number, a word, or a list of these"}
        raise UsageError(f"bad {where} of a sweep", got=brief(first.get("input")), allowed=first["msg"]) from error
    for name in grid.orders:
        pick("order", name, NAMES)
    _tests(grid)  # raises an error before anything else does
    return grid


def _tests(grid: SweepSpecification) -> FurtherTests:
    """The evaluations of the trials of a grid. Raises `UsageError` if they are not valid."""
    return FurtherTests(generalisation.parse(grid.generalise), grid.decode)


def _check_tune(fields: dict[str, Any]) -> None:
    """Check the keys of `tune`. Raises `UsageError` if one is unknown, if nothing is tuned, or if it is also set."""
    tune = fields.get("tune")
    if not isinstance(tune, dict):
        return
    for key in tune:
        if key not in TuneSpecification.model_fields:
            raise unknown("field of [tune]", key, TuneSpecification.model_fields)
    if not tune.get("set"):
        fix = "`tune=lr_peak=1e-3,3e-3`; or in a file: [tune], and set = { lr_peak = [1e-3, 3e-3] } below it"
        raise UsageError("the sweep names no setting to tune", got="none", fix=fix)
    for key in tune["set"] if isinstance(tune["set"], dict) else ():
        if key in fields.get("set", {}):
            raise UsageError(f"{key} is set and tuned", got=brief(fields["set"][key]), fix="set it, or tune it")


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


def points(
    grids: list[SweepSpecification], preset: str, folder: Callable[[str], StoragePath] = storage_path
) -> list[ExperimentOptions]:
    """All trials of grids, as `first_stage` gives them. For the arguments and errors, see `groups`."""
    return first_stage(groups(grids, preset, folder))


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
        raise UsageError("too many trials", allowed=f"{_MOST_TRIALS:,}", fix="make several sweeps")
    return first


def _defaults(tune: TuneSpecification, bases: list[ExperimentOptions]) -> list[dict[str, Any]]:
    """The default settings of all trials of a grid. Nothing is known about the kind of data of existing datasets."""
    found: dict[str, dict[str, Any]] = {}
    for base in bases:
        for kind in ("sequence", "image") if base.task is None else (tasks.load(base.task).kind,):
            with suppress(UsageError):  # what is not valid is reported when it is planned
                setting = default_setting(base, kind, tune.set)
                found[repr(setting)] = setting
    return list(found.values())


def _bases(grid: SweepSpecification, preset: str, folder: Callable[[str], StoragePath]) -> Iterator[ExperimentOptions]:
    """All trials of one grid without seeds and tuned settings. Raises `UsageError` if a setting has no values."""
    places: list[dict[str, Any]] = [{"data": folder(data)} for data in grid.data]
    for task in grid.tasks:
        orders: list[str | None] = [*grid.orders] if tasks.load(task).ordered else [None]
        places += [{"task": task, "order": order} for order in orders]
    lists = [value if isinstance(value, list) else [value] for value in grid.set.values()]
    if not all(lists):
        raise UsageError("a setting has no values", got=str(grid.set), fix="leave it out, or give one")
    structures: list[str | None] = [*grid.structures] or [None]
    for place, scheme, structure, attention, positions, model, *values in itertools.product(
        places, grid.schemes, structures, grid.attentions, grid.positions, grid.models, *lists
    ):
        yield ExperimentOptions(
            preset=grid.preset or preset,
            scheme=scheme,
            structure=structure,
            attention=attention,
            positions=positions,
            model=model,
            precision=grid.precision,
            settings=dict(zip(grid.set, values, strict=True)),
            sizes=grid.sizes if "task" in place else None,
            tests=_tests(grid),
            **place,
        )

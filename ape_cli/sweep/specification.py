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
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ape_cli import tasks
from ape_cli.core.errors import UsageError, brief, pick, unknown
from ape_cli.experiment import ExperimentOptions, generalisation
from ape_cli.experiment.generalisation import FurtherTests
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath, storage_path
from ape_cli.structure.linearisation import NAMES

Whole = Annotated[int, Field(gt=-(2**63), lt=2**63)]
Scalar = bool | Whole | float | str

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
    """Merge the fields of a grid: those of `above` replace those of `below`, and `set` is merged key by key.

    Raises `UsageError` if `set` is not a table.
    """
    sets = [fields.get("set", {}) for fields in (below, above)]
    for settings in sets:
        if not isinstance(settings, dict):
            raise UsageError("`set` is not a table", got=brief(settings), fix="write set = { decay = 1 }, or [set]")
    return below | above | {"set": sets[0] | sets[1]}


def check(fields: dict[str, Any]) -> SweepSpecification:
    """Validate the fields of a grid. Raises `UsageError` that names the invalid field."""
    for key in fields:
        if key not in SweepSpecification.model_fields:
            raise unknown("field of a sweep", key, SweepSpecification.model_fields)
    for key, what in (("schemes", "`schemes=rope,sinusoidal`"), ("tasks", "`tasks=copy,reverse`, or `data=DIR`")):
        if not fields.get(key) and not (key == "tasks" and fields.get("data")):
            raise UsageError(f"the sweep names no {key}", got="none", fix=f"{what}; or in a file: {key} = [...]")
    try:
        grid = SweepSpecification.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        if where.startswith("set."):
            where, first = where.split(".bool")[0], first | {"msg": "true, false, a number, a word, or a list of these"}
        raise UsageError(f"bad {where} of a sweep", got=brief(first.get("input")), allowed=first["msg"]) from error
    for name in grid.orders:
        pick("order", name, NAMES)
    _tests(grid)  # raises an error before anything else does
    return grid


def _tests(grid: SweepSpecification) -> FurtherTests:
    """The evaluations of the trials of a grid. Raises `UsageError` if they are not valid."""
    return FurtherTests(generalisation.parse(grid.generalise), grid.decode)


def points(
    grids: list[SweepSpecification], preset: str, folder: Callable[[str], StoragePath] = storage_path
) -> list[ExperimentOptions]:
    """All trials. Those of the first seed come first, so that an interrupted sweep leaves complete tables.

    `preset` is for grids that name none. `folder` maps the name of an existing dataset to its folder. Raises
    `UsageError` for orders without a task that has one, and for too many trials.
    """
    ordered = [grid for grid in grids if "orders" in grid.model_fields_set]
    if ordered and not any(tasks.load(task).ordered for grid in ordered for task in grid.tasks):
        got = f"orders {', '.join(ordered[0].orders)}"
        raise UsageError("no task of the sweep has an order", got=got, fix="leave it out")
    with_seeds = [(grid, set(grid.seeds)) for grid in grids]
    trials = (
        point
        for seed in dict.fromkeys(seed for grid in grids for seed in grid.seeds)
        for grid, seeds in with_seeds
        if seed in seeds
        for point in _points(grid, seed, preset, folder)
    )
    first = list(itertools.islice(trials, _MOST_TRIALS + 1))
    if len(first) > _MOST_TRIALS:
        raise UsageError("too many trials", allowed=f"{_MOST_TRIALS:,}", fix="make several sweeps")
    return list({repr(point): point for point in first}.values())


def _points(
    grid: SweepSpecification, seed: int, preset: str, folder: Callable[[str], StoragePath]
) -> Iterator[ExperimentOptions]:
    """All trials of one grid and one seed. Raises `UsageError` if a setting has no values."""
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
            seed=seed,
            precision=grid.precision,
            settings=dict(zip(grid.set, values, strict=True)),
            sizes=grid.sizes if "task" in place else None,
            tests=_tests(grid),
            **place,
        )

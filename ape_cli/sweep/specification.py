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

A table `[tune]` has the settings among which one is chosen for each scheme. All combinations of their values are tried,
or a subset of them (`combinations.settings_of`):

    [tune]
    set = { lr_peak = [3e-4, 1e-3, 3e-3], decay = [1, 0.98] }
    trials = 4    # at most this many of the six combinations; without it, all
    seeds = [42]  # the seeds of these trials; without it, all seeds of the grid
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ape_cli.core.errors import UsageError, brief
from ape_cli.core.validation import Checked, Scalar, Whole
from ape_cli.experiment import suites
from ape_cli.experiment.spec import ExperimentSpec, Generalise, Rows, Sizes, merge, overlaid, validated
from ape_cli.experiment.spec_files import read_toml


class TuneSpec(Checked):
    """What is tuned: the values of each setting, the number of trials, and their seeds."""

    settings: Mapping[str, Annotated[list[Scalar | list[Scalar]], Field(min_length=1)]] = Field(
        default={},
        alias="set",
        description="Settings and the values that are tried. All combinations are. Required.",
        examples=[{"lr_peak": [1e-3, 3e-3]}],
    )
    trials: int | None = Field(
        default=None, gt=0, description="Only this many random combinations. Default: all.", examples=[4]
    )
    seeds: list[Whole] | None = Field(
        default=None,
        min_length=1,
        description="Seeds of the search. Others train only the chosen setting. Default: all.",
        examples=[[42]],
    )


def _several(field: str, description: str) -> Any:
    """A list of values of a field of an experiment, with the default of that field."""
    return Field([ExperimentSpec.model_fields[field].default], min_length=1, description=description)


class SweepSpec(Checked):
    """The fields of one grid: those of an experiment in the plural. Every combination of their values is a trial."""

    schemes: list[str] = Field(
        default=[], description="Positional encodings (`ape schemes` lists them). Required.", examples=[["rope"]]
    )
    tasks: list[str] = Field(
        default=[],
        description="Tasks. Their datasets are generated. Required, except with `suite` or `data`.",
        examples=[["modular kind=parity"]],
    )
    suite: str | None = Field(
        default=None,
        description="All tasks of a suite (`ape tasks --suite chomsky` lists them), at its sizes.",
        examples=["chomsky"],
    )
    sizes: Sizes = Field(
        default=None, description='Sizes of the datasets of `tasks`, such as `"1-20,30"`. Default: those of the preset.'
    )
    rows: Rows = Field(
        default=None, description="Training rows of these datasets. Default: those of the preset.", examples=[50_000]
    )
    data: list[str] = Field(
        default=[], description="Existing datasets: folders, or names in `--datasets`.", examples=[["copy-small"]]
    )
    orders: list[str] = Field(
        default=["breadth"],
        min_length=1,
        description="Node orders of trees: breadth, depth, breadth-to-depth, depth-to-breadth.",
    )
    seeds: list[Whole] = _several("seed", "Seeds for weights, batch order and dropout.")
    structures: list[str] = Field(
        default=[],
        description='Structures that positions are read as, such as `"seq*tree(2)"`. Default: that of the scheme.',
        examples=[["seq*tree(2)"]],
    )
    attentions: list[str] = _several("attention", "Kinds of attention (`ape attentions` lists them).")
    positions: list[str] = _several("positions", "Maps of positions, such as plain and randomised.")
    models: list[str] = _several("model", "Models: encoder-decoder, decoder.")
    preset: str | None = Field(
        default=None,
        description="Preset: paper, neurips, medium, small or tiny. Default: paper on a GPU, else small.",
        examples=["small"],
    )
    precision: str = Field(
        default=ExperimentSpec.model_fields["precision"].default,
        description="Precision: fp32, tf32 (only on GPUs) or bf16.",
    )
    settings: Mapping[str, Scalar | list[Scalar | list[Scalar]]] = Field(
        default={},
        alias="set",
        description="Settings (`ape fields` lists them). Each value of a list is a trial of its own.",
        examples=[{"lr_peak": [1e-3, 3e-3]}],
    )
    generalise: Generalise = Field(
        default=False,
        description="Sizes of further test rows, such as `[30, 50]`. `true`: 1 to 5 times the largest training size.",
    )
    decode: str = Field(
        default=ExperimentSpec.model_fields["decode"].default,
        description="Decoding: teacher (only teacher forcing), or greedy (both).",
    )
    tune: TuneSpec | None = Field(
        default=None,
        description="Settings to choose by validation scores; see below.",
        examples=[{"set": {"lr_peak": [1e-3, 3e-3]}}],
    )


def read(path: Path | None, options: SweepSpec | None = None) -> list[SweepSpec]:
    """The grids of a file, or of options alone. Each field that `options` give replaces that of every grid.

    Raises `UsageError` if the file cannot be read or is not TOML, or if a grid is not valid.
    """
    fields = read_toml(path, "schemes", '["rope"]') if path else {}
    parts = fields.pop("grid", [{}])
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        got = "[grid]" if isinstance(parts, dict) else brief(parts)
        raise UsageError("`grid` is not a list of tables", got=got, fix="write [[grid]]")
    common, above = layer(fields), options or SweepSpec()
    tables = [(table := layer(part), [*_with_suite(merge(common, table, above))]) for part in parts]
    grids = [_checked(grid) for _, of_table in tables for grid in of_table]
    for written, for_grids in [(merge(common, above), grids), *tables]:
        for name in ("sizes", "rows"):
            value = getattr(written, name)
            if value is not None and not any(grid.tasks for grid in for_grids):
                raise UsageError(f"`{name}` needs a task", got=f"{name} {value}", fix="name one with `tasks`")
    return grids


def layer(fields: dict[str, Any]) -> SweepSpec:
    """Some fields of a grid. Raises `UsageError` that names the invalid field."""
    if isinstance(tune := fields.get("tune"), dict):
        fields = fields | {"tune": validated(TuneSpec, tune, "[tune]")}
    return validated(SweepSpec, fields, "a sweep")


def _with_suite(grid: SweepSpec) -> Iterator[SweepSpec]:
    """The grid with its own datasets, and grids with the tasks of its suite and what the suite says of them.

    What the grid says comes first. Tasks for which the suite says different things are in different grids.
    """
    if grid.suite is None or grid.tasks or grid.data:
        yield grid
    if grid.suite is None:
        return
    suite, grids = suites.load(grid.suite), dict[str, dict[str, Any]]()
    tuned = grid.tune.settings if grid.tune else {}
    for task in suite.tasks:
        fields: dict[str, Any] = {"rows": task.rows, "generalise": suite.generalise}
        fields |= {"models": [task.model]} if task.model else {}
        fields = {name: value for name, value in fields.items() if name not in grid.model_fields_set}
        own = {key: value for key, value in task.settings.items() if key not in tuned}
        fields["settings"] = overlaid(own, grid.settings)
        grids.setdefault(repr(fields), {"tasks": [], "data": [], **fields})["tasks"].append(task.text)
    for fields in grids.values():
        yield grid.model_copy(update=fields)


def _checked(grid: SweepSpec) -> SweepSpec:
    """The grid. Raises `UsageError` if it lacks a field, or if its fields do not fit together."""
    if not grid.schemes:
        fix = "for example `schemes=rope,sinusoidal`"
        raise UsageError("the sweep names no schemes", got="none", fix=fix)
    if not grid.tasks and not grid.data:
        fix = "for example `tasks=copy,reverse`, or name a `suite`, or a dataset with `data`"
        raise UsageError("the sweep names no tasks", got="none", fix=fix)
    tuned = grid.tune.settings if grid.tune else {}
    if grid.tune and not tuned:
        raise UsageError("`tune` names no setting", got="none", fix="for example `tune=lr_peak=1e-3,3e-3`")
    for key in tuned.keys() & grid.settings.keys():
        got = brief(grid.settings[key])
        raise UsageError(f"{key} is both set and tuned", got=got, fix="remove one of them")
    return grid

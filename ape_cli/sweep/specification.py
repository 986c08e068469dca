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

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ape_cli.core.errors import UsageError, brief, pick, unknown
from ape_cli.core.validation import Scalar, Whole
from ape_cli.experiment import file_errors, generalisation
from ape_cli.experiment.generalisation import ExtraEvaluations
from ape_cli.storage import files
from ape_cli.structure.linearisation import NAMES
from ape_cli.sweep.tuned import TuneSpecification

_SETTINGS = "for example set = { lr_peak = [1e-3, 3e-3] }"


class SweepSpecification(BaseModel):
    """The fields of one grid. Every combination of their values is a trial."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    schemes: list[str] = Field(min_length=1, description="Positional encodings (`ape schemes` lists them).")
    tasks: list[str] = Field([], description="Tasks. Their datasets are generated. Required, except with `data`.")
    sizes: str | list[Whole] | None = Field(
        None, description='Sizes of the datasets of `tasks`, such as `"1-20,30"`. Default: those of the preset.'
    )
    data: list[str] = Field([], description="Existing datasets: folders, or names in `--datasets`.")
    orders: list[str] = Field(["breadth"], min_length=1, description=f"Node orders of trees: {', '.join(NAMES)}.")
    seeds: list[Whole] = Field([42], min_length=1, description="Seeds for weights, batch order and dropout.")
    structures: list[str] = Field(
        [], description='Structures that positions are read as, such as `"seq*tree(2)"`. Default: that of the scheme.'
    )
    attentions: list[str] = Field(
        ["dot"], min_length=1, description="Kinds of attention (`ape attentions` lists them)."
    )
    positions: list[str] = Field(
        ["plain"], min_length=1, description="Maps of positions: plain, randomised, offset, coupled."
    )
    models: list[str] = Field(["encoder-decoder"], min_length=1, description="Models: encoder-decoder, decoder.")
    preset: str | None = Field(
        None, description="Preset: paper, neurips, medium, small or tiny. Default: paper on a GPU, else small."
    )
    precision: str = Field("fp32", description="Precision: fp32, tf32 (only on GPUs) or bf16.")
    set: dict[str, Scalar | list[Scalar]] = Field(
        {}, description="Settings (`ape fields` lists them). Each value of a list is a trial of its own."
    )
    generalise: bool | str | list[Whole] = Field(
        False,
        description="Sizes of further test rows, such as `[30, 50]`. `true`: 1 to 5 times the largest training size.",
    )
    decode: str = Field("teacher", description="Decoding: teacher (only teacher forcing), or greedy (both).")
    tune: TuneSpecification | None = Field(None, description="Settings to choose by validation scores; see below.")

    def tests(self) -> ExtraEvaluations:
        """The evaluations of the trials after training. Raises `UsageError` if they are not valid."""
        return ExtraEvaluations(generalisation.parse(self.generalise), self.decode)

    @property
    def sizes_text(self) -> str | None:
        """`sizes` as text."""
        return ",".join(map(str, self.sizes)) if isinstance(self.sizes, list) else self.sizes


def read(path: Path) -> list[dict[str, Any]]:
    """The fields of each grid of a file, unchecked. Raises `UsageError` if the file cannot be read or is not TOML."""
    try:
        fields = files.read_toml(path)
    except (OSError, UnicodeDecodeError) as error:
        fix = "name a TOML file; several schemes, tasks or seeds are divided by commas: `schemes=none,rope`"
        raise UsageError("cannot read the sweep's file", got=f"{path}: {error}", fix=fix) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML", got=str(error), fix='for example: schemes = ["rope"]') from error
    parts = fields.pop("grid", [{}])
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        got = "[grid]" if isinstance(parts, dict) else brief(parts)
        raise UsageError("`grid` is not a list of tables", got=got, fix="write [[grid]]")
    return [over(fields, part) for part in parts]


def located(path: Path | None, options: dict[str, Any]) -> Callable[..., AbstractContextManager[None]]:
    """The context `file_errors.located` of a sweep's file. `options`: fields that the command line gives instead."""
    settings = [options.get("set") or {}, (options.get("tune") or {}).get("set") or {}]
    replaced = (options.keys() - {"set", "tune"}).union(*settings, options.get("tune") or {}) - {"set"}
    fields = SweepSpecification.model_fields.keys() | TuneSpecification.model_fields.keys()
    return partial(file_errors.located, path, fields, replaced)


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
        name = where.removeprefix("tune.").split(".")[0]
        of = TuneSpecification if where.startswith("tune.") else SweepSpecification
        fix = file_errors.example(name, of.model_fields[name].annotation) if name != "set" else _SETTINGS
        if where.startswith("tune.set"):
            where, first = where.split(".bool")[0], first | {"msg": "a list of values: true, false, numbers or words"}
        elif where.startswith("set."):
            where, first = where.split(".bool")[0], first | {"msg": "true, false, a number, a word, or a list of these"}
        elif where.startswith(("sizes.", "generalise.")):
            where, first = where.split(".")[0], first | {"msg": "a list such as [1, 2, 30], or text such as 1-20,30"}
        allowed = first["msg"].removeprefix("Input should be ")
        raise UsageError(f"bad {where} of a sweep", got=brief(first.get("input")), allowed=allowed, fix=fix) from error
    for name in grid.orders:
        pick("order", name, NAMES)
    grid.tests()  # raises an error before anything else does
    return grid


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
        raise UsageError("`tune` names no setting", got="none", fix=fix)
    for key in tune["set"] if isinstance(tune["set"], dict) else ():
        if key in fields.get("set", {}):
            raise UsageError(f"{key} is both set and tuned", got=brief(fields["set"][key]), fix="remove one of them")

"""A TOML file with the fields of one experiment, for `ape train --config`. A sweep's file names them in the plural.

scheme = "rope"
task = "copy"
preset = "small"
set = { lr_peak = 1e-3 }
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ape_cli import attention, position
from ape_cli.core.errors import UsageError, brief, pick, unknown
from ape_cli.core.validation import Scalar, Whole
from ape_cli.data import position_maps
from ape_cli.experiment import file_errors, generalisation
from ape_cli.experiment.generalisation import ExtraEvaluations
from ape_cli.experiment.options import ExperimentOptions
from ape_cli.runs.config import REPLACES
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath, storage_path
from ape_cli.structure.linearisation import NAMES

_FROM_SWEEP = {"schemes": "scheme", "tasks": "task", "orders": "order", "seeds": "seed", "structures": "structure"}
_FROM_SWEEP |= {"attentions": "attention", "models": "model"}
_SAME = ("scheme", "task", "order", "seed", "structure", "attention", "positions", "model", "precision")  # as options


class ExperimentFile(BaseModel):
    """The fields of one experiment. Each is an option of `ape train`, which replaces it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    scheme: str | None = None
    task: str | None = None
    sizes: str | list[Whole] | None = None
    data: str | None = None
    order: str | None = None
    seed: Whole = 42
    structure: str | None = None
    attention: str = "dot"
    positions: str = "plain"
    model: str = "encoder-decoder"
    preset: str | None = None
    precision: str = "fp32"
    set: dict[str, Scalar] = {}
    generalise: bool | str | list[Whole] = False
    decode: str = "teacher"

    def under(
        self, options: ExperimentOptions, typed: Collection[str], folder: Callable[[StoragePath], StoragePath]
    ) -> ExperimentOptions:
        """The experiment of the file. Options whose names are in `typed`, and all settings, replace its fields.

        A scheme, attention or map of positions that is replaced takes its own settings along. `folder` finds the folder
        of an existing dataset. Raises `UsageError` if no scheme is named, or if fields do not fit together.
        """
        given = set(typed) | ({"order"} if "source_order" in typed else set())
        given |= {"task", "order", "sizes"} if "data" in given else {"data"} if "task" in given else set()
        fields = {name: getattr(self, name) for name in _SAME}
        fields["preset"] = options.preset if self.preset is None else self.preset
        fields["sizes"] = ",".join(map(str, self.sizes)) if isinstance(self.sizes, list) else self.sizes
        fields["data"] = None if self.data is None or "data" in given else folder(storage_path(self.data))
        settings, dropped = dict(self.set), set[str]()
        if "scheme" in given and options.scheme != self.scheme:
            fields["structure"] = None
            dropped |= {"max_size", *(position.options(self.scheme) if self.scheme else ())}
        if "attention" in given and options.attention != self.attention:
            dropped |= set(attention.options(self.attention))
        if "positions" in given and options.positions != self.positions:
            dropped |= set(position_maps.options(self.positions))
        dropped |= {REPLACES[name] for name in options.settings if name in REPLACES}
        tests = ExtraEvaluations(
            options.tests.generalise if "generalise" in given else generalisation.parse(self.generalise),
            options.tests.decode if "decode" in given else self.decode,
        )
        found = replace(
            options,
            **{name: value for name, value in fields.items() if name not in given},
            settings={key: value for key, value in settings.items() if key not in dropped} | dict(options.settings),
            tests=tests,
        )
        if not found.scheme:
            fix = 'for example scheme = "rope"; `ape schemes` lists all'
            raise UsageError("no scheme is named", got="neither an option nor a field of the file", fix=fix)
        if found.data is not None and (found.task is not None or found.order is not None):
            got = "a dataset with a task or an order"
            raise UsageError("`data` already names a dataset", got=got, fix="use one of them")
        if found.sizes is not None and found.task is None:
            raise UsageError("`sizes` needs a task", got=f"sizes {found.sizes}", fix="name one with `task`")
        return found


def in_file(
    path: StoragePath | None, typed: Collection[str], settings: Collection[str], *, whole: bool = False
) -> AbstractContextManager[None]:
    """The context `file_errors.located` of an experiment's file. `typed` and `settings`: what replaces its fields."""
    fields = ExperimentFile.model_fields.keys()
    return file_errors.located(path, fields, {*fields & typed, *settings}, whole=whole)


def read_experiment(path: StoragePath) -> ExperimentFile:
    """The experiment in a TOML file. Raises `UsageError` that names the invalid field, or if it cannot be read."""
    try:
        fields = files.read_toml(path)
    except OSError as error:
        raise UsageError("cannot read the file", got=f"{path}: {error}", fix="name another file") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML", got=str(error), fix='for example: scheme = "rope"') from error
    return checked(fields)


def checked(fields: dict[str, Any]) -> ExperimentFile:
    """Validate the fields of an experiment. Raises `UsageError` that names the invalid field."""
    for key in fields:
        if key in ("grid", "tune"):
            fix = "run it with `ape sweep`, or describe one experiment"
            raise UsageError(f"[{key}] belongs to a sweep, and this file describes one experiment", got=key, fix=fix)
        if key not in ExperimentFile.model_fields:
            raise unknown("field of an experiment", key, ExperimentFile.model_fields, synonyms=_FROM_SWEEP)
    try:
        found = ExperimentFile.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where, allowed = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Input should be ")
        if where == "set":
            allowed = "a table"
        elif where.startswith("set."):
            where, allowed = ".".join(where.split(".")[:2]), "true, false, a number or a word"
        elif where.startswith(("sizes.", "generalise.")):
            where, allowed = where.split(".")[0], "a list such as [1, 2, 30], or text such as 1-20,30"
        given, name = first.get("input"), where.split(".")[0]
        fix = "for example set = { lr_peak = 1e-3 }" if name == "set" else file_errors.example(name)
        if isinstance(given, list) and where not in ("set", "sizes", "generalise"):
            fix = "write one value; `ape sweep FILE` tries several"
        what = f"bad {where} of an experiment"
        raise UsageError(what, got=brief(given), allowed=allowed, fix=fix) from error
    if found.order is not None:
        pick("order", found.order, NAMES)
    return found

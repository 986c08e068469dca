"""Files with the fields of experiments: TOML files, and the `run.json` of a run. Errors about a field name its line.

scheme = "rope"
task = "copy"
preset = "small"
set = { lr_peak = 1e-3 }
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ape_cli.core.errors import DataError, UsageError, brief, pick, unknown
from ape_cli.core.validation import first_error
from ape_cli.experiment.spec import ExperimentSpec, of_config
from ape_cli.runs.config import read_config
from ape_cli.runs.record import DatasetRecord
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath
from ape_cli.structure.linearisation import NAMES

_KEY = re.compile(r"""(?:^|[{,])\s*(?:[\w-]+\s*\.\s*)*["']?([\w-]+)["']?\s*=|^\s*\[+([\w.-]+)\]+""")
_NOT_IN_FILES = {"recorded", "derived"}
_FROM_SWEEP = {"schemes": "scheme", "tasks": "task", "orders": "order", "seeds": "seed", "structures": "structure"}
_FROM_SWEEP |= {"attentions": "attention", "models": "model"}
Fields = TypeVar("Fields", bound=BaseModel)


def read(path: StoragePath) -> ExperimentSpec:
    """The experiment in a TOML file, or that of a run in its `run.json`.

    Raises `UsageError` that names the invalid field, or if the file cannot be read.
    """
    if path.suffix != ".toml":
        return _read_run(path)
    fields = read_toml(path, "scheme", '"rope"')
    for key in ("grid", "tune"):
        if key in fields:
            what = f"[{key}] belongs to a sweep, and this file describes one experiment"
            raise UsageError(what, got=key, fix="run it with `ape sweep`, or describe one experiment", field=key)
    spec = validated(ExperimentSpec, fields, "an experiment", synonyms=_FROM_SWEEP)
    if spec.order is not None:
        pick("order", spec.order, NAMES)
    return spec


def read_toml(path: StoragePath, name: str, value: str) -> dict[str, Any]:
    """The content of a TOML file. Raises `UsageError` with the example `name = value` if it is not one."""
    try:
        return files.read_toml(path)
    except OSError as error:
        raise UsageError("cannot read the file", got=f"{path}: {error}", fix="name another file") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML", got=str(error), fix=f"for example {name} = {value}") from error


def _read_run(path: StoragePath) -> ExperimentSpec:
    """The experiment of a `run.json`, or of a JSON object with the fields of a configuration."""
    try:
        fields = files.read_json(path)
        if not isinstance(fields, dict):
            raise ValueError(f"{brief(fields)} is no object")
        dataset = fields.get("dataset")
        recorded = None if dataset is None else DatasetRecord.model_validate_json(json.dumps(dataset))
        config = read_config(fields.get("config", fields))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"cannot read a configuration from {path}",
            got=first_error(error) if isinstance(error, ValidationError) else str(error),
            allowed="the run.json of a run, a JSON object with the fields of a configuration, or FILE.toml",
            fix="name another file",
        ) from error
    return of_config(config, recorded)


def validated(
    model: type[Fields], fields: dict[str, Any], what: str, synonyms: Mapping[str, str] | None = None
) -> Fields:
    """The fields of a table in a TOML file, called `what`. Raises `UsageError` that names the invalid field."""
    names = fields_of(model)
    for key in fields:
        if key not in names:
            raise unknown(f"field of {what}", key, names, synonyms=synonyms, field=key)
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, UsageError):  # of a field's own check: it says more
            raise cause from error
        key, *inner = map(str, first["loc"])
        field = names[key]
        allowed = first["msg"].removeprefix("Input should be ")
        if key == "set":
            allowed = "a number, true, false, text, or a list of these" if inner else "a table"
        example = field.examples[0] if field.examples else field.default
        raise UsageError(
            f"bad {'.'.join([key, *inner[:1]])} of {what}",
            got=brief(first.get("input")),
            allowed=allowed,
            fix=f"for example {key} = {toml(example)}" if example else f"leave {key} out",
            field=inner[0] if key == "set" and inner else key,
        ) from error


def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a table, by the names that they have in a file."""
    return {field.alias or name: field for name, field in model.model_fields.items() if name not in _NOT_IN_FILES}


def toml(value: Any) -> str:
    """A value as TOML.

    >>> toml({"lr_peak": [0.001, 0.003]}), toml(["rope"])
    ('{ lr_peak = [0.001, 0.003] }', '["rope"]')
    """
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {toml(inner)}' for key, inner in value.items())} }}"
    return json.dumps(value)


@contextmanager
def located(path: StoragePath | None, *above: BaseModel, whole: bool = False) -> Iterator[None]:
    """Errors in the block about a field of a TOML file name the file, and its line unless the field stands in several.

    `above`: the layers that replace fields of the file; errors about these pass. So do all errors without a file.
    `whole`: errors about no field of the file are about the file.
    """
    try:
        yield
    except (UsageError, DataError) as error:
        replaced = {name for layer in above for name in _given(layer)}
        if path is None or error.field in replaced or str(path) in str(error):
            raise
        lines = _lines(path, error.field) if error.field else []
        if not lines and not whole:
            raise
        location = f"{path}, line {lines[0]}" if len(lines) == 1 else path
        located = type(error)(
            f"{location}: {error.what}", got=error.got, allowed=error.allowed, fix=error.fix, field=error.field
        )
        raise located from error


def _given(layer: BaseModel) -> set[str]:
    """The names of the fields and settings that a layer gives."""
    names = set(layer.model_fields_set)
    for name in ("settings", "tune"):
        if inner := getattr(layer, name, None):
            names |= _given(inner) if isinstance(inner, BaseModel) else set(inner)
    return {name.removesuffix("s") for name in names} | names


def _lines(path: StoragePath, field: str) -> list[int]:
    """The lines on which a TOML file gives a field, in the singular or the plural; none if it cannot be read."""
    try:
        text = files.read_bytes(path, files.TOML_BYTES).decode("utf-8-sig")
    except (OSError, ValueError):
        return []
    return [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if not line.lstrip().startswith("#")
        for match in _KEY.finditer(line)
        if (match[1] or match[2].split(".")[-1]) in (field, f"{field}s")
    ]

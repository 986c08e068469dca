"""Files with the fields of experiments: TOML files, and the `run.json` of a run.

scheme = "rope"
task = "copy"
preset = "small"
set = { lr_peak = 1e-3 }
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from ape_cli.core.errors import UsageError, brief
from ape_cli.core.validation import first_error
from ape_cli.experiment.spec import ExperimentSpec, of_config, validated
from ape_cli.runs.config import read_config
from ape_cli.runs.record import DatasetRecord
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath


def read(path: StoragePath) -> ExperimentSpec:
    """The experiment in a TOML file, or that of a run in its `run.json`.

    Raises `UsageError` that names the invalid field, or if the file cannot be read.
    """
    if path.suffix != ".toml":
        return _read_run(path)
    return validated(ExperimentSpec, read_toml(path, "scheme", '"rope"'), "an experiment")


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
            raise ValueError(f"{brief(fields)} is not an object")
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
    variant = fields.get("variant")
    return of_config(config, recorded, variant if isinstance(variant, dict) else ())

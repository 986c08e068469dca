"""The configuration and the dataset that a file describes: the `run.json` of a run, or a configuration alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ape_cli.core.errors import UsageError, brief
from ape_cli.core.validation import first_error
from ape_cli.runs.config import Config, read_config, settable
from ape_cli.runs.record import Trained
from ape_cli.storage.json_files import read_json
from ape_cli.storage.paths import StoragePath

_ALLOWED = "the run.json of a run, or a JSON object with the fields of a configuration"


@dataclass(frozen=True)
class ConfigFile:
    """What a file says about a run. `dataset` is the record of its dataset, or None if the file has none."""

    config: Config
    dataset: Trained | None

    @property
    def settings(self) -> dict[str, Any]:
        """The fields that `--set` can give, with their values, without those that have none."""
        fields = {name: getattr(self.config, name) for name in settable(self.config.kind)}
        return {name: value for name, value in fields.items() if value is not None}


def read_config_file(path: StoragePath) -> ConfigFile:
    """Read a JSON object that is a configuration, or that has one as `config` and perhaps a `dataset`, as a run.json.

    Raises `UsageError` if the file cannot be read, or has another form.
    """
    try:
        found = read_json(path)[1]
        if not isinstance(found, dict):
            raise ValueError(f"{brief(found)} is no object")
        about = found.get("dataset")
        trained = None if about is None else Trained.model_validate_json(json.dumps(about))
        return ConfigFile(read_config(found.get("config", found)), trained)
    except (OSError, ValueError, RecursionError) as error:
        got = first_error(error) if isinstance(error, ValidationError) else str(error)
        fix = "name another file with --config"
        raise UsageError(f"cannot read a configuration from {path}", got=got, allowed=_ALLOWED, fix=fix) from error

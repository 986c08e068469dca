"""What a command asks for: the options of one experiment, and the JSON file that gives them (`ape train --config`)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from ape_cli import attention, position
from ape_cli.core.errors import UsageError, brief
from ape_cli.core.validation import first_error
from ape_cli.data import position_maps
from ape_cli.experiment.generalisation import NO_EXTRA_EVALUATIONS, ExtraEvaluations
from ape_cli.runs.config import REPLACES, Config, read_config, resolve, settable
from ape_cli.runs.record import DatasetRecord
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath

_ALLOWED = "the run.json of a run, a JSON object with the fields of a configuration, or FILE.toml (an experiment)"


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    """The options of one experiment.

    The dataset is `data`; or that of `task` (with its linearisation `order`) at the sizes of the preset, or at `sizes`;
    or `recorded`, that of a configuration file; or else the newest one that the scheme can read. `settings` maps fields
    of the configuration, and options of the scheme, of the attention or of the map of positions, to values. `from_file`
    names the settings that only a file gave. `tests` are the evaluations after training.
    """

    preset: str
    scheme: str
    structure: str | None = None
    attention: str = "dot"
    positions: str = position_maps.PLAIN
    model: str = "encoder-decoder"
    seed: int = 42
    precision: str = "fp32"
    settings: Mapping[str, Any] = field(default_factory=dict)
    data: StoragePath | None = None
    task: str | None = None
    order: str | None = None
    sizes: str | None = None
    recorded: DatasetRecord | None = None
    from_file: frozenset[str] = frozenset()
    tests: ExtraEvaluations = NO_EXTRA_EVALUATIONS

    def config(self, kind: str) -> Config:
        """The configuration for data of a kind, `sequence` or `image`. Raises `UsageError` if it is not valid."""
        return resolve(
            self.preset,
            self.scheme,
            position.options(self.scheme),
            kind=kind,
            structure=self.structure,
            attention=self.attention,
            attention_options=attention.options(self.attention),
            positions=self.positions,
            positions_options=position_maps.options(self.positions),
            model=self.model,
            seed=self.seed,
            precision=self.precision,
            settings=dict(self.settings),
        )

    def with_scheme(self, scheme: str) -> ExperimentOptions:
        """The options of the same model with another scheme. Settings that only this scheme has are left out.

        The scheme `none` has no positions, so their map is left out too.
        """
        of_scheme = {"max_size", *position.options(self.scheme)} | ({"decay"} & self.from_file)
        positions = position_maps.PLAIN if scheme == "none" else self.positions
        if positions != self.positions:
            of_scheme |= set(position_maps.options(self.positions))
        settings = {key: value for key, value in self.settings.items() if key not in of_scheme}
        return replace(self, scheme=scheme, structure=None, positions=positions, settings=settings)

    def over(self, config: Config, recorded: DatasetRecord | None, typed: Collection[str]) -> ExperimentOptions:
        """The configuration and the dataset of a file.

        The options whose names are in `typed`, and all settings, replace those of the file.
        """
        base = {name: value for name in settable(config.kind) if (value := getattr(config, name)) is not None}
        # they decide these two, unless a setting does
        of_map = position_maps.options(self.positions if "positions" in typed else config.positions)
        if {"scheme", "structure", "attention", "model", "positions"} & set(typed) or of_map.keys() & set(
            self.settings
        ):
            base = {name: value for name, value in base.items() if name not in ("max_size", "decay")}
        replaced = {REPLACES.get(name) for name in self.settings}
        base = {name: value for name, value in base.items() if name not in replaced}
        structure = None if config.structure is None or "scheme" in typed else config.structure.expression
        fields: dict[str, Any] = {
            name: getattr(config, name) for name in ("scheme", "attention", "positions", "seed", "precision")
        }
        fields["structure"] = structure
        fields["model"] = getattr(config, "model", self.model)
        plugins = {} if "scheme" in typed else dict(config.scheme_options)
        plugins |= {} if "attention" in typed else config.attention_options
        plugins |= {} if "positions" in typed else config.positions_options
        return replace(
            self,
            **{name: value for name, value in fields.items() if name not in typed},
            preset=config.preset,
            settings=base | plugins | dict(self.settings),
            recorded=recorded,
            from_file=frozenset(base) - set(self.settings),
        )


def read_config_file(path: StoragePath) -> tuple[Config, DatasetRecord | None]:
    """The configuration in a file, and the record of its dataset, or None if the file has none.

    The file is a JSON object that is a configuration, or that has one as `config` and perhaps a `dataset`.

    Raises `UsageError` if the file cannot be read, or has another form.
    """
    try:
        fields = files.read_json(path)
        if not isinstance(fields, dict):
            raise ValueError(f"{brief(fields)} is no object")
        dataset = fields.get("dataset")
        trained = None if dataset is None else DatasetRecord.model_validate_json(json.dumps(dataset))
        return read_config(fields.get("config", fields)), trained
    except (OSError, ValueError, RecursionError) as error:
        got = first_error(error) if isinstance(error, ValidationError) else str(error)
        raise UsageError(
            f"cannot read a configuration from {path}", got=got, allowed=_ALLOWED, fix="name another file"
        ) from error

"""The configuration of a run: presets, settings that override them, and the hash that becomes part of the run's name.

Every field can be set. An unknown field is an error that names the nearest match.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from ape_cli.core import part_options
from ape_cli.core.errors import UsageError, brief, pick, unknown
from ape_cli.runs.config._fields import (
    KINDS,
    MODELS,
    SIZE,
    TRAINING,
    AnyConfig,
    Config,
    ImageConfig,
    SequenceConfig,
    read_config,
)
from ape_cli.runs.config._presets import PRESETS, Preset, preset
from ape_cli.structure import Structure

__all__ = [
    "KINDS",
    "MODELS",
    "PRESETS",
    "REPLACES",
    "SIZE",
    "TRAINING",
    "AnyConfig",
    "Config",
    "ImageConfig",
    "Preset",
    "SequenceConfig",
    "check_names",
    "parse_settings",
    "parse_values",
    "preset",
    "read_config",
    "resolve",
    "settable",
]

REPLACES = {  # a setting, and the one that it replaces in a preset or a file
    "epochs": "steps",
    "steps": "epochs",
    "validate_every_epochs": "validate_every_steps",
    "validate_every_steps": "validate_every_epochs",
    "d_ff": "d_ff_decoder",
}
_FIXED = {"preset", "scheme", "scheme_options", "structure", "attention", "attention_options", "seed", "precision"}
_FIXED |= {"model", "positions", "positions_options"}
_SYNONYMS = {  # words of other programs, which error messages understand
    "lr": "lr_peak",
    "learning_rate": "lr_peak",
    "layers": "encoder_layers",
    "hidden_size": "d_model",
    "ffn_dim": "d_ff",
    "num_heads": "heads",
    "max_steps": "steps",
    "max_len": "max_size",
}
_OWN = {
    "preset",
    "scheme",
    "structure",
    "attention",
    "positions",
    "model",
    "seed",
    "precision",
    "device",
}  # options on the command line
# names that an option of a part cannot have: those of all settings and options, and of arguments of `position.make`
_TAKEN = {name for found in KINDS.values() for name in found.model_fields} | _OWN | {"name", "generator"}
_COMMA = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')  # a comma outside quotes: an even number of quotes follows


def resolve(
    preset_name: str,
    scheme: str,
    scheme_options: dict[str, Any],
    *,
    kind: str = "sequence",
    structure: str | Structure | None = None,
    attention: str = "dot",
    attention_options: dict[str, Any] | None = None,
    positions: str = "plain",
    positions_options: dict[str, Any] | None = None,
    model: str = MODELS[0],
    seed: int = 42,
    precision: str = "fp32",
    settings: dict[str, Any] | None = None,
) -> Config:
    """Apply settings to a preset and check the result.

    `kind` is the kind of data, `sequence` or `image`, which also decides the model. `settings` maps fields to values. A
    setting may also be an option of the scheme, of the attention or of the map of positions. `scheme_options`,
    `attention_options` and `positions_options` are the options that these have, with their defaults.

    Setting `epochs` replaces the preset's `steps`, and the other way round. The same holds for `validate_every_epochs`
    and `validate_every_steps`. Setting only `d_ff` replaces the preset's `d_ff_decoder`.

    Raises `UsageError` if a name is unknown, a value is invalid, or two settings exclude each other.
    """
    fields = dict(preset(preset_name).of(kind))
    parts = {
        scheme: scheme_options,
        f"attention {attention}": attention_options or {},
        f"positions {positions}": positions_options or {},
    }
    check_names(f"positions {positions}", positions_options or {})
    chosen: dict[str, dict[str, Any]] = {part: {} for part in parts}
    known = set(settable(kind))
    for key, given in (settings or {}).items():
        value = part_options.unsigned(given)
        if key in known:
            fields[key] = value
            if key in REPLACES and REPLACES[key] not in (settings or {}):
                fields.pop(REPLACES[key], None)
        elif having := [part for part, options in parts.items() if key in options]:
            if len(having) > 1:
                what = f"{key} is an option of {' and of '.join(having)}"
                raise UsageError(what, got=f"{key}={value}", fix="rename it in one of the files")
            chosen[having[0]][key] = to_jsonable_python(part_options.checked(key, value, parts[having[0]]))
        elif key in _OWN:
            raise UsageError(f"{key} is not a setting", got=f"{key}={value}", fix=f"it is an option: `{key}`")
        else:
            raise _no_setting(key, value, kind, known.union(*parts.values()))
    for one, other in (("epochs", "steps"), ("validate_every_epochs", "validate_every_steps")):
        if one in fields and other in fields:
            raise UsageError(
                f"{one} and {other} exclude each other", got="both", allowed="one of them", fix="set one only"
            )
    of_scheme, of_attention, of_positions = chosen.values()
    fields["structure"] = structure  # an expression is parsed by the field
    fields |= _model(model, kind)
    try:
        return KINDS[kind](
            preset=preset_name,
            scheme=scheme,
            scheme_options=of_scheme,
            attention=attention,
            attention_options=of_attention,
            positions=positions,
            positions_options=of_positions,
            seed=seed,
            precision=pick("precision", precision, ["fp32", "tf32", "bf16"]),
            **fields,
        )
    except ValidationError as error:
        first = error.errors()[0]
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, UsageError):  # of a structure's expression: it says more
            raise cause from error
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"bad value of {where}",
            got=brief(first.get("input")),
            allowed=first["msg"].removeprefix("Input should be "),
            fix=f"`{where}=VALUE`",
        ) from error


def check_names(part: str, options: Collection[str]) -> None:
    """Check the names of the options of a part. Raises `UsageError` if a setting has one of them, and would be set."""
    if taken := sorted(_TAKEN.intersection(options)):
        what = f"an option of {part} has a name that is taken: a setting of the model or an argument has it too"
        raise UsageError(what, got=taken[0], fix="rename it in the file of this part")


def _model(model: str, kind: str) -> dict[str, Any]:
    """The field `model` for a kind of data. Raises `UsageError` if there is no such model for it."""
    pick("model", model, MODELS)
    if kind == "sequence":
        return {"model": model}
    if model != MODELS[0]:
        what = "images have no target sequence for a decoder to write"
        raise UsageError(what, got=f"`model={model}`, for images", fix="leave `model` out, or choose other data")
    return {}


def settable(kind: str) -> list[str]:
    """The fields that settings can change, for a kind of data."""
    return [name for name in KINDS[kind].model_fields if name not in _FIXED]


def _no_setting(key: str, value: Any, kind: str, known: set[str]) -> UsageError:
    """The error for a setting that does not exist for this kind of data."""
    for other, found in KINDS.items():
        if key in found.model_fields:
            what = f"{key} is a setting of the model for {other}s"
            return UsageError(what, got=f"{key}={value}, for {kind}s", fix="leave it out, or choose other data")
    return unknown("setting", key, known, synonyms=_SYNONYMS)


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Parse `key=value` strings. A value is a number, true, false, or text.

    >>> parse_settings(["decay=1", "d_model=64"])
    {'decay': 1, 'd_model': 64}

    Raises `UsageError` for a string of another form, or a key that is set twice.
    """
    return {key: _value(text) for key, text in _cut(pairs).items()}


def parse_values(pairs: list[str], name: str = "set") -> dict[str, Any]:
    """Parse `key=value,value` strings: the list of values that a sweep tries for each key.

    A value with commas is written in quotes. `name` is the option that an error names.

    >>> parse_values(["decay=1,0.98", "learned=true", 'augment="crop,flip",none', "widths=[1,2],[3]"])
    {'decay': [1, 0.98], 'learned': [True], 'augment': ['crop,flip', 'none'], 'widths': [[1, 2], [3]]}

    Raises `UsageError` for a string of another form, or a key that is set twice.
    """
    found: dict[str, Any] = {key: _value(f"[{text}]") for key, text in _cut(pairs, name).items()}
    return {
        key: [_value(part.strip()) for part in _COMMA.split(of[1:-1])] if isinstance(of, str) else of
        for key, of in found.items()
    }


def _cut(pairs: list[str], name: str = "set") -> dict[str, str]:
    """Split each string into a key and the text of its value.

    Raises `UsageError` for a string of another form, or a key that is set twice.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals or not key or not text or text == "null":
            example = f"for example `{name}=d_model=64`"
            raise UsageError(f"bad `{name}`", got=repr(pair), allowed="KEY=VALUE", fix=example)
        if key in found:
            raise UsageError(f"{key} is set twice", got=f"{found[key]} and {text}", fix="set it once")
        found[key] = text
    return found


def _value(text: str) -> Any:
    """Parse a number, true or false; any other text is returned as it is."""
    try:
        return json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError):
        return text


def _not_json(text: str) -> float:
    """Reject NaN and Infinity, which Python's JSON parser would accept."""
    raise ValueError(f"{text} is not a number")

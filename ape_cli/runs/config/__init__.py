"""The configuration of a run: its fields, the hash that becomes part of the run's name, and presets of settings."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from ape_cli.core.errors import UsageError
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

__all__ = [
    "KINDS",
    "MODELS",
    "PRESETS",
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
    "settable",
]

_FIXED = {"preset", "scheme", "scheme_options", "structure", "attention", "attention_options", "seed", "precision"}
_FIXED |= {"model", "positions", "positions_options"}
_OPTIONS = {name for name in _FIXED if not name.endswith("_options")} | {"device"}
# names that an option of a part cannot have: those of all settings and options, and of arguments of `position.make`
_TAKEN = {name for model in KINDS.values() for name in model.model_fields} | _OPTIONS | {"name", "generator"}
_COMMA = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')  # a comma outside quotes: an even number of quotes follows


def check_names(part: str, options: Collection[str]) -> None:
    """Check the names of the options of a part. Raises `UsageError` if a setting has one of them, and would be set."""
    if taken := sorted(_TAKEN.intersection(options)):
        what = f"an option of {part} has a name that is taken: a setting of the model or an argument has it too"
        raise UsageError(what, got=taken[0], fix="rename it in the file of this part")


def settable(kind: str) -> list[str]:
    """The fields that settings can change, for a kind of data."""
    return [name for name in KINDS[kind].model_fields if name not in _FIXED]


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Parse `key=value` strings. A value is a number, true, false, or text.

    >>> parse_settings(["decay=1", "d_model=64"])
    {'decay': 1, 'd_model': 64}

    Raises `UsageError` for a string of another form, or a key that is set twice.
    """
    return {key: _value(text) for key, text in _divided(pairs, "set").items()}


def parse_values(pairs: list[str], name: str = "set") -> dict[str, Any]:
    """Parse `key=value,value` strings: the list of values that a sweep tries for each key.

    A value with commas is written in quotes. `name` is the option that an error names.

    >>> parse_values(["decay=1,0.98", "learned=true", 'augment="crop,flip",none', "widths=[1,2],[3]"])
    {'decay': [1, 0.98], 'learned': [True], 'augment': ['crop,flip', 'none'], 'widths': [[1, 2], [3]]}

    Raises `UsageError` for a string of another form, or a key that is set twice.
    """
    lists: dict[str, list[Any]] = {}
    for key, text in _divided(pairs, name).items():
        values = _value(f"[{text}]")
        words = _COMMA.split(text) if isinstance(values, str) else []
        lists[key] = [_value(word.strip()) for word in words] or values
    return lists


def _divided(pairs: list[str], name: str) -> dict[str, str]:
    """Each string as a key and the text of its value. Raises `UsageError` for another form, or a repeated key."""
    texts: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals or not key or not text or text == "null":
            fix = f"for example `{name}=d_model=64`"
            raise UsageError(f"bad `{name}`", got=repr(pair), allowed="KEY=VALUE", fix=fix, field=name)
        if key in texts:
            raise UsageError(f"{key} is set twice", got=f"{texts[key]} and {text}", fix="set it once", field=key)
        texts[key] = text
    return texts


def _value(text: str) -> Any:
    """Parse a number, true or false; any other text, such as NaN, is returned as it is."""

    def not_json(constant: str) -> float:
        raise ValueError(f"{constant} is not a number")

    try:
        return json.loads(text, parse_constant=not_json)
    except (ValueError, RecursionError):
        return text

"""Settings as they are written on a command line: `key=value`, and `key=value,value` of a sweep."""

from __future__ import annotations

import json
import re
from typing import Any

from ape_cli.core.errors import UsageError

_COMMA = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')  # outside quotes: an even number of them follow


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """`key=value` strings; values are numbers, true, false, or text.

    >>> parse_settings(["decay=1", "d_model=64"])
    {'decay': 1, 'd_model': 64}
    """
    return {key: _value(text) for key, text in _cut(pairs).items()}


def parse_values(pairs: list[str]) -> dict[str, Any]:
    """`key=value,value` strings, each with all the values that a field is to have in turn; in quotes with its commas.

    >>> parse_values(["decay=1,0.98", "learned=true", 'augment="crop,flip",none'])
    {'decay': [1, 0.98], 'learned': [True], 'augment': ['crop,flip', 'none']}
    """
    return {key: [_value(part.strip()) for part in _COMMA.split(text)] for key, text in _cut(pairs).items()}


def _cut(pairs: list[str]) -> dict[str, str]:
    """Keys and the texts of their values."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals or not key or not text or text == "null":
            raise UsageError("bad --set", got=repr(pair), allowed="KEY=VALUE", fix="for example --set d_model=64")
        if key in found:
            raise UsageError(f"{key} is set twice", got=f"{found[key]} and {text}", fix="set it once")
        found[key] = text
    return found


def _value(text: str) -> Any:
    """A number, true, false, or the text itself."""
    try:
        return json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError):
        return text


def _not_json(text: str) -> float:
    raise ValueError(f"{text} is not a number")

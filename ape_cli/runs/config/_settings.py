"""Parse settings of the command line: `key=value`, and `key=value,value` of a sweep."""

from __future__ import annotations

import json
import re
from typing import Any

from ape_cli.core.errors import UsageError

_COMMA = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')  # a comma outside quotes: an even number of quotes follows


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Parse `key=value` strings. A value is a number, true, false, or text.

    >>> parse_settings(["decay=1", "d_model=64"])
    {'decay': 1, 'd_model': 64}

    Raises `UsageError` for a string of another form, or a key that is set twice.
    """
    return {key: _value(text) for key, text in _cut(pairs).items()}


def parse_values(pairs: list[str]) -> dict[str, Any]:
    """Parse `key=value,value` strings: the list of values that a sweep tries for each key.

    A value with commas is written in quotes.

    >>> parse_values(["decay=1,0.98", "learned=true", 'augment="crop,flip",none'])
    {'decay': [1, 0.98], 'learned': [True], 'augment': ['crop,flip', 'none']}

    Raises `UsageError` for a string of another form, or a key that is set twice.
    """
    return {key: [_value(part.strip()) for part in _COMMA.split(text)] for key, text in _cut(pairs).items()}


def _cut(pairs: list[str]) -> dict[str, str]:
    """Split each string into a key and the text of its value.

    Raises `UsageError` for a string of another form, or a key that is set twice.
    """
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
    """Parse a number, true or false; any other text is returned as it is."""
    try:
        return json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError):
        return text


def _not_json(text: str) -> float:
    """Reject NaN and Infinity, which Python's JSON parser would accept."""
    raise ValueError(f"{text} is not a number")

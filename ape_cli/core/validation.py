"""Checks of what is read from files, for pydantic models, and the first error of a model in words.

pydantic describes every invalid element of a list or a dictionary. A crafted file has millions of them. Therefore lists
stop at the first one (`FailFast`), and dictionaries have a limited number of entries.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, FailFast, Field, ValidationError

T = TypeVar("T")

_MOST_FIELDS = 10_000  # entries of a dictionary in a file
_MOST_CHARACTERS = 4096  # of a text
_CONTAINERS = (dict, list, tuple)
HEX = r"^[0-9a-f]{64}$"  # a SHA-256 digest


def first_error(error: ValidationError) -> str:
    """The first error of a model: the place of the field, if it is about one, and what is wrong with it."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")]))


def _few(value: Any) -> Any:
    """Check the number of entries of a dictionary before they are validated. Raises `ValueError` otherwise."""
    if isinstance(value, dict) and len(value) > _MOST_FIELDS:
        raise ValueError(f"{len(value):,} fields; at most {_MOST_FIELDS:,} are possible")
    return value


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """Check that options are finite numbers, texts and short lists of them. Raises `ValueError` otherwise."""
    waiting: list[Any] = [value]
    for each in waiting:
        kind = type(each)
        if kind is float and not math.isfinite(each):
            raise ValueError("a number that is not finite")  # `1e999` in JSON is infinite
        if kind is int and not -(2**63) <= each < 2**64:
            raise ValueError("a whole number beyond 64 bits")
        if kind is str and len(each) > _MOST_CHARACTERS:
            raise ValueError(f"a text of {len(each):,} characters; at most {_MOST_CHARACTERS:,} are possible")
        if kind in _CONTAINERS:
            waiting += each.values() if kind is dict else each
    if len(waiting) > _MOST_FIELDS:
        raise ValueError(f"{len(waiting):,} values; at most {_MOST_FIELDS:,} are possible")
    return value


Many = Annotated[list[T], FailFast(), Field(max_length=2**17)]
Few = Annotated[dict[str, T], BeforeValidator(_few)]
Text = Annotated[str, Field(max_length=_MOST_CHARACTERS)]
Options = Annotated[dict[str, Any], AfterValidator(_plain)]

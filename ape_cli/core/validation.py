"""Checks of what is read from files: types for pydantic models, and names that become a part of a path."""

from __future__ import annotations

import re
from typing import Annotated, TypeVar

from pydantic import FailFast, Field, ValidationError

from ape_cli.core.errors import DataError

T = TypeVar("T")

HEX = r"^[0-9a-f]{64}$"  # a SHA-256 digest
LONGEST_NAME = 200  # characters; file systems allow 255, and temporary files add to a name
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

Whole = Annotated[int, Field(gt=-(2**63), lt=2**63)]
Scalar = bool | Whole | float | str  # a value of a setting in a file

Many = Annotated[list[T], FailFast()]
"""A list that may be long. Only its first invalid element is described."""


def first_error(error: ValidationError) -> str:
    """The first error of a model: the place of the field, if it is about one, and what is wrong with it."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")]))


def checked_name(what: str, name: str) -> str:
    """Return `name`, which is called `what` in errors, if a path may contain it as one component.

    Such a name has no separator, is not `.` or `..`, and does not hide a file. Raises `DataError` otherwise.

    >>> checked_name("task", "tree-copy")
    'tree-copy'
    >>> checked_name("task", "../copy")
    Traceback (most recent call last):
    ape_cli.core.errors.DataError: the task cannot be a part of a path
      got:     '../copy'
      allowed: at most 200 ASCII letters, digits, dots, hyphens and underscores; the first is a letter or a digit
      fix:     rename it
    """
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        allowed = (
            f"at most {LONGEST_NAME} ASCII letters, digits, dots, hyphens and underscores; "
            "the first is a letter or a digit"
        )
        got = ascii(name[:LONGEST_NAME])
        raise DataError(f"the {what} cannot be a part of a path", got=got, allowed=allowed, fix="rename it")
    return name

"""Types for pydantic models of what is read from files."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError

T = TypeVar("T")

HEX = r"^[0-9a-f]{64}$"  # a SHA-256 digest

Whole = Annotated[int, Field(gt=-(2**63), lt=2**63)]
Scalar = bool | Whole | float | str  # a value of a setting in a file

Many = Annotated[list[T], FailFast()]
"""A list that may be long. Only its first invalid element is described."""


class Checked(BaseModel):
    """Base class of what is read from a file: values of exactly these types, finite numbers, and no other fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def first_error(error: ValidationError) -> str:
    """The first error of a model: the place of the field, if it is about one, and what is wrong with it."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")]))

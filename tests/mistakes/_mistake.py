"""What a mistake is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    what: str
    where: str  # the qualified name of a function, a class or a constant, as `_place.py` says
    right: str  # an expression, a keyword argument or statements; stands there exactly once
    wrong: str  # what it is replaced with; empty to delete statements
    test: str  # in tests/

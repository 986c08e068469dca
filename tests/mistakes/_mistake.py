"""The description of a known mistake: where it is in the code and which test notices it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    what: str
    where: str  # the qualified name of a function, a class or a constant, as `_place.py` says
    right: str  # an expression, a keyword argument or statements; occurs there exactly once
    wrong: str  # the replacement; empty to delete statements
    test: str  # path and name, relative to tests/

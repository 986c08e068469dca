"""What a mistake is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    what: str
    file: str  # in ape_cli/
    right: str  # stands there exactly once
    wrong: str
    test: str  # in tests/

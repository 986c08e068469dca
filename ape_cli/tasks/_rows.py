"""Rows of tokens as flat arrays. Tasks draw sources and return targets in this form.

Shapes: R rows, T tokens in all, C coordinates of a position. All arrays are int64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ape_cli.core import ragged
from ape_cli.core.rng import I64


@dataclass(frozen=True)
class Tokens:
    """Rows of (position, symbol) pairs as flat arrays.

    Row r has the tokens `starts[r]` to `starts[r + 1] - 1`. Symbols are the ids that models read, from 3 on.
    """

    starts: I64  # [R+1], where each row begins, and the end
    position: I64  # [T], or [T, C] for a structure that has C > 1 simple factors
    symbol: I64  # [T]


@dataclass(frozen=True)
class Source(Tokens):
    """Sources before they are linearised, with the columns that `Task.answer` needs for each of them."""

    size: I64  # [R] length of a word, depth of a tree, longer side of a grid, number of places of a ring, and so on
    op: I64 | None = None  # [R] number of the row's operator, for tasks that have `ops`
    chosen: I64 | None = (
        None  # [R] what the row was asked for, for the task's own use; tree-ops: the root of the subtree
    )

    def take(self, rows: I64) -> Source:
        """Select rows, in the given order. `rows`: int64 [B], row numbers."""
        place, starts = ragged.take(self.starts, rows)
        op, chosen = (None if column is None else column[rows] for column in (self.op, self.chosen))
        return Source(starts, self.position[place], self.symbol[place], self.size[rows], op, chosen)


Rows = TypeVar("Rows", bound=Tokens)


def join(parts: list[Source]) -> Source:
    """Concatenate the rows of all parts. The parts have the same optional columns."""
    starts = ragged.starts_of(np.concatenate([np.diff(part.starts) for part in parts]))
    columns: dict[str, Any] = {}
    for name in ("position", "symbol", "size", "op", "chosen"):
        values = [getattr(part, name) for part in parts]
        columns[name] = None if values[0] is None else np.concatenate(values)
    return Source(starts, **columns)

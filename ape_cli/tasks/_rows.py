"""Rows of tokens, as flat arrays: what tasks draw and answer. Shapes: R rows, T tokens in all, C coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ape_cli.core import ragged
from ape_cli.core.rng import I64


@dataclass(frozen=True)
class Tokens:
    """Rows of (position, symbol) pairs, flat. `symbol` is a model id, from 3 on."""

    starts: I64  # [R+1]
    position: I64  # [T], or [T, C] for a structure of C > 1 simple factors
    symbol: I64  # [T]


@dataclass(frozen=True)
class Source(Tokens):
    """Sources before they are linearised, with what `answer` has to know about each."""

    size: I64  # [R] length of the word, depth of the tree
    op: I64 | None = None  # [R] tree-ops: which of the four
    chosen: I64 | None = None  # [R] tree-ops: the root of the chosen subtree, seen from the tree's root

    def take(self, rows: I64) -> Source:
        """The chosen rows, in the chosen order."""
        place, starts = ragged.take(self.starts, rows)
        return Source(
            starts=starts,
            position=self.position[place],
            symbol=self.symbol[place],
            size=self.size[rows],
            op=None if self.op is None else self.op[rows],
            chosen=None if self.chosen is None else self.chosen[rows],
        )


Rows = TypeVar("Rows", bound=Tokens)


def join(parts: list[Source]) -> Source:
    """All rows of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    starts = ragged.starts_of(np.concatenate([np.diff(p.starts) for p in parts]))

    def cat(name: str) -> Any:
        columns = [getattr(p, name) for p in parts]
        return None if columns[0] is None else np.concatenate(columns)

    return Source(
        starts=starts,
        position=cat("position"),
        symbol=cat("symbol"),
        size=cat("size"),
        op=cat("op"),
        chosen=cat("chosen"),
    )

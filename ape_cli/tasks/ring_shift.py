"""The task `ring-shift`: the target is a ring of symbols, rotated by an offset that precedes it in the source.

Shapes: R rows, n places of a ring.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.core import rng
from ape_cli.core.rng import U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Task, Tokens, letters, option


@dataclass(frozen=True, kw_only=True)
class RingShift(Task):
    """Rotate a ring of n symbols forward: the symbol at place i moves to place i + s modulo n.

    The source consists of the offset $s$ and the symbols at places $0..n-1$. The offset is a separate symbol at place
    0, the origin of the ring. The target is the rotated ring, from place 0. There is no EOS token, because the
    structure determines where a ring ends (paper, section 3.4.2: periodic domains). All rings have the same size. The
    task is ours.

    Raises `UsageError` if an option is out of range.

    >>> task = RingShift(ring=5)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> [task.id_names[i] for i in row["source_ids"]], row["source_positions"]
    (['+1', 'p', 'p', 'l', 'c', 'b'], [0, 0, 1, 2, 3, 4])
    >>> [task.id_names[i] for i in row["target_ids"]], row["target_positions"]
    (['b', 'p', 'p', 'l', 'c'], [0, 1, 2, 3, 4])
    """

    summary = "a ring of symbols rotated by an offset: +1 abcd -> dabc"
    source = "ours; the periodic domains of Algebraic Positional Encodings, section 3.4.2"
    default_for = "cyclic(n)"

    ring: int = option(20, "Number of places of the ring.", between=(2, 30_000))
    vocabulary: int = option(20, "Number of symbols, offsets not counted.", between=(1, 30_000))

    @property
    def structure(self) -> str:
        """The expression of the structure of the positions: a ring of n places."""
        return f"cyclic({self.ring})"

    def draw(self, key: U64) -> Source:
        """Draw one offset and one ring for each key. uint64 [R] -> `Source` of R rows with n + 1 tokens each"""
        rows, n = key.size, self.ring
        index = np.arange(n)
        word = rng.bits(rng.child(key, "symbols")[:, None], index)  # [R, n]
        offset = rng.below(rng.child(key, "offset"), n)
        symbol = np.column_stack([self.vocabulary + offset, rng.below(word, self.vocabulary)])
        position = np.tile(np.concatenate([[0], index]), rows)
        size = np.full(rows, n)
        return Source(np.arange(rows + 1) * (n + 1), position, FIRST_SYMBOL + symbol.ravel(), size)

    def target(self, source: Source) -> Tokens:
        """The target of each source: the turned ring, n tokens."""
        rows, n = source.size.size, self.ring
        symbol = source.symbol.reshape(rows, n + 1)
        offset = symbol[:, :1] - FIRST_SYMBOL - self.vocabulary
        before = (np.arange(n) - offset) % n  # where the symbol at each place of the target is in the source
        turned = np.take_along_axis(symbol[:, 1:], before, axis=1)
        return Tokens(np.arange(rows + 1) * n, np.tile(np.arange(n), rows), turned.ravel())

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the ring's symbols, then the offsets +0, +1 and so on."""
        return letters(self.vocabulary) + [f"+{s}" for s in range(self.ring)]

    @property
    def mean_size(self) -> float:
        """The number of places of a ring, which all rows share."""
        return float(self.ring)

    @property
    def mean_tokens(self) -> float:
        """The number of tokens of a source: the ring and the offset."""
        return self.ring + 1.0

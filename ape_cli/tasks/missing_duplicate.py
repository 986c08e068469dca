"""The task `missing-duplicate`: the target is the bit missing from a string that is written twice.

Source: the task "missing duplicate" of Deletang et al. 2023, "Neural Networks and the Chomsky Hierarchy"
(arXiv:2207.02098).

Deviation: by default, lengths are normally distributed; the published ones are uniform (`--sizes 1-40`).

Shapes: R rows, T tokens in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._words import SingleAnswer, single_tokens

_GAP, _PADDING = 2, 3  # the symbols after 0 and 1


@dataclass(frozen=True, kw_only=True)
class MissingDuplicate(SingleAnswer):
    """Find the bit that is missing from a string of bits written twice. The target is a single bit.

    `2` takes the place of the missing bit, which is drawn uniformly from both copies. If the length is odd, the source
    ends with the symbol `3`. A source of length 1 is `1`, and so is its target. The size of a source is its length.

    Each answer is right in half of the rows. The missing bit is the one that occurs an odd number of times, so a model
    that counts does not need positions.

    >>> task = MissingDuplicate(length_mean=9, length_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> "".join(task.id_names[i] for i in row["source_ids"]), task.id_names[row["target_ids"][0]]
    ('211011103', '1')
    """

    summary = "the bit missing from a string written twice: 01100210 -> 1"
    source = "Deletang et al. 2023, arXiv:2207.02098"

    def draw(self, key: U64) -> Source:
        """Draw a string and the place of its missing bit for each key. uint64 [R] -> `Source` of R rows"""
        size = self.draw_sizes(key)
        offsets = ragged.offsets_of(size)
        index, half = ragged.indices_of(offsets), np.repeat(size // 2, size)
        word = rng.bits(np.repeat(rng.child(key, "symbols"), size), index % np.maximum(half, 1))
        symbol = np.where(index < 2 * half, rng.below(word, 2), _PADDING)
        symbol[offsets[:-1] + rng.below(rng.child(key, "gap"), size // 2 * 2)] = _GAP
        symbol[offsets[:-1][size == 1]] = 1
        return Source(offsets, index, FIRST_SYMBOL + symbol, size)

    def target(self, source: Source) -> Tokens:
        """The target of each source: the bit at the same place of the other copy."""
        answer = source.offsets[:-1].copy()  # where the bit is written; a source without a gap is its own answer
        gap = np.flatnonzero(source.symbol == FIRST_SYMBOL + _GAP)
        row = ragged.rows_of(source.offsets)[gap]
        half = np.diff(source.offsets)[row] // 2
        answer[row] = gap + np.where(source.position[gap] < half, half, -half)
        return single_tokens(source.symbol[answer])

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the bits, the gap and the padding."""
        return ["0", "1", "2", "3"]

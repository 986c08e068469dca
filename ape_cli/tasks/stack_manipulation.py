"""The task `stack-manipulation`: the target is a stack after a list of instructions.

Source: the task "stack manipulation" of Deletang et al. 2023, "Neural Networks and the Chomsky Hierarchy"
(arXiv:2207.02098). The language is deterministic context-free.

Deviations: EOS takes the place of the termination token and of the padding after it. By default, lengths are normally
distributed; the published ones are uniform (`--sizes 1-40`).

Shapes: R rows, N tokens of the longest source.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._words import Sequences

_NAMES = ["0", "1", "POP", "PUSH 0", "PUSH 1"]
_POP, _PUSH = FIRST_SYMBOL + 2, FIRST_SYMBOL + 3


@dataclass(frozen=True, kw_only=True)
class StackManipulation(Sequences):
    """Execute instructions on a stack and return it, from top to bottom.

    The source is a stack of bits from bottom to top, followed by the instructions `POP`, `PUSH 0` and `PUSH 1`. `POP`
    does nothing if the stack is empty. The target is the stack after the last instruction, with the top first. It may
    be empty. The size of a source is its number of tokens.

    The number of bits is drawn uniformly from 1 to the size minus 1; a source of one token is a bit. Bits and
    instructions are drawn uniformly. From length 10 on, no constant target is right in more than 2% of the rows.

    >>> task = StackManipulation(length_mean=8, length_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> " ".join(task.id_names[i] for i in row["source_ids"]), " ".join(task.id_names[i] for i in row["target_ids"])
    ('1 1 PUSH 0 POP POP POP POP PUSH 1', '1')
    """

    summary = "a stack after instructions: 0 1 1 0 PUSH 1 POP POP -> 1 1 0"
    source = "Deletang et al. 2023, arXiv:2207.02098"

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the bits, then the instructions."""
        return _NAMES

    def draw(self, key: U64) -> Source:
        """Draw a stack and instructions for each key. uint64 [R] -> `Source` of R rows"""
        size = self.draw_sizes(key)
        bits = 1 + rng.below(rng.child(key, "bits"), np.maximum(size - 1, 1))
        offsets = ragged.offsets_of(size)
        index = ragged.indices_of(offsets)
        word = rng.bits(np.repeat(rng.child(key, "symbols"), size), index)
        symbol = np.where(index < np.repeat(bits, size), rng.below(word, 2), 2 + rng.below(word, 3))
        return Source(offsets, index, FIRST_SYMBOL + symbol, size)

    def target(self, source: Source) -> Tokens:
        """The target of each source: the symbols that no later `POP` removes, in reverse order."""
        length = np.diff(source.offsets)
        used = np.arange(length.max(initial=0)) < length[:, None]  # [R, N]
        step, bit = np.zeros((2, *used.shape), dtype=np.int64)
        step[used] = np.where(source.symbol == _POP, -1, 1)
        bit[used] = np.where(source.symbol < _POP, source.symbol, source.symbol - _PUSH + FIRST_SYMBOL)
        height = step.cumsum(axis=1)  # a `POP` of an empty stack lowers all later heights alike
        lowest = np.minimum.accumulate(height[:, ::-1], axis=1)[:, ::-1]  # from here to the end
        kept = (step > 0) & (height == lowest)
        offsets = ragged.offsets_of(kept.sum(axis=1))
        return Tokens(offsets, ragged.indices_of(offsets), bit[:, ::-1][kept[:, ::-1]])

    def expected_target_tokens(self) -> float:
        """The mean number of bits that are left: half of the source, and on average one for three instructions."""
        return max(1.0, 2 / 3 * self.expected_size())

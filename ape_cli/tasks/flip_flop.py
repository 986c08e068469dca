"""The task `flip-flop`: a memory is written and read, and the target lists the result of each read.

Source: Liu et al. 2023, "Exposing Attention Glitches with Flip-Flop Language Modeling", arXiv:2306.00946, section 3.

Deviations:

- The source trains a decoder on a single sequence, in which the answer follows each `read`. Here the encoder reads the
  instructions without answers, and the decoder writes all answers in order.
- The source uses sequences of 512 tokens, which is 256 instructions. Here the number of instructions is drawn from a
  normal distribution with mean 50.
- The source stores one of two symbols. Here their number is an option.

Shapes: R rows, I instructions in all, T tokens in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._words import Sequences

_NAMES = ["write", "ignore", "read"]
_WRITE, _IGNORE, _READ = range(FIRST_SYMBOL, FIRST_SYMBOL + len(_NAMES))


@dataclass(frozen=True, kw_only=True)
class FlipFlop(Sequences):
    """Return the symbol that was last written, at each read.

    The source is a list of instructions. `write` and `ignore` are each followed by a symbol drawn uniformly; `read`
    stands alone. The target has a symbol for each `read`, in order: that of the last `write` before it. As in the
    paper, the first instruction is `write` and the last is `read`, so no target is empty. The instructions between them
    are drawn independently. The size of a source is its number of instructions.

    A model that ignores the order of the instructions can answer each read with the symbol that is written most often.
    This is right for 68% of the reads at the default sizes and for 77% at preset `small`. The last symbol written in
    the source is right for 67% and 83%.

    With the default `read_share` of 0.5, an `ignore_probability` of $p$ gives the paper's FFL($p$). The default is
    FFL(0.8), on which the paper trains. It also evaluates on FFL(0.98) and FFL(0.1).

    Raises `UsageError` if an option is out of range.

    >>> task = FlipFlop(length_mean=6, ignore_probability=0.4)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> " ".join(task.id_names[i] for i in row["source_ids"]), " ".join(task.id_names[i] for i in row["target_ids"])
    ('write 1 read write 0 ignore 1 read', '1 0')
    """

    summary = "the symbol last written, at each read: write 1 ignore 0 read -> 1"
    source = "Liu et al. 2023, arXiv:2306.00946"
    size_words = ("instructions", "instructions of the source")

    length_mean: float = option(50.0, "Mean number of instructions.")
    length_std: float = option(5.0, "Standard deviation of the number of instructions.")
    ignore_probability: float = option(0.8, "Probability that an instruction is ignore.", between=(0.0, 1.0))
    read_share: float = option(0.5, "Share of read among the other instructions, read and write.", between=(0.0, 1.0))
    vocabulary: int = option(2, "Number of symbols that can be stored.", between=(1, 60_000))

    limits = (2, 30_000, "")

    @property
    def _read(self) -> float:
        """The probability of `read` between the first and the last instruction."""
        return (1 - self.ignore_probability) * self.read_share

    def draw(self, key: U64) -> Source:
        """Draw instructions and their symbols for each key. uint64 [R] -> `Source` of R rows"""
        size = self.draw_sizes(key)
        begin = ragged.offsets_of(size)
        index = ragged.indices_of(begin)  # [I]
        uniform = rng.uniform(rng.bits(np.repeat(rng.child(key, "orders"), size), index))
        order = np.where(uniform < self._read, _READ, _WRITE)
        order[uniform >= 1 - self.ignore_probability] = _IGNORE
        order[begin[:-1]] = _WRITE
        order[begin[1:] - 1] = _READ
        data = rng.below(rng.bits(np.repeat(rng.child(key, "data"), size), index), self.vocabulary)
        pair = np.column_stack([order, _READ + 1 + data])  # [I, 2]
        kept = np.column_stack([np.ones(order.size, dtype=bool), order != _READ])
        offsets = ragged.offsets_of(np.add.reduceat(kept.sum(axis=1), begin[:-1]))
        return Source(offsets, ragged.indices_of(offsets), pair[kept], size)

    def target(self, source: Source) -> Tokens:
        """The target of each source: the stored symbol at each read."""
        written = np.where(source.symbol == _WRITE, np.arange(source.symbol.size), 0)
        last = np.maximum.accumulate(written)  # [T] place of the last write; the first token of a row is a write
        reads = source.symbol == _READ
        offsets = ragged.offsets_of(np.add.reduceat(reads, source.offsets[:-1], dtype=np.int64))
        return Tokens(offsets, ragged.indices_of(offsets), source.symbol[last[reads] + 1])

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the instructions, then the symbols 0, 1 and so on."""
        return _NAMES + [str(i) for i in range(self.vocabulary)]

    def expected_tokens(self) -> float:
        """The mean number of tokens of a source: 3 of the first and the last instruction, 1 or 2 of each other one."""
        return 3 + (self.length_mean - 2) * (2 - self._read)

    def expected_target_tokens(self) -> float:
        """The mean number of reads."""
        return 1 + (self.length_mean - 2) * self._read

"""The base class of the word tasks. The vocabulary is small, so symbols repeat.

In the paper (appendix B), lengths are drawn from a discretised normal distribution with mean 100 and standard deviation
10, and there are 20 symbols. Positions are $0..n-1$.

Shapes: R words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks._base import option
from ape_cli.tasks._sized import Sized
from ape_cli.tasks._task import Source, Tokens, letters


@dataclass(frozen=True, kw_only=True)
class Sequences(Sized):
    """A sequence of random length. Subclasses define its symbols and the target."""

    structure = "seq"
    extent = "length"

    length_mean: float = option(100.0, "Mean length of a word, in symbols.")
    length_std: float = option(10.0, "Standard deviation of the length.")

    @property
    def limits(self) -> tuple[int, int, str]:
        """The smallest and the largest length, and a reason for the largest."""
        return 1, 60_000, ""


@dataclass(frozen=True, kw_only=True)
class Words(Sequences):
    """A word of symbols drawn uniformly. Subclasses define the target.

    Raises `UsageError` if an option is out of range.
    """

    vocabulary: int = option(20, "Number of symbols.", between=(1, 60_000))

    def draw(self, key: U64) -> Source:
        """Draw one word for each key. uint64 [R] -> `Source` of R rows"""
        return random_words(key, self.length_mean, self.length_std, self.vocabulary)

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on."""
        return letters(self.vocabulary)


@dataclass(frozen=True, kw_only=True)
class SingleAnswer(Sequences):
    """A sequence whose target is a single token."""

    def expected_target_tokens(self) -> float:
        """The number of tokens of a target."""
        return 1.0


def random_words(key: U64, mean: float, std: float, symbols: int) -> Source:
    """Draw one word for each key, uint64 [R]. Its length is drawn from N(mean, std), its symbols are drawn uniformly.

    The ids of the symbols are 3, 4 and so on. The size of each row is the length of its word.
    """
    size = rng.normal(rng.child(key, "size"), mean, std, 1, 65_535)
    offsets = ragged.offsets_of(size)
    index = ragged.indices_of(offsets)
    word = rng.bits(np.repeat(rng.child(key, "symbols"), size), index)
    return Source(offsets, index, FIRST_SYMBOL + rng.below(word, symbols), size)


def single_tokens(symbol: I64) -> Tokens:
    """Targets of one token each. int64 [R], ids -> `Tokens` of R rows"""
    return Tokens(np.arange(symbol.size + 1), np.zeros_like(symbol), symbol)

"""The task `repeat`: the target is the word, several times in a row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.core import ragged
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._sized import check_amount
from ape_cli.tasks._words import Words


@dataclass(frozen=True, kw_only=True)
class Repeat(Words):
    """Write a word twice in a row, or `repeats` times.

    Raises `UsageError` if an option is out of range.

    >>> row = Repeat(length_mean=8).sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> row["source_ids"] * 2 == row["target_ids"]
    True
    """

    summary = "the word twice in a row: abc -> abcabc"
    answer_options = ("repeats",)

    repeats: int = option(2, "Number of times that the word is written.", between=(1, 1_000_000))

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range."""
        super().check()
        check_amount("symbols of a target", self.repeats * (self.length_mean + 4 * self.length_std), 1_000_000)

    def expected_target_tokens(self) -> float:
        """The mean number of symbols of a target."""
        return self.expected_tokens() * self.repeats

    def target(self, source: Source) -> Tokens:
        """The target of each source: the repeated word, whose positions count on."""
        rows = np.arange(source.size.size)
        index, _ = ragged.take(source.offsets, np.repeat(rows, self.repeats))
        offsets = source.offsets * self.repeats
        position = ragged.indices_of(offsets)
        return Tokens(offsets, position, source.symbol[index])

"""The task `indirect-indexing`: the target is the symbol at a shift from a given symbol of a string.

Source: Gopalakrishnan et al. 2025, "Decoupling the What and Where With Polar Coordinate Positional Embeddings",
arXiv:2509.10534, section 4 and appendix A.1. There, strings are 20 to 40 of the 52 letters without repetition, shifts
are from -15 to +15, a row is `STRING, LETTER, SHIFT, TARGET` with a token for each character, and the splits have
1,000,000, 10,000 and 10,000 rows. A decoder (width 512, 8 layers, 100,000 steps of 64 rows, loss on the target alone)
reaches 11.16 ±2.45% with RoPE and 94.82 ±2.91% with PoPE (3 seeds).

Deviations: EOS takes the place of the last comma. Models also learn to write an EOS after the answer. No shift is 0,
because its answer would be part of the question; the source does not exclude 0. The source does not say what it does
with shifts that leave the string; here, all pairs of a symbol and a shift that have an answer are equally likely.
Lengths are drawn from a normal distribution; with `--sizes 20-40`, all lengths of the source are equally frequent.

Shapes: R rows, N symbols of the longest string, D distances, T tokens in all.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens, letters, option
from ape_cli.tasks._words import SingleAnswer, single_tokens
from ape_cli.tasks.associative_recall import distinct

_SIGNS = ["+", "-", ","]  # their ids follow those of the digits, in this order


@dataclass(frozen=True, kw_only=True)
class IndirectIndexing(SingleAnswer):
    """Return the symbol at a shift from a given symbol of a string.

    The source is a string of distinct symbols, a comma, one of its symbols, a comma, and a shift: a sign and the
    digits of a number. `-3` asks for the symbol three places to the left. The target is a single symbol. The size of a
    source is the length of its string.

    Strings are drawn uniformly. For a string of length $n$, all pairs of a symbol and a shift that have an answer are
    equally likely. There are $2(mn - m(m + 1)/2)$ of them, where $m$ is the smaller of `shift_max` and $n - 1$. Guesses
    that use only part of the question are right in few rows:

    | what is known | guess | share | length 30, shifts up to 15 |
    |---|---|---|---:|
    | the string | the symbol in its middle | at most $1/(n - (m + 1)/2)$ | 4.4% |
    | the shift | a place that it can lead to | $1/(n - (m + 1)/2)$ | 4.5% |
    | the symbol and the sign | the next symbol on that side | $(n - 1)/(mn - m(m + 1)/2)$ | 8.8% |

    With short strings or few shifts, the last guess is better: it is always right if `shift_max` is 1.

    Raises `UsageError` if an option is out of range.

    >>> task = IndirectIndexing(length_mean=8, length_std=1, shift_max=4)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> "".join(task.id_names[i] for i in row["source_ids"]), task.id_names[row["target_ids"][0]]
    ('NPCgdejJMi,j,+2', 'M')
    """

    form_options = ("shift_max",)
    summary = "the symbol at a shift from a given one: ABSCOPZG,Z,-3 -> C"
    source = "Gopalakrishnan et al. 2025, arXiv:2509.10534"
    size_words = ("length", "length of the string")
    preset_options: ClassVar = {  # `small` can be learned, but takes a few thousand steps
        "small": {"length_mean": 6.0, "length_std": 0.5, "shift_max": 3, "vocabulary": 10}
    }

    length_mean: float = option(30.0, "Mean length of the string, in symbols.")
    length_std: float = option(3.0, "Standard deviation of the length.")
    shift_max: int = option(15, "Largest shift to either side.", between=(1, 99))
    vocabulary: int = option(52, "Number of symbols of strings.", between=(2, 30_000))

    @property
    def limits(self) -> tuple[int, int, str]:
        """The smallest and the largest length, and the reason for the largest."""
        return 2, min(self.vocabulary, 10_000), " (no more than `vocabulary`, because the symbols of a string differ)"

    def draw(self, key: U64) -> Source:
        """Draw a string, one of its symbols and a shift for each key. uint64 [R] -> `Source` of R rows"""
        size = self.draw_sizes(key)
        word = distinct(rng.child(key, "symbols"), int(size.max(initial=0)), self.vocabulary)  # [R, N]
        last = self._pairs(size)  # [R, D]
        pair = rng.below(rng.child(key, "pair"), last[:, -1])
        distance = 1 + (pair[:, None] >= last).sum(axis=1)
        left = pair - np.take_along_axis(last, distance[:, None] - 1, axis=1)[:, 0] + size - distance
        back = rng.below(rng.child(key, "side"), 2)  # 1 if the answer is to the left of the given symbol
        given = np.take_along_axis(word, (left + back * distance)[:, None], axis=1)[:, 0]
        digit, comma = self.vocabulary, np.full(key.size, self.vocabulary + 12)
        question = [comma, given, comma, digit + 10 + back, digit + distance // 10, digit + distance % 10]
        used = np.ones((key.size, word.shape[1] + len(question)), dtype=bool)
        used[:, : word.shape[1]] = np.arange(word.shape[1]) < size[:, None]
        used[:, -2] = distance > 9
        offsets = ragged.offsets_of(used.sum(axis=1))
        symbol = FIRST_SYMBOL + np.column_stack([word, *question])[used]
        return Source(offsets, ragged.indices_of(offsets), symbol, size)

    def _pairs(self, size: I64) -> I64:
        """The number of pairs of places that are at most 1, 2, … places apart. int64 [R] -> int64 [R, D]

        The length of a string bounds its distances.
        """
        distance = np.minimum(np.arange(1, self.shift_max + 1), size[:, None] - 1)
        return distance * size[:, None] - distance * (distance + 1) // 2

    def target(self, source: Source) -> Tokens:
        """The target of each source: the symbol at the shift, one token."""
        begin, end, row = source.offsets[:-1], source.offsets[1:], ragged.rows_of(source.offsets)
        digit = FIRST_SYMBOL + self.vocabulary
        given = source.symbol[begin + source.size + 1]
        place = np.flatnonzero((source.symbol == given[row]) & (source.position < source.size[row]))  # [R]
        tens = np.where(end - begin - source.size == 6, source.symbol[end - 2] - digit, 0)
        distance = 10 * tens + source.symbol[end - 1] - digit
        back = source.symbol[begin + source.size + 3] == digit + 11
        return single_tokens(source.symbol[place + np.where(back, -distance, distance)])

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the symbols of strings, the digits, the signs and the comma."""
        own = string.ascii_letters[: self.vocabulary] if self.vocabulary <= 52 else letters(self.vocabulary)
        return [*own, *string.digits, *_SIGNS]

    def expected_tokens(self) -> float:
        """The mean number of tokens of a source: the string, two commas, the symbol, the sign and the digits."""

        def long(size: int) -> float:
            pairs = self._pairs(np.array([size]))[0]
            return float(1 - pairs[8] / pairs[-1]) if self.shift_max > 9 else 0.0

        return self.expected_size() + 5 + self.expected(long)

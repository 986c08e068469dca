"""The task `addition`: the target is the sum of two numbers, digit by digit.

Sources:

- McLeish et al. 2024, "Transformers Can Do Arithmetic with the Right Embeddings", arXiv:2405.17399: reversed numbers,
  up to 20 digits in training.
- Zhou et al. 2024, "Transformers Can Achieve Length Generalization But Not Robustly", arXiv:2402.09371: reversed
  numbers, index hints with a random start.

Deviations:

- The sources train a decoder on `12+34=46`. Here the encoder reads `12+34`; its EOS token takes the role of `=`.
- The number of digits is drawn from a normal distribution.
- Zhou et al. write index hints as letters. Here they are `#0`, `#1` and so on. They count from the least significant
  digit, whether or not numbers are reversed, so digits of equal place value always have equal hints.

Shapes: R rows, so 2R numbers to add; N numbers, D digits in all. In arrays of digits, the least significant digit of a
number comes first. The place of a digit is its distance from that digit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens, check_whole, option
from ape_cli.tasks._sized import Sized

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_MAX_DIGITS = 10_000


@dataclass(frozen=True, kw_only=True)
class Addition(Sized):
    """Add two numbers.

    The source consists of the digits of one number, the symbol `+`, and the digits of another number. The target
    consists of the digits of the sum, which may be one digit longer than the longer number.

    The lengths of the two numbers are drawn independently from a discretised normal distribution, and the digits
    uniformly. Leading zeros are excluded, so only a number of one digit can be 0. The two digits in a place propagate a
    carry with probability 1/base. Long chains of carries are therefore rare: in base 10, a carry propagates through the
    next $k$ places with probability $10^{-k}$.

    The size of a source is the number of digits of the longer number. With `sizes`, both numbers have exactly that many
    digits.

    In `binary-addition` of Deletang et al. 2023, the two numbers share a given length and may have leading zeros.

    Padding (`pad`) puts digits of equal place value at equal distances. With `index_hints`, the hint `#p` precedes the
    digit of place $p$. `random_start` shifts the hints of a row by a random amount that leaves enough hints for the
    sum.

    Raises `UsageError` if an option is out of range, or if there are fewer index symbols than a sum may have digits.

    >>> task = Addition(digits_mean=3, digits_std=1)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> " ".join(task.id_names[i] for i in row["source_ids"]), " ".join(task.id_names[i] for i in row["target_ids"])
    ('8 3 5 2 + 1 8 9', '8 5 4 1')
    """

    structure = "seq"
    summary = "the sum of two numbers: 12+34 -> 46"
    source = "McLeish et al. 2024, arXiv:2405.17399; index hints: Zhou et al. 2024, arXiv:2402.09371"
    extent = "digits"
    answer_options = ("reverse", "pad", "index_hints")
    form_options = ("base", "reverse", "pad", "index_hints", "index_symbols", "random_start")
    size_words = ("digits", "digits of the longer number")
    preset_options: ClassVar = {
        "small": {"digits_mean": 3, "digits_std": 1, "reverse": True, "pad": True},  # what 800 steps can learn
        "tiny": {"digits_mean": 2, "digits_std": 0.5},
    }

    digits_mean: float = option(20.0, "Mean number of digits of a number.")
    digits_std: float = option(5.0, "Standard deviation of the number of digits.")
    base: int = option(10, "Base of the numbers.", between=(2, len(_DIGITS)))
    reverse: bool = option(False, "Write numbers with the least significant digit first.")
    pad: bool = option(False, "Pad numbers with leading zeros to one digit more than the longer one has.")
    index_hints: bool = option(False, "Write an index symbol before each digit; equal place values have equal symbols.")
    index_symbols: int = option(0, "Number of index symbols; 0 for those that a sum needs.", between=(0, 30_000))
    random_start: bool = option(False, "Draw the index symbol of the ones digit at random.")

    limits = (1, _MAX_DIGITS, "")

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range, or if there are too few index symbols."""
        super().check()
        if bool(self.index_symbols) > self.index_hints or self.random_start > bool(self.index_symbols):
            fix = f"for a random start, give `index_hints` and `index_symbols={2 * self._max_digits}` as well"
            raise UsageError("index symbols need index hints, and a random start needs index symbols", fix=fix)
        if self.index_symbols:
            check_whole("index_symbols", self.index_symbols, self._max_digits + 1, 30_000)

    @property
    def _max_digits(self) -> int:
        """The largest number of digits that is drawn: 6 standard deviations above the mean."""
        return math.floor(self.digits_mean + 6 * self.digits_std + 0.5)

    @property
    def _hints(self) -> int:
        """The number of index symbols in the vocabulary."""
        return (self.index_symbols or max(part._max_digits for part in self.parts) + 1) if self.index_hints else 0

    @property
    def _plus(self) -> int:
        """The id of the symbol `+`. The ids of index symbols follow it."""
        return FIRST_SYMBOL + self.base

    def draw(self, key: U64) -> Source:
        """Draw two numbers for each key. uint64 [R] -> `Source` of R rows"""
        number = np.column_stack([rng.child(key, "first"), rng.child(key, "second")]).ravel()  # [2R]
        count = rng.normal(rng.child(number, "digits"), self.digits_mean, self.digits_std, 1, self._max_digits)
        size = count.reshape(-1, 2).max(axis=1)
        width = np.repeat(size + 1, 2) if self.pad else count
        place = ragged.indices_of(ragged.offsets_of(width))
        beyond = place - np.repeat(count, width)  # -1 at the most significant digit, 0 and more at padding
        leading = (beyond == -1) & (place > 0)
        word = rng.bits(np.repeat(rng.child(number, "values"), width), place)
        digit = np.where(beyond < 0, leading + rng.below(word, self.base - leading), 0)
        first = np.zeros_like(size)
        if self.random_start:
            first = rng.below(rng.child(key, "start"), self.index_symbols - size)
        offsets, symbol = self._written(digit, width, np.repeat(first, 2))
        symbol = np.insert(symbol, offsets[1::2], self._plus)
        offsets = offsets[::2] + np.arange(size.size + 1)
        return Source(offsets, ragged.indices_of(offsets), symbol, size)

    def _read(self, source: Source) -> tuple[I64, I64, I64]:
        """The digits of sources: the number that each belongs to, two for each row; its place; and where it is written.

        Returns int64 [D] each.
        """
        row = ragged.rows_of(source.offsets)
        at = np.flatnonzero(source.symbol < self._plus)  # the digits
        number = (2 * row + np.cumsum(source.symbol == self._plus) - row)[at]  # of the two of each row
        count = np.bincount(number, minlength=2 * source.size.size)
        place = ragged.indices_of(ragged.offsets_of(count))
        if not self.reverse:
            place = count[number] - 1 - place
        return number, place, at

    def identity(self, source: Source) -> Tokens:
        """The digits above 0 of both numbers with their places, which decide the split of a sum.

        So a sum is in one split, however it is written: with the numbers exchanged, with hints from another start, or
        padded. A few other sums are in the same split, because digits of one place may change between the numbers.
        """
        number, place, at = self._read(source)
        value = source.symbol[at] - FIRST_SYMBOL
        kept = np.flatnonzero(value)
        offsets = ragged.offsets_of(np.bincount(number[kept] // 2, minlength=source.size.size))
        return Tokens(offsets, place[kept], value[kept])

    def target(self, source: Source) -> Tokens:
        """The target of each source: the sum of its two numbers, which is exact for any number of digits."""
        rows = source.size.size
        number, place, at = self._read(source)
        count = np.bincount(number, minlength=2 * rows)
        width = count.reshape(rows, 2).max(axis=1) + (not self.pad)
        offsets = ragged.offsets_of(width)
        total = np.zeros(offsets[-1], dtype=np.int64)
        for which in (0, 1):
            here = number % 2 == which
            total[offsets[number[here] // 2] + place[here]] += source.symbol[at[here]] - FIRST_SYMBOL
        digit = carried(total, offsets, self.base)
        if not self.pad:
            kept = np.ones(digit.size, dtype=bool)
            kept[offsets[1:] - 1] = digit[offsets[1:] - 1] > 0  # whether the last carry gave the sum a digit more
            digit, width = digit[kept], np.add.reduceat(kept, offsets[:-1], dtype=np.int64)
        first = np.zeros(rows, dtype=np.int64)
        if self.index_hints:
            ones = at[(place == 0) & (number % 2 == 0)]
            first = source.symbol[ones - 1] - self._plus - 1
        offsets, symbol = self._written(digit, width, first)
        return Tokens(offsets, ragged.indices_of(offsets), symbol)

    def _written(self, digit: I64, width: I64, first: I64) -> tuple[I64, I64]:
        """Write numbers as symbols, in the order of the options and with their index hints.

        `digit`: int64 [D]; `width`: int64 [N], the number of digits of each number; `first`: int64 [N], the index hint
        of its ones. Returns where each number begins, and the end, int64 [N+1]; and the symbols, int64 [D], or [2D]
        with hints.
        """
        offsets = ragged.offsets_of(width)
        place = ragged.indices_of(offsets)
        if not self.reverse:
            place = np.repeat(width, width) - 1 - place
        symbol = FIRST_SYMBOL + digit[np.repeat(offsets[:-1], width) + place]
        if not self.index_hints:
            return offsets, symbol
        hint = self._plus + 1 + np.repeat(first, width) + place
        return 2 * offsets, np.column_stack([hint, symbol]).ravel()

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the digits, `+`, and the index symbols `#0`, `#1` and so on."""
        return [*_DIGITS[: self.base], "+", *(f"#{i}" for i in range(self._hints))]

    def expected_size(self) -> float:
        """The mean number of digits of the longer number."""
        return rng.mean_of_largest(self._chances, 1)

    def expected_tokens(self) -> float:
        """The mean number of tokens of a source: two numbers with their hints, and `+`."""
        chance = self._chances
        mean = self.expected_size() + 1 if self.pad else float(chance @ np.arange(1, chance.size + 1))
        return 2 * mean * (1 + self.index_hints) + 1

    def expected_target_tokens(self) -> float:
        """The mean number of tokens of a target, at most: one digit more than the longer number has, with hints."""
        return (self.expected_size() + 1) * (1 + self.index_hints)

    @property
    def _chances(self) -> np.ndarray:
        """The probability that a number has n digits, for n = 1 .. `_max_digits`: float64 [`_max_digits`]."""
        return rng.normal_chances(self.digits_mean, self.digits_std, 1, self._max_digits)


def carried(total: I64, offsets: I64, base: int) -> I64:
    """The digits of sums, from the sums of the digits at each place.

    A place whose digits sum to base - 1 passes on the carry that it gets. Any other place carries if and only if its
    digits sum to base or more. So the carry into a place comes from the nearest lower place that is not base - 1, and
    no loop over places is needed (carry lookahead).

    `total`: int64 [D], from 0 to 2 (base - 1), where row r is `total[offsets[r]:offsets[r + 1]]`; no row is empty.
    `offsets`: int64 [N+1]. Returns int64 [D]. A carry out of the last place of a row is dropped.

    >>> carried(np.array([9, 10, 9, 0, 10, 9, 9, 0]), np.array([0, 4, 8]), 10)
    array([9, 0, 0, 1, 0, 0, 0, 1])
    """
    decides = np.where(total == base - 1, 0, np.arange(total.size))
    decides[offsets[:-1]] = offsets[:-1]  # no carry comes from below the ones
    carries = total[np.maximum.accumulate(decides)] >= base
    into = np.zeros_like(total)
    into[1:] = carries[:-1]
    into[offsets[:-1]] = 0
    return (total + into) % base

"""Binary numbers: drawn as bits, read as Python's integers, and written as tokens. They are exact at any length.

The least significant bit comes first.

Shapes: R rows, N numbers, T bits or tokens in all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._words import Sequences

_SIGN = FIRST_SYMBOL + 2  # the symbol after 0 and 1


@dataclass(frozen=True, kw_only=True)
class BinaryOperation(Sequences):
    """Two binary numbers with a sign between them. Subclasses define the sign and the target.

    The sign is equally likely at each place except the first and the last. Each number is then uniform on
    $1..2^w - 1$, where $w$ is the number of its bits, so leading zeros occur. Sources of length 1 or 2 have no sign.
    They are a number, uniform on $0..2^n - 2$ for length $n$.
    """

    source = "Deletang et al. 2023, arXiv:2207.02098"
    sign: ClassVar[str]

    def draw(self, key: U64) -> Source:
        """Draw two numbers for each key. uint64 [R] -> `Source` of R rows"""
        size = self.draw_sizes(key)
        short = size < 3
        sign = np.where(short, size, 1 + rng.below(rng.child(key, "sign"), np.maximum(size - 2, 1)))
        width = np.column_stack([sign, size - 1 - sign])  # [R, 2]
        number = np.column_stack([rng.child(key, "first"), rng.child(key, "second")])
        written = width > 0  # all except the second number of short sources
        offsets = ragged.offsets_of(size)
        index = ragged.indices_of(offsets)
        symbol = np.full(index.size, _SIGN)
        symbol[index != np.repeat(sign, size)] = FIRST_SYMBOL + positive(number[written], width[written])
        flipped = np.repeat(short, size)  # this turns 1 .. 2^n - 1 into 2^n - 2 .. 0
        symbol[flipped] = 2 * FIRST_SYMBOL + 1 - symbol[flipped]
        return Source(offsets, index, symbol, size)

    def _bits(self, source: Source) -> tuple[I64, I64]:
        """The bits of the two numbers of each source, int64 [T], and their offsets, int64 [2R+1]."""
        first, row = source.offsets[:-1], ragged.rows_of(source.offsets)
        signs = np.cumsum(source.symbol == _SIGN)
        number = 2 * row + signs - signs[first][row]  # no source begins with a sign
        is_bit = source.symbol != _SIGN
        count = np.bincount(number[is_bit], minlength=2 * first.size)
        return source.symbol[is_bit] - FIRST_SYMBOL, ragged.offsets_of(count)

    def identity(self, source: Source) -> Tokens:
        """The ones of both numbers with their places, which decide the split of a source.

        So two numbers are in one split, also in the other order or with more zeros. A few other pairs are in the same
        split, because ones of one place may change between the numbers.
        """
        bit, offsets = self._bits(source)
        ones = np.flatnonzero(bit)
        count = np.bincount(ragged.rows_of(offsets)[ones] // 2, minlength=source.size.size)
        return Tokens(ragged.offsets_of(count), ragged.indices_of(offsets)[ones], bit[ones])

    def numbers(self, source: Source) -> Iterator[tuple[int, int]]:
        """The two numbers of each source. The second one is 0 if there is no sign."""
        numbers = integers(*self._bits(source))
        return zip(numbers[::2], numbers[1::2], strict=True)

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the bits and the sign."""
        return ["0", "1", self.sign]


def positive(key: U64, width: I64) -> I64:
    """The bits of a number for each key, uniform on 1 .. 2^width - 1. A number that is 0 is drawn again.

    `key`: uint64 [N]; `width`: int64 [N], from 1. Returns int64 [T].
    """
    offsets = ragged.offsets_of(width)
    bit = np.zeros(offsets[-1], dtype=np.int64)
    pending = np.arange(width.size)
    while pending.size:
        at, cut = ragged.take(offsets, pending)
        bit[at] = rng.below(rng.bits(np.repeat(key[pending], width[pending]), ragged.indices_of(cut)), 2)
        pending = pending[np.add.reduceat(bit[at], cut[:-1]) == 0]
        key = rng.child(key, "again")
    return bit


def integers(bit: I64, offsets: I64) -> list[int]:
    """The numbers with these bits. int64 [T], int64 [N+1] -> N numbers. A number without bits is 0.

    >>> integers(np.array([0, 1, 1]), np.array([0, 2, 3, 3]))
    [2, 1, 0]
    """
    begin = ragged.offsets_of(-(-np.diff(offsets) // 8))  # of the bytes of each number
    padded = np.zeros(8 * begin[-1], dtype=np.uint8)
    padded[ragged.ranges(8 * begin[:-1], offsets)] = bit
    data = np.packbits(padded, bitorder="little").tobytes()
    return [int.from_bytes(data[i:j], "little") for i, j in pairwise(begin.tolist())]


def tokens(numbers: list[int], shortest: I64 | int = 1) -> Tokens:
    """The tokens of N numbers, each with at least so many bits. `shortest`: int64 [N], or one for all.

    >>> tokens([2, 0]).symbol - FIRST_SYMBOL
    array([0, 1, 0])
    """
    width = np.maximum(np.array([number.bit_length() for number in numbers], dtype=np.int64), shortest)
    size = -(-width // 8)  # in bytes
    data = b"".join(number.to_bytes(count, "little") for number, count in zip(numbers, size.tolist(), strict=True))
    offsets = ragged.offsets_of(width)
    bit = np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little").astype(np.int64)
    bit = bit[ragged.ranges(8 * ragged.offsets_of(size)[:-1], offsets)]
    return Tokens(offsets, ragged.indices_of(offsets), FIRST_SYMBOL + bit)

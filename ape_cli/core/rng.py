"""Counter-based random numbers: each row has its own stream, and each draw of a stream has an address.

A stream is a 64-bit key. The draw at address `i` is `mix(key + i * GAMMA)`, which is the SplitMix64 generator (Steele,
Lea and Flood 2014, "Fast splittable pseudorandom number generators", figure 17) evaluated at any position. Therefore a
row depends only on (seed, split, row). It does not depend on other rows, on their number, or on the process that
generates it. All functions work on whole arrays and have no state.

Shapes: any, by broadcasting, unless a function says otherwise. R rows, T tokens in all, C coordinates of a position.
Words and keys are uint64, and their arithmetic wraps.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd


_STEP = 32_768  # words that fit into the cache of a core, together with as many of scratch memory


def mix(x: U64) -> U64:
    """The finaliser of SplitMix64, a bijection on 64-bit words [...]. The argument is not changed."""
    return _mixed(np.array(x, dtype=np.uint64, order="C"))


def _mixed(x: U64) -> U64:
    """Apply `mix` in place to a contiguous array that the caller owns.

    The eight passes are made over blocks of words that stay in the cache.
    """
    flat = x.reshape(-1)
    scratch = np.empty(min(_STEP, flat.size), dtype=np.uint64)
    for first in range(0, flat.size, _STEP):
        part = flat[first : first + _STEP]
        shifted = scratch[: part.size]
        part ^= np.right_shift(part, np.uint64(30), out=shifted)
        part *= np.uint64(0xBF58476D1CE4E5B9)
        part ^= np.right_shift(part, np.uint64(27), out=shifted)
        part *= np.uint64(0x94D049BB133111EB)
        part ^= np.right_shift(part, np.uint64(31), out=shifted)
    return x


def unsigned(x: np.ndarray) -> U64:
    """Convert integers [...] to uint64, wrapping. An array of 64-bit integers is viewed, not copied."""
    return x.view(np.uint64) if x.dtype == np.int64 else x.astype(np.uint64, copy=False)


def bits(key: U64, address: U64 | I64) -> U64:
    """64 random bits for each key at each address. uint64 [...], which are broadcast against each other -> uint64 [...]

    >>> bits(np.uint64([1234567]), np.uint64([1, 2]))  # SplitMix64 seeded with 1234567
    array([6457827717110365317, 3203168211198807973], dtype=uint64)
    """
    return _mixed(np.asarray(key + unsigned(np.asarray(address)) * _GAMMA, order="C"))


def below(word: U64, bound: I64 | int) -> I64:
    """Map random words to integers, uniform on 0 .. bound-1. uint64 [...] -> int64 [...]

    It uses the upper half of each word. The bias is below bound / 2^32.
    """
    scaled = (word >> np.uint64(32)) * unsigned(np.asarray(bound))
    scaled >>= np.uint64(32)
    return scaled.view(np.int64)


def uniform(word: U64) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), multiples of 2^-53. uint64 -> float64, in the shape of `word`"""
    return (word >> np.uint64(11)).astype(np.float64) * 2.0**-53


def child(key: U64, label: str) -> U64:
    """An independent stream for each key, uint64 [...].

    `label` says what the stream is for. Only its first eight bytes count."""
    word = np.uint64(int.from_bytes(label.encode()[:8].ljust(8, b"\0"), "little"))
    return mix(mix(key ^ word) + _GAMMA)


def rows(seed: int, split: str, index: U64 | I64) -> U64:
    """The key of each row of a split. `index`: [R]. Returns uint64 [R]."""
    root = child(mix(np.array([seed % 2**64], dtype=np.uint64) + _GAMMA), split)
    return bits(root, index)


def normal(key: U64, mean: float, std: float, low: int, high: int) -> I64:
    """Sample the discretised normal distribution: N(mean, std^2), rounded to the nearest integer.

    One value is drawn for each key: uint64 [R] -> int64 [R]. A value outside low..high is drawn again. Thus the tails
    are cut off and do not pile up at the limits.
    """
    out = np.full(key.shape, low - 1, dtype=np.int64)
    pending = np.arange(key.size)
    for attempt in range(1000):
        u = uniform(bits(key[pending, None], np.array([2 * attempt, 2 * attempt + 1])))
        z = np.sqrt(-2.0 * np.log1p(-u[:, 0])) * np.cos(2.0 * np.pi * u[:, 1])  # Box and Muller
        value = np.floor(mean + std * z + 0.5)
        good = (value >= low) & (value <= high)
        out[pending[good]] = value[good].astype(np.int64)
        pending = pending[~good]
        if not pending.size:
            return out
    raise AssertionError("the caller has to see to it that low..high holds some of the distribution")


def normal_chances(mean: float, std: float, low: int, high: int) -> NDArray[np.float64]:
    """The probability of each value that `normal` may draw, low to high. float64 [high - low + 1]"""
    edges = np.arange(low, high + 2) - 0.5 - mean
    if std == 0:
        chance = np.diff((edges > 0).astype(float))
    else:
        chance = np.diff([math.erf(x / (std * math.sqrt(2))) for x in edges])
    return chance / chance.sum()


def mean_of_largest(chance: NDArray[np.float64], low: int, count: int = 2) -> float:
    """The mean of the largest of `count` independent values.

    `chance`: float64 [n], the probabilities of the values low, low + 1 and so on.
    """
    largest = np.diff(np.cumsum(chance) ** count, prepend=0.0)
    return float(largest @ np.arange(low, low + chance.size))


def fold(position: U64 | I64) -> U64:
    """One word for each position: the position itself, or a hash of its coordinates in order.

    `position`: integers [T] or [T, C]. Returns uint64 [T].
    """
    if position.ndim == 1:
        return unsigned(position)
    word = np.zeros(len(position), dtype=np.uint64)
    for coordinate in position.T:
        word = _mixed(word + coordinate.astype(np.uint64) + _GAMMA)
    return word


def content(row_starts: I64, position: U64 | I64, symbol: U64 | I64) -> U64:
    """A 64-bit hash of each row's set of (position, symbol) pairs. The order of the pairs does not matter.

    `row_starts` [R+1] cuts the flat arrays into rows. `position` is [T] or [T, C], and `symbol` is [T]. Returns uint64
    [R].
    """
    word = fold(position) * np.uint64(0xD6E8FEB86659FD93)
    word += unsigned(symbol) * _GAMMA
    return _mixed(_sums(row_starts, _mixed(word)))


def _sums(starts: I64, word: U64) -> U64:
    """The sum over each row, wrapping. `starts`: int64 [R+1]; `word`: uint64 [T]. Returns uint64 [R]."""
    total = np.zeros(starts.size - 1, dtype=np.uint64)
    filled = np.flatnonzero(starts[1:] > starts[:-1])  # `reduceat` does not support empty rows
    if filled.size:
        total[filled] = np.add.reduceat(word[: starts[-1]], starts[filled])
    return total

"""Expressions modulo n in which every operation on two parts has brackets, for `modular` and `solve-equation`.

Symbols are 0..n-1 for the digits, and then n + `PLUS` and so on for the signs.

Shapes: R expressions, T tokens in all, P open parts of all expressions.
"""

from __future__ import annotations

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import I64, U64

SIGNS = ["+", "-", "*", "(", ")"]
PLUS, MINUS, TIMES, OPEN, CLOSE = range(5)


def random_expressions(key: U64, length: I64, modulus: int, *, operators: int = 3, step: int = 1) -> tuple[I64, I64]:
    """Draw an expression of the given number of tokens for each key. Returns offsets [R+1] and symbols [T], int64.

    `key` is uint64 [R], and `length` int64 [R]. One to four tokens are `d`, `-d`, `(d)` or `(-d)`, with a digit d drawn
    uniformly. A longer expression is `(x+y)` with one of the first `operators` of `SIGNS`. The length of x is drawn
    uniformly from the possible numbers 1, 1 + `step` and so on. With `step=4` and lengths of 4m - 3, all parts have
    such lengths too, so there are no unary signs.
    """
    offsets = ragged.offsets_of(length)
    symbol = np.empty(offsets[-1], dtype=np.int64)
    begin, stream = offsets[:-1], key  # of each open part
    address = np.zeros_like(begin)  # its beginning in its own expression
    while begin.size:
        word, end = rng.bits(stream, address), begin + length - 1
        short, bracketed = length < 5, length > 2
        symbol[begin[bracketed]], symbol[end[bracketed]] = modulus + OPEN, modulus + CLOSE
        digit = begin + length // 2
        negative = short & (length % 2 == 0)
        symbol[digit[negative] - 1] = modulus + MINUS
        symbol[digit[short]] = rng.below(word[short], modulus)
        begin, length, address = (x[~short] for x in (begin, length, address))
        stream, word = stream[~short], word[~short]
        left = 1 + step * rng.below(word, (length - 5) // step + 1)
        operator = begin + 1 + left
        symbol[operator] = modulus + rng.below(rng.bits(word, np.array(1)), operators)
        begin = np.concatenate([begin + 1, operator + 1])
        length = np.concatenate([left, length - left - 3])
        address = np.concatenate([address + 1, address + left + 2])
        stream = np.concatenate([stream, stream])
    return offsets, symbol


def evaluate(offsets: I64, symbol: I64, modulus: int) -> I64:
    """The value of each expression. int64 [R+1], int64 [T] -> int64 [R]

    Negative digits come first, and then brackets around a single digit. After that, each round replaces every operation
    on two digits by its value, because no other part of an expression has brackets around three symbols.
    """
    before = np.roll(symbol, 1)
    before[offsets[:-1]] = modulus + OPEN
    unary = (symbol == modulus + MINUS) & (before >= modulus) & (before != modulus + CLOSE)
    symbol = np.where(np.roll(unary, 1), -symbol % modulus, symbol)[~unary]
    single = np.flatnonzero((symbol[:-2] == modulus + OPEN) & (symbol[2:] == modulus + CLOSE))
    symbol = np.delete(symbol, np.concatenate([single, single + 2]))
    while (opening := np.flatnonzero((symbol[:-4] == modulus + OPEN) & (symbol[4:] == modulus + CLOSE))).size:
        x, sign, y = (symbol[opening + offset] for offset in (1, 2, 3))
        symbol[opening] = np.choose(sign - modulus, [x + y, x - y, x * y]) % modulus
        symbol = np.delete(symbol, (opening[:, None] + np.arange(1, 5)).ravel())
    return symbol

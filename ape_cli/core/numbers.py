"""Numbers as text: lists of whole numbers such as `1-20,30,50-60`, numbers of things, and perplexities.

A perplexity is the exponential of a mean cross-entropy in nats for each token, or for each image. It is at least 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ape_cli.core.errors import UsageError, brief

_LARGE = 1e6  # from here on, a perplexity is written with a power of ten
_MOST = 10_001  # numbers of a range


def whole_numbers(name: str, text: str) -> list[int]:
    """The numbers of a list with commas and ranges, both ends included. Raises `UsageError` if the list is not valid.

    >>> whole_numbers("sizes", "1-3, 10")
    [1, 2, 3, 10]
    """
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = (word.strip() for word in part.partition("-"))
        last = last if dash else first
        digits = all(word.isdecimal() and len(word) < 20 for word in (first, last))
        if not digits or not 0 <= int(last) - int(first) < _MOST:
            allowed = f"whole numbers, and ranges from the lower to the higher, of at most {_MOST:,} numbers"
            fix = "for example 42,43, or 42-44"
            raise UsageError(f"bad `{name}`", got=brief(text), allowed=allowed, fix=fix)
        numbers += range(int(first), int(last) + 1)
    return list(dict.fromkeys(numbers))


def counted(number: int, what: str) -> str:
    """A number of things, with their name.

    >>> counted(1, "tree"), counted(2000, "file")
    ('1 tree', '2,000 files')
    """
    return f"{number:,} {what}{'s' * (number != 1)}"


def span(first: int, last: int) -> str:
    """A range, both ends included, as text for readers."""
    return str(first) if first == last else f"{first}–{last}"


def without_gaps(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """The ranges of ascending numbers, both ends included.

    >>> without_gaps([1, 2, 3, 8])
    [(1, 3), (8, 8)]
    """
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        follows = bool(ranges) and ranges[-1][1] == number - 1
        ranges[-1:] = [(ranges[-1][0], number)] if follows else [*ranges[-1:], (number, number)]
    return ranges


def spans(numbers: Iterable[int]) -> str:
    """Ascending numbers as text for readers.

    >>> spans([1, 2, 3, 8])
    '1–3, 8'
    """
    return ", ".join(span(*ends) for ends in without_gaps(numbers))


def perplexity(nats: float) -> float:
    """The perplexity for a mean cross-entropy. It is infinite above about 709 nats.

    For a difference of two cross-entropies, this is the ratio of their perplexities.

    >>> perplexity(0.0), perplexity(1.0), perplexity(800.0)
    (1.0, 2.718281828459045, inf)
    """
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf


def perplexity_text(value: float) -> str:
    """A perplexity or its deviation as text.

    >>> perplexity_text(64.8591), perplexity_text(2.5e9)
    ('64.86', '2.5e+09')
    """
    return f"{value:.2f}" if value < _LARGE else f"{value:.3g}"

"""Statistics of few seeds and few rows: two kinds of intervals, and two schemes compared in pairs.

The two kinds of 95% intervals answer different questions and never share a name:

- The interval over seeds is about training again with other seeds, on the same data and the same test rows. It is
  `low` and `high` wherever this project writes it, and needs two seeds.
- The interval over test rows is about other test rows, with the same trained models. It is `low_over_rows` and
  `high_over_rows`, and says little where few rows were evaluated, however many seeds there are.

Sources: the interval over seeds is Student's (Student 1908, The probable error of a mean); the sums for integer degrees
of freedom are Abramowitz and Stegun 1964, 26.7.3 and 26.7.4; the interval over test rows is Wilson's (1927, Probable
inference, the law of succession, and statistical inference, JASA 22); flipping signs is Fisher's test (The Design of
Experiments, 1935, section 21).
Assumptions: the interval over seeds takes scores to be drawn independently from a normal distribution. It is not cut
off at 0 or 100%, so near either end, where scores are not normal, it may reach beyond. The interval over test rows
takes rows to be drawn independently. Flipping signs takes no distribution, only that under the null hypothesis each
difference is as likely to have the other sign.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache

import numpy as np

CONFIDENCE = 0.95
MOST_FLIPPED = 40  # differences; signs of more are not flipped exactly: two arrays of 2^20 sums are enough


@cache
def critical(freedom: int) -> float:
    """t for `freedom` degrees of freedom: Student's t lies within -t and t with probability `CONFIDENCE`."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < CONFIDENCE else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """The probability that |t| is at most sqrt(freedom) tan(angle); the angle in 0 to π/2."""
    odd = freedom % 2
    term = 0.0 if freedom == 1 else math.cos(angle) if odd else 1.0
    total = term
    for factor in range(2 + odd, freedom - 1, 2):
        term *= (factor - 1) / factor * math.cos(angle) ** 2
        total += term
    total *= math.sin(angle)
    return (angle + total) * 2 / math.pi if odd else total


def half_width(count: int) -> float | None:
    """Half of the interval over seeds of a mean of `count` scores, in their sample standard deviations.

    None for one score.
    """
    return critical(count - 1) / math.sqrt(count) if count > 1 else None


def spread(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The sample standard deviation, and half of the interval over seeds of the mean; both None for one score."""
    if (width := half_width(len(values))) is None:
        return None, None
    std = statistics.stdev(values)
    return std, width * std


def wilson(share: float, count: int) -> tuple[float, float]:
    """The interval over test rows of a share of `count` rows: all p with (share - p)² at most z² p (1 - p) / count.

    The share may also be a mean over models that saw the same rows. Rows then have values between 0 and 1, which vary
    at most as much as 0 and 1 of the same mean do, so the interval is wide enough.
    """
    z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    middle, scale = share + z * z / (2 * count), 1 + z * z / count
    half = z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return (middle - half) / scale, (middle + half) / scale


def sign_flip(differences: Sequence[float]) -> float | None:
    """The two-sided p value of a mean difference of 0, exact; None beyond `MOST_FLIPPED` differences.

    Of the 2^n ways to give n differences their signs, the share whose mean is at least as far from 0 as that of the
    differences as they are. It cannot fall below `least_p`.
    """
    if len(differences) > MOST_FLIPPED:
        return None
    rounding = 1e-9 * math.fsum(map(abs, differences))  # sums that are as close as this are equal
    bound = abs(math.fsum(differences)) - rounding
    if bound <= 0:
        return 1.0
    half = len(differences) // 2
    first, second = _signed_sums(differences[:half]), np.sort(_signed_sums(differences[half:]))
    # a sum of the one half needs at least bound - sum from the other; as many sums lie below -bound as above bound
    above = int((second.size - np.searchsorted(second, bound - first)).sum())
    return 2 * above / 2 ** len(differences)


def _signed_sums(values: Sequence[float]) -> np.ndarray:
    """The sums of the values under all signs: float64 [2^n]."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def least_p(count: int) -> float:
    """The smallest p value that `count` differences can have: all of one sign, 2 of 2^count ways."""
    return 2.0 ** (1 - count)

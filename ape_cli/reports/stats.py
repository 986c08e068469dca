"""Statistics for few seeds and few rows: two kinds of intervals, and a test for two schemes compared in pairs.

The two kinds of 95% intervals answer different questions and never share a name:

- The interval over seeds is about training again with other seeds, on the same data and the same test rows. It is
  `low` and `high` wherever this project writes it, and needs two seeds.
- The interval over test rows is about other test rows, with the same trained models. It is `low_over_rows` and
  `high_over_rows`. It is wide if few rows were evaluated, however many seeds there are.

Sources:

- The interval over seeds is Student's (Student 1908, The probable error of a mean). The sums for integer degrees of
  freedom are in Abramowitz and Stegun 1964, 26.7.3 and 26.7.4.
- The interval over test rows is Wilson's (1927, Probable inference, the law of succession, and statistical inference,
  JASA 22).
- The sign-flip test is Fisher's (The Design of Experiments, 1935, section 21).

Assumptions:

- The interval over seeds assumes that scores are independent and normally distributed. Of perplexities, the logarithms
  are assumed to be. Near 0 and 100% scores are not normal. There the interval is cut off, because no mean is beyond:
  at 0 and 100% for a share, at 0 for a cross-entropy, and at 1 for a perplexity.
- The interval over test rows assumes that rows are independent.
- The sign-flip test assumes no distribution. It only assumes that under the null hypothesis each difference is equally
  likely to have the opposite sign.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache

import numpy as np

CONFIDENCE = 0.95
ROUNDING = 1e-12  # closer numbers are equal: sums of other floats that would be equal without rounding
MOST_FLIPPED = 40  # differences; this many need two arrays of 2^20 sums, and there is no exact test of more


@cache
def critical(freedom: int) -> float:
    """The t for which Student's t with `freedom` degrees of freedom lies in -t to t with probability `CONFIDENCE`."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < CONFIDENCE else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """The probability that |t| is at most sqrt(freedom) tan(angle), for an angle from 0 to π/2."""
    odd = freedom % 2
    term = 0.0 if freedom == 1 else math.cos(angle) if odd else 1.0
    total = term
    for factor in range(2 + odd, freedom - 1, 2):
        term *= (factor - 1) / factor * math.cos(angle) ** 2
        total += term
    total *= math.sin(angle)
    return (angle + total) * 2 / math.pi if odd else total


def half_width(count: int) -> float | None:
    """Half of the width of the interval over seeds of a mean of `count` scores. It is None for one score.

    The unit is the sample standard deviation of the scores.
    """
    return critical(count - 1) / math.sqrt(count) if count > 1 else None


def spread(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The sample standard deviation, and half of the width of the interval over seeds of the mean.

    Both are None for one score.
    """
    if (width := half_width(len(values))) is None:
        return None, None
    std = statistics.stdev(values)
    return std, width * std


def wilson(share: float, count: int) -> tuple[float, float]:
    """The interval over test rows of a share of `count` rows.

    It has all p with (share - p)² at most z² p (1 - p) / count. The share may also be a mean over models that were
    evaluated on the same rows. Each row then has a value between 0 and 1. The variance of such values is at most that
    of zeros and ones with the same mean, so the interval is wide enough. It lies within 0 and 1 and has the share,
    whatever rounding does.
    """
    z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    middle, scale = share + z * z / (2 * count), 1 + z * z / count
    half = z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return max(0.0, min(share, (middle - half) / scale)), min(1.0, max(share, (middle + half) / scale))


def sign_flip(differences: Sequence[float]) -> float | None:
    """The exact two-sided p-value of a sign-flip test. The null hypothesis is a mean difference of 0.

    There are 2^n ways to choose the signs of n differences. The p-value is the share of them whose mean is at least as
    far from 0 as the mean of the given differences. It is never below `least_p`. Returns None for more than
    `MOST_FLIPPED` differences.
    """
    if len(differences) > MOST_FLIPPED:
        return None
    rounding = 1e-9 * math.fsum(map(abs, differences))  # closer sums count as equal
    bound = abs(math.fsum(differences)) - rounding
    if bound <= 0:
        return 1.0
    half = len(differences) // 2
    first, second = _signed_sums(differences[:half]), np.sort(_signed_sums(differences[half:]))
    # a sum of the one half needs at least bound - sum from the other half; by symmetry, as many sums are below -bound
    above = int((second.size - np.searchsorted(second, bound - first)).sum())
    return 2 * above / 2 ** len(differences)


def _signed_sums(values: Sequence[float]) -> np.ndarray:
    """The sums of n values for all choices of signs: float64 [2^n]."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def least_p(count: int) -> float:
    """The smallest p-value for `count` differences. All have the same sign then, which 2 of 2^count choices give."""
    return 2.0 ** (1 - count)

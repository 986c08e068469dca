"""Statistics of few seeds, compared with tables of t, the integral of its density, and all signs written out."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from ape_cli.reports import stats


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.706205), (2, 4.302653), (4, 2.776445), (9, 2.262157), (29, 2.045230)]
)
def test_critical_values_are_those_of_tables(freedom: int, expected: float) -> None:
    stats.critical.cache_clear()  # a mutant must not be judged by values from before the change
    assert stats.critical(freedom) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 8, 13, 100, 101])
def test_the_density_between_the_critical_values_is_95_percent(freedom: int) -> None:
    """Simpson's rule for the density Γ((ν+1)/2) / (√(νπ) Γ(ν/2)) (1 + t²/ν)^(-(ν+1)/2), from 0 to t."""
    factor = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)

    def density(t: float) -> float:
        return factor * (1 + t * t / freedom) ** (-(freedom + 1) / 2)

    end, parts = stats.critical(freedom), 4000
    inner = sum((4 if i % 2 else 2) * density(end * i / parts) for i in range(1, parts))
    assert 2 * (density(0) + inner + density(end)) * end / parts / 3 == pytest.approx(0.95, abs=1e-9)


def test_spread_by_hand() -> None:
    """For 1, 2, 6 the mean is 3 and the deviation √((4 + 1 + 9) / 2) = √7; half of the interval is 4.302653 √7 / √3."""
    assert stats.spread([1, 2, 6]) == (
        pytest.approx(math.sqrt(7)),
        pytest.approx(4.302653 * math.sqrt(7 / 3), rel=1e-6),
    )
    assert stats.spread([0.9]) == (None, None)
    assert stats.half_width(1) is None


@pytest.mark.parametrize(("right", "count"), [(0, 1), (1, 2), (3, 12), (12, 12), (723, 1000)])
def test_wilson_s_ends_are_where_the_share_is_just_possible(right: int, count: int) -> None:
    """At both ends p, the share lies z = 1.959964 standard deviations √(p (1 - p) / n) away.

    Counting wrong rows mirrors it.
    """
    share = right / count
    low, high = stats.wilson(share, count)
    assert low - 1e-12 <= share <= high + 1e-12
    for end in (low, high):
        assert (share - end) ** 2 == pytest.approx(1.959963985**2 * end * (1 - end) / count, abs=1e-9)
    assert stats.wilson(1 - share, count) == pytest.approx((1 - high, 1 - low), abs=1e-12)


def test_wilson_s_interval_ends_at_0_and_1_and_has_the_share() -> None:
    """At a share of 0 or 1, the end on its side is exactly the share. Rounding had 757 of these ends above 1."""
    for count in range(1, 3_000):
        assert stats.wilson(0.0, count)[0] == 0.0
        assert stats.wilson(1.0, count)[1] == 1.0
        for right in {1, count // 3, count - 1}:
            low, high = stats.wilson(right / count, count)
            assert 0.0 <= low <= right / count <= high <= 1.0


def test_sign_flips_by_hand() -> None:
    """The sums of ±1 ±3 ±1 are 5, 3, -1, -3, 3, 1, -3, -5. Six of eight are as far from 0 as -1 - 3 + 1 = -3."""
    assert stats.sign_flip([-1, -3, 1]) == 6 / 8
    assert stats.sign_flip([0.1, 0.2, 0.7]) == stats.least_p(3) == 0.25
    assert stats.sign_flip([0.3]) == stats.least_p(1) == 1
    assert stats.sign_flip([0.0, 0.0, 0.0]) == 1


@pytest.mark.parametrize("count", range(1, 11))
def test_sign_flips_written_out(count: int) -> None:
    """Equal sums of whole numbers are equal. As hundredths they must count as equal too."""
    rng = random.Random(count)
    whole = [rng.randint(-9, 9) for _ in range(count)]
    sums = [sum(s * d for s, d in zip(signs, whole, strict=True)) for signs in itertools.product((1, -1), repeat=count)]
    expected = sum(abs(s) >= abs(sum(whole)) for s in sums) / 2**count
    assert stats.sign_flip([d / 100 for d in whole]) == expected
    assert stats.sign_flip([-d / 100 for d in whole]) == expected
    assert expected >= stats.least_p(count)


def test_as_many_signs_as_are_flipped() -> None:
    """If all differences have one sign, it is 2 ways of 2^40.

    Beyond that there is no p-value, rather than a wrong one.
    """
    most = [0.01 * i for i in range(1, stats.MOST_FLIPPED + 1)]
    assert stats.sign_flip(most) == stats.least_p(40) == 2 / 2**40
    assert stats.sign_flip([*most, 0.5]) is None

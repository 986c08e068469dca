"""Carries of sums of numbers of any length, without a loop over their digits."""

from __future__ import annotations

import numpy as np

from ape_cli.core.rng import I64


def carried(total: I64, starts: I64, base: int) -> I64:
    """The digits of sums, from the sums of the digits at each place.

    A place whose digits sum to base - 1 passes on the carry that it gets. Any other place carries if and only if its
    digits sum to base or more. So the carry into a place comes from the nearest lower place that is not base - 1, and
    no loop over places is needed (carry lookahead).

    `total`: int64 [D], from 0 to 2 (base - 1), where row r is `total[starts[r]:starts[r + 1]]`; no row is empty.
    `starts`: int64 [N+1]. Returns int64 [D]. A carry out of the last place of a row is dropped.

    >>> carried(np.array([9, 10, 9, 0, 10, 9, 9, 0]), np.array([0, 4, 8]), 10)
    array([9, 0, 0, 1, 0, 0, 0, 1])
    """
    decides = np.where(total == base - 1, 0, np.arange(total.size))
    decides[starts[:-1]] = starts[:-1]  # no carry comes from below the ones
    carries = total[np.maximum.accumulate(decides)] >= base
    into = np.zeros_like(total)
    into[1:] = carries[:-1]
    into[starts[:-1]] = 0
    return (total + into) % base

"""Offset: the positions of each row start at a random place.

Source: Kiyono et al. 2021, arXiv:2109.05644 (SHAPE): all positions of a sequence are shifted by the same random $k$,
uniform on $0..K$, where $K$ is the option `maximum`. A scheme that refers to the origin thereby learns differences of
positions, and sees positions beyond its training lengths.

Deviations: the source shifts only in training. Here validation and evaluation also shift, once for each row, so that
they measure what was trained. In an encoder-decoder, SOS is the empty path and is not shifted; in a decoder-only model
the whole sequence is. There, the map is refused for schemes whose scores depend only on differences of positions,
because it would have no effect.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ape_cli.core import rng
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64, U64
from ape_cli.data.position_maps import PositionSampler

_MOST = 1_000_000


class Offset(PositionSampler):
    """The places of a row, shifted by a random number. `maximum`: the greatest shift.

    Raises `UsageError` for a `maximum` out of range.
    """

    synonyms = ("shape", "shift", "shifted", "random-start")
    about = "the place plus a random number, from 0 to `maximum`"
    source = "Kiyono et al. 2021, arXiv:2109.05644"
    option_help: ClassVar[dict[str, str]] = {"maximum": "Largest shift of a row's positions."}
    shifts = True

    def __init__(self, maximum: int = 500) -> None:
        """Check the option."""
        if not 1 <= maximum <= _MOST:
            raise UsageError("bad maximum", got=maximum, allowed=f"1 to {_MOST:,}", fix="choose one of those")
        self.maximum = maximum

    def positions(self, keys: U64, counts: I64, most: int) -> I64:
        """The places of each row, shifted. uint64 [B], int64 [B] -> int64 [B, `most`]"""
        shift = rng.below(rng.bits(keys, np.array(1)), self.maximum + 1)
        return np.arange(1, most + 1) + shift[:, None]

    def greatest(self, most: int) -> int:
        """The last place, shifted as far as possible."""
        return most + self.maximum

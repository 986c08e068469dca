"""Plain: the position of a token is its place.

Source: Vaswani et al. 2017, section 3.5. Words have positions 1, 2, … In a decoder-only model the target continues the
positions of the source. This is the default, and costs nothing.

Deviations: none.
"""

from __future__ import annotations

import numpy as np

from ape_cli.core.rng import I64, U64
from ape_cli.data.position_maps import PositionSampler


class Plain(PositionSampler):
    """The position of a token is its place."""

    about = "the place itself (the default)"
    source = "Vaswani et al. 2017, section 3.5"

    def positions(self, keys: U64, counts: I64, most: int) -> I64:
        """1 .. `most` in each row. uint64 [B], int64 [B] -> int64 [B, `most`]"""
        return np.tile(np.arange(1, most + 1), (len(keys), 1))

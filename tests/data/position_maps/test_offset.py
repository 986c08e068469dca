"""A random start: one number is added to all places of a row."""

from __future__ import annotations

import numpy as np

from ape_cli.core import rng
from ape_cli.data import position_maps
from ape_cli.data.loader import Dataset
from tests.data.position_maps.plain import batches, drawn, of_rows


def test_a_row_is_shifted_as_a_whole(words: Dataset) -> None:
    """By a number of its own from 0 to the maximum. SOS of an encoder-decoder stays at 0."""
    plain = of_rows(batches(words, None, decoder_only=True))
    alone = of_rows(batches(words, drawn("offset", maximum=9)))
    for row, (source, read, both) in of_rows(batches(words, drawn("offset", joined=True, maximum=9))).items():
        shift = source[0] - 1
        assert 0 <= shift <= 9
        assert [source, read, both] == [[at + shift for at in part] for part in plain[row]]
        assert alone[row][0] == source
        assert alone[row][1] == [0, *source[: len(alone[row][1]) - 1]]


def test_every_shift_is_equally_likely() -> None:
    """Chi-squared with 4 degrees of freedom."""
    kind = position_maps.make("offset", maximum=4)
    found = kind.positions(rng.rows(3, "position", np.arange(5000)), np.full(5000, 2), 2)
    assert (found[:, 1] - found[:, 0] == 1).all()
    counts = np.bincount(found[:, 0], minlength=6)[1:]
    assert counts.size == 5
    assert ((counts - 1000) ** 2 / 1000).sum() < 18.5  # the 99.9% quantile


def test_the_greatest_position() -> None:
    assert position_maps.make("offset", maximum=10).greatest(7) == 17
    assert drawn("offset").room(np.array([3])) is None

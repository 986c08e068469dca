"""The default: every position is a place."""

from __future__ import annotations

import numpy as np
import torch

from ape_cli.data import position_maps
from ape_cli.data.loader import Dataset
from tests.data.position_maps.plain import batches, drawn, of_rows


def test_positions_are_places() -> None:
    found = position_maps.make("plain").positions(np.arange(2, dtype=np.uint64), np.array([3, 3]), 3)
    assert found.tolist() == [[1, 2, 3], [1, 2, 3]]


def test_it_changes_nothing(words: Dataset) -> None:
    """Not even the single row of positions that all rows share without a map."""
    for joined in (False, True):
        without = batches(words, None, decoder_only=joined)
        assert of_rows(batches(words, drawn("plain", joined=joined))) == of_rows(without)
        assert all(len(batch.source_positions) == 1 for batch in without)
        for batch in without:
            assert torch.equal(batch.source_positions[0], torch.arange(1, batch.source_ids.shape[1] + 1))

"""The default: every position is a place."""

from __future__ import annotations

import torch

from ape_cli.data.loader import Dataset
from tests.data.position_maps.plain import batches, drawn, of_rows


def test_it_changes_nothing(words: Dataset) -> None:
    """Not even the single row of positions that all rows share without a map."""
    for joined in (False, True):
        without = batches(words, None, decoder_only=joined)
        assert of_rows(batches(words, drawn("plain", joined=joined))) == of_rows(without)
        assert all(len(batch.source_positions) == 1 for batch in without)
        for batch in without:
            assert torch.equal(batch.source_positions[0], torch.arange(1, batch.source_ids.shape[1] + 1))

"""Batches of maps of positions, and an independent way to the positions of a row."""

from __future__ import annotations

from typing import Any

from ape_cli.core.vocabulary import PAD
from ape_cli.data import position_maps
from ape_cli.data.batches import DecoderOnlyBatch, SequenceBatch
from ape_cli.data.loader import Dataset, Split
from ape_cli.data.position_maps import RowPositions

NAMES = position_maps.names()
SEED = 11


def drawn(name: str, *, joined: bool = False, seed: int = SEED, **options: Any) -> RowPositions:
    """A map with a seed."""
    return RowPositions(position_maps.make(name, **options), seed, joined)


def batches(
    data: Dataset, found: RowPositions | None, size: int = 16, split: str = "train", **more: Any
) -> list[SequenceBatch]:
    """The batches of a split, with a map or without one."""
    rows = data.split(split)
    assert isinstance(rows, Split)
    joined = found is not None and found.decoder_only
    return list(rows.batches(size, **({"positions": found, "decoder_only": joined} | more)))


Row = tuple[list[Any], list[Any], list[Any]]


def of_rows(found: list[SequenceBatch]) -> dict[int, Row]:
    """The positions of each row's tokens, without padding: of the source, of the decoder's input, of both together."""
    rows: dict[int, Row] = {}
    for batch in found:
        for i, row in enumerate(batch.row.tolist()):
            source = batch.source_positions[min(i, len(batch.source_positions) - 1)].tolist()
            read = batch.input_positions[min(i, len(batch.input_positions) - 1)].tolist()
            count, more = int(batch.source_mask[i].sum()), int((batch.labels[i] != PAD).sum())
            both: list[Any] = []
            if isinstance(batch, DecoderOnlyBatch):
                both = batch.positions[min(i, len(batch.positions) - 1)].tolist()[: count + more]
            rows[row] = source[:count], read[:more], both
    return rows

"""The task `grid-copy`: the target is the grid itself."""

from __future__ import annotations

from dataclasses import dataclass

from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._grids import Grids


@dataclass(frozen=True, kw_only=True)
class GridCopy(Grids):
    """Copy a grid.

    >>> row = GridCopy(side_mean=3).sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> row["source_ids"] == row["target_ids"], row["source_positions"] == row["target_positions"]
    (True, True)
    """

    summary = "the grid itself"

    def target(self, source: Source) -> Tokens:
        """The target of each source: the same grid."""
        return Tokens(source.offsets, source.position, source.symbol)

"""How a model reads the positions of a dataset: as which structure, by which map, and whether its sequences continue.

Shapes: B rows of a batch, L tokens of the longest row, C coordinates of a position. Positions are int64, masks are bool
(True = token). `collation.py` describes positions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64
from ape_cli.data.position_maps import RowPositions
from ape_cli.structure import LINE, Seq, Structure, columns


@dataclass(frozen=True)
class PositionReading:
    """The structure as which a model reads the positions of a dataset. `of` makes one."""

    data: Structure  # structure of the data
    structure: Structure  # as which it is read
    columns: tuple[int, ...]  # for each coordinate that is read: the index of the data's coordinate, or LINE
    tagged: bool = False  # whether the target has a tag for each token of the source
    decoder_only: bool = False  # whether the target continues the sequence of the source
    positions: RowPositions | None = None  # the map of positions; None for the plain one

    @classmethod
    def of(
        cls,
        data: Structure,
        structure: Structure | None = None,
        *,
        tagged: bool = False,
        decoder_only: bool = False,
        positions: RowPositions | None = None,
    ) -> PositionReading:
        """Read the positions of data as a structure, by default as the data's own. For the others see the class.

        Raises `UsageError` if the data has no positions of the structure, or if the map does not act on them.
        """
        structure = data if structure is None else structure
        indices = columns(structure, data)
        if indices is None:
            raise UsageError(
                f"this dataset has no positions of structure {structure.expression}",
                got=f"structure {data.expression}",
                allowed=f"the factors of {data.expression}; line (seq) and cyclic(n) along its linearisation; products",
                fix="leave `structure` out to use the structure of the data",
            )
        # the positions of a sequence are those along the line, where EOS has a position too
        taken = tuple(LINE if data == Seq() else column for column in indices)
        reading = cls(data, structure, taken, tagged, decoder_only, positions)
        if positions is not None and not reading.is_line:
            what = "a map of positions acts on the place of a token along the linearisation"
            raise UsageError(what, got=f"structure {structure.expression}", fix="leave `positions` out")
        return reading

    def of_epoch(self, epoch: int) -> PositionReading:
        """The same with the positions that the map draws in an epoch of the training."""
        return self if self.positions is None else replace(self, positions=self.positions.of_epoch(epoch))

    @property
    def is_line(self) -> bool:
        """Whether every coordinate is along the linearisation, so that no stored positions are needed."""
        return set(self.columns) == {LINE}

    @property
    def continues(self) -> bool:
        """Whether positions along the linearisation continue from the source to the target."""
        return self.decoder_only and not (self.positions is not None and self.positions.sampler.restarts)

    def positions_of(self, stored: I64 | None, mask: np.ndarray, before: I64 | None = None) -> I64:
        """The positions of tokens, int64 [B or 1, L] or [B or 1, L, C].

        `stored` are the data's own positions, int64 [B, L] or [B, L, C]; `mask` is bool [B, L]. `before`: the number of
        tokens before them in each row's sequence, int64 [B]; None for none.
        """
        line = np.arange(1, mask.shape[1] + 1)[None]
        line = line if before is None else line + before[:, None]
        if self.is_line:
            coordinates = [line] * len(self.columns)
        else:
            assert stored is not None
            of_data = stored.reshape(*mask.shape, self.data.width)
            firsts = zip(self.columns, self.structure.first, strict=True)
            coordinates = [np.where(mask, line if c == LINE else of_data[..., c] + first, 0) for c, first in firsts]
        return coordinates[0] if len(coordinates) == 1 else np.stack(coordinates, axis=-1)

    def input_positions_of(self, stored: I64 | None, mask: np.ndarray, sources: I64) -> I64:
        """The positions of the decoder's input: SOS, and then the target without its last token.

        `stored` and `mask` are of the target, as in `positions_of`. sources: int64 [B], the numbers of source tokens.
        """
        if not self.continues:
            return after(0, self.positions_of(stored, mask))
        positions = self.positions_of(None if stored is None else after(0, stored), after(0, mask), sources)
        for axis in (axis for axis, column in enumerate(self.columns) if column == LINE and len(self.columns) > 1):
            positions[:, 0, axis] = sources + 1  # of SOS
        return positions


def after(first: int, values: I64) -> I64:
    """The decoder's input: `first`, then all values but the last. Takes and returns int64 [B, L, ...]."""
    return np.concatenate([np.full_like(values[:, :1], first), values[:, :-1]], axis=1)

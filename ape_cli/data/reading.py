"""How a model reads the positions of a dataset: as which structure, and whether its sequences continue.

Shapes: B rows of a batch, L tokens of the longest row, C coordinates of a position. Positions are int64, masks are bool
(True = token). `collation.py` describes positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64
from ape_cli.data.position_maps import RowPositions
from ape_cli.structure import LINE, Seq, Structure, columns


@dataclass(frozen=True)
class Reading:
    """The structure as which a model reads the positions of a dataset."""

    own: Structure  # structure of the data
    wanted: Structure
    columns: tuple[int, ...]  # for each wanted coordinate: the index of the data's coordinate, or LINE
    tagged: bool = False  # whether the target has a tag for each token of the source
    joined: bool = False  # whether the target continues the sequence of the source
    restarts: bool = False  # whether positions along the linearisation begin anew in a joined target

    @classmethod
    def of(
        cls,
        own: Structure,
        wanted: Structure | None,
        *,
        tagged: bool = False,
        joined: bool = False,
        drawn: RowPositions | None = None,
    ) -> Reading:
        """Read the positions as the wanted structure, by default as the data's own. For the others see `Reading`.

        `drawn`: the map of positions, which decides whether they restart; None for the plain one.
        Raises `UsageError` if the data has no positions of the wanted structure.
        """
        wanted = own if wanted is None else wanted
        indices = columns(wanted, own)
        if indices is None:
            raise UsageError(
                f"this dataset has no positions of structure {wanted.expression}",
                got=f"structure {own.expression}",
                allowed=f"the factors of {own.expression}; line (seq) and cyclic(n) along its linearisation; products",
                fix="leave `structure` out to use the structure of the data",
            )
        # the positions of a sequence are those along the line, where EOS has a position too
        taken = tuple(LINE if own == Seq() else column for column in indices)
        return cls(own, wanted, taken, tagged, joined, restarts=drawn is not None and drawn.sampler.restarts)

    @property
    def is_line(self) -> bool:
        """Whether every coordinate is along the linearisation, so that no stored positions are needed."""
        return set(self.columns) == {LINE}

    @property
    def continues(self) -> bool:
        """Whether positions along the linearisation continue from the source to the target."""
        return self.joined and not self.restarts

    def places(self, stored: I64 | None, mask: np.ndarray, before: I64 | None = None) -> I64:
        """The positions of tokens, int64 [B or 1, L] or [B or 1, L, C].

        `stored` are the data's own positions, int64 [B, L] or [B, L, C]; `mask` is bool [B, L]. `before`: the number of
        tokens before them in each row's sequence, int64 [B]; None for none.
        """
        line = np.arange(1, mask.shape[1] + 1)[None]
        line = line if before is None else line + before[:, None]
        if self.is_line:
            read = [line] * len(self.columns)
        else:
            assert stored is not None
            coordinates = stored.reshape(*mask.shape, self.own.width)
            firsts = zip(self.columns, self.wanted.first, strict=True)
            read = [np.where(mask, line if c == LINE else coordinates[..., c] + first, 0) for c, first in firsts]
        return read[0] if len(read) == 1 else np.stack(read, axis=-1)

    def input_places(self, stored: I64 | None, mask: np.ndarray, sources: I64) -> I64:
        """The positions of the decoder's input: SOS, and then the target without its last token.

        `stored` and `mask` are of the target, as in `places`. sources: int64 [B], the numbers of source tokens.
        """
        if not self.continues:
            return after(0, self.places(stored, mask))
        places = self.places(None if stored is None else after(0, stored), after(0, mask), sources)
        for axis in (axis for axis, column in enumerate(self.columns) if column == LINE and len(self.columns) > 1):
            places[:, 0, axis] = sources + 1  # of SOS
        return places


def after(first: int, values: I64) -> I64:
    """The decoder's input: `first`, then all values but the last. Takes and returns int64 [B, L, ...]."""
    return np.concatenate([np.full_like(values[:, :1], first), values[:, :-1]], axis=1)

"""The base class of maps of positions, and the map of a run with the seed from which it draws.

A place is the index of a token along the linearisation: 1, 2, ... In an encoder-decoder, the places of the target begin
anew. In a decoder-only model they continue those of the source. Place 0 is SOS of an encoder-decoder, or padding. A map
may derive places from the tokens instead (`PositionSampler.places`).

Shapes: B rows of a batch, L places, C coordinates of a position. Places and positions are int64, keys are uint64.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from ape_cli.core import plugins, rng, user_parts
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64, U64


class PositionSampler(ABC):
    """Base class of maps. The arguments of a subclass are its options."""

    part_kind: ClassVar[str] = "position map"  # for messages
    synonyms: ClassVar[tuple[str, ...]] = ()  # other words for it, which error messages understand
    about: ClassVar[str] = ""  # what it does, in a few words
    source: ClassVar[str] = "not named"
    option_help: ClassVar[dict[str, str]] = {}  # what each of its options means
    restarts: ClassVar[bool] = False  # whether, in a decoder-only model, the places of the target begin anew
    shifts: ClassVar[bool] = False  # whether it moves all tokens of a row alike
    reads_tokens: ClassVar[bool] = False  # whether places depend on the tokens (`places`)
    # the reason why it acts only in a decoder-only model; empty if it acts in every model
    decoder_only: ClassVar[str] = ""

    _made_with: Mapping[str, Any] = MappingProxyType({})  # the options that `make` has made it with

    @abstractmethod
    def positions(self, keys: U64, counts: I64, most: int) -> I64:
        """The positions of the places 1 .. `most` of each row.

        keys: uint64 [B], the random stream of each row. counts: int64 [B], the number of places of each row, which is
        its `capacity`, or `most` without one. -> int64 [B, `most`], from 1 to `greatest(most)`. What it returns beyond
        the `counts` has no meaning. `most` is that of the batch, so the position of a place must not depend on it.
        """

    def capacity(self, sources: I64, *, joined: bool) -> I64 | None:
        """The number of places of each row, if it is limited; None otherwise.

        It has to follow from the source alone, because a position must not tell how long the answer is. sources: int64
        [B], the numbers of tokens of the sources, including EOS. `joined`: whether the target continues the places of
        the source. -> int64 [B]
        """
        return None

    def places(self, ids: I64) -> I64:
        """The places of tokens, for a map that `reads_tokens`. Other maps use the places along the linearisation.

        ids: int64 [B, L], of the source or of the target, with SOS and EOS, padded with PAD -> int64 [B, L], 0 or more.
        Place 0 always has position 0. The place of a token may depend only on the tokens up to it, because the decoder
        reads what it writes.
        """
        raise NotImplementedError

    def misfit(self, names: Sequence[str]) -> str:
        """The reason why the map cannot act on data whose ids have these names; empty if it can."""
        return ""

    def in_evaluation(self) -> PositionSampler:
        """The map of validation and evaluation: this one, unless it draws positions differently in training."""
        return self

    def greatest(self, most: int) -> int:
        """The greatest position of rows of at most `most` places. A bounded scheme is made for it."""
        return most

    def too_long(self, row: int, source: int, target: int) -> UsageError:
        """The error for a row with more places than `capacity` allows.

        source, target: the numbers of tokens on each side that need a position.
        """
        what = f"positions={plugins.name_of(type(self))} has no position for every token of row {row}"
        return UsageError(what, got=f"{source} tokens of the source, and {target} of the target")


@dataclass(frozen=True)
class RowPositions:
    """The map of a run. It gives the positions of each row, as a function of the seed, the epoch and the row.

    `decoder_only`: whether the model reads source and target as one sequence. `epoch`: None for the draw of validation
    and evaluation.
    """

    sampler: PositionSampler
    seed: int
    decoder_only: bool = False
    epoch: int | None = None

    def of_epoch(self, epoch: int) -> RowPositions:
        """The same for an epoch of the training."""
        return replace(self, epoch=epoch)

    def places(self, ids: I64, line: I64) -> I64:
        """The places of tokens: those of the map if it reads tokens, or else the given ones along the linearisation.

        ids: int64 [B, L]; line: int64 [B or 1, L (, C)] -> the same shape. Raises `ApeError` if the map returns
        something else.
        """
        if not self.sampler.reads_tokens:
            return line
        found = _int64(self.sampler, "places", self.sampler.places(ids), ids.shape)
        if (found < 0).any():
            raise user_parts.returns(self.sampler, "places", found.min(), "0 or more")
        return found if line.ndim == 2 else np.repeat(found[..., None], line.shape[2], axis=2)

    def counts(self, sources: I64) -> I64 | None:
        """`PositionSampler.capacity` of some rows. Raises `ApeError` if the map returns an unexpected value."""
        counts = self.sampler.capacity(sources, joined=self.decoder_only)
        return None if counts is None else _int64(self.sampler, "capacity", counts, sources.shape)

    def room(self, sources: I64) -> I64 | None:
        """The number of tokens that the decoder may read in each row, int64 [B], if it is limited; None otherwise.

        sources: int64 [B], the numbers of tokens of the sources.
        """
        counts = self.counts(sources)
        if counts is None:
            return None
        return counts - sources if self.decoder_only else counts + 1  # SOS of an encoder-decoder is at place 0

    def check(self, rows: I64, sources: I64, read: I64) -> None:
        """Check that there is a position for every token. Raises `UsageError` that names the row that lacks most.

        rows: int64 [B], numbers of rows in their split; sources and read: int64 [B], the numbers of tokens of the
        sources, and of those that the decoder reads.
        """
        counts = self.counts(sources)
        if counts is not None:
            needed = read + sources if self.decoder_only else np.maximum(read - 1, sources)
            if (needed > counts).any():
                worst = np.argmax(needed / np.maximum(counts, 1))
                raise self.sampler.too_long(
                    int(rows[worst]), int(sources[worst]), int(read[worst]) - (not self.decoder_only)
                )

    def at(self, rows: I64, sources: I64, places: I64, mask: np.ndarray) -> I64:
        """The positions of tokens.

        rows: int64 [B], numbers of rows in their split; sources: int64 [B], the numbers of tokens of the sources;
        places: int64 [B or 1, L (, C)]; mask: bool [B, L], True for tokens -> int64 [B, L (, C)], 0 at padding and at
        place 0. Raises `ApeError` if the map returns an unexpected value, or positions that are not in 1 to `greatest`.
        """
        shape = (*mask.shape, *places.shape[2:])
        places = np.where(mask.reshape(mask.shape + (1,) * (places.ndim - 2)), places, 0)
        length = int(places.max(initial=0))
        sampler = self.sampler.in_evaluation() if self.epoch is None else self.sampler
        counts = self.counts(sources)
        counts = np.full_like(sources, length) if counts is None else counts
        drawn = _int64(sampler, "positions", sampler.positions(self._keys(rows), counts, length), (len(rows), length))
        table = np.pad(drawn, ((0, 0), (1, 0)))
        flat = places.reshape(len(rows), math.prod(shape[1:]))
        positions = np.take_along_axis(table, flat, axis=1)
        greatest = sampler.greatest(length) if length else 0
        wrong = positions[(flat > 0) & ((positions < 1) | (positions > greatest))]
        if wrong.size:
            allowed = f"1 to {greatest} (`greatest`)"
            raise user_parts.returns(sampler, "positions", f"position {wrong[0]} of {length} places", allowed)
        return positions.reshape(shape)

    def _keys(self, rows: I64) -> U64:
        """The random stream of each row. int64 [B] -> uint64 [B]"""
        draw = 0 if self.epoch is None else self.epoch + 1
        return rng.bits(rng.rows(self.seed, "position", rows), np.array(draw))


def _int64(sampler: PositionSampler, method: str, result: Any, shape: tuple[int, ...]) -> I64:
    """What a method of a map returned. Raises `ApeError` if it is not int64 of this shape."""
    if not isinstance(result, np.ndarray) or result.dtype != np.int64 or result.shape != shape:
        got = f"{result.dtype} {list(result.shape)}" if isinstance(result, np.ndarray) else result
        raise user_parts.returns(sampler, method, got, f"int64 {list(shape)}")
    return result

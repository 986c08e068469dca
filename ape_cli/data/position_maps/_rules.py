"""The rules of maps of positions. They are measured through `RowPositions`, which is how batches read a map.

They cannot tell whether positions are the intended ones, or whether they depend on the process, such as on the hash of
a string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ape_cli.core import rng, user_parts
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64
from ape_cli.data.position_maps._sampler import PositionSampler, RowPositions

_LENGTHS = (np.array([2, 1, 3]), np.array([3, 40, 2, 7]))  # tokens of the sources of two batches


def _form(sampler: PositionSampler) -> None:
    """Positions are int64 `[B, most]`, from 1 to `greatest(most)`."""
    for rows, lengths in _batches(sampler):
        _read(rows, lengths)


def _of_the_key(sampler: PositionSampler) -> None:
    """The positions of a row and their number depend on its key and the length of its source alone."""
    for rows, lengths in _batches(sampler):
        first, _ = _read(rows, lengths), _read(rows.of_epoch(3), lengths)
        again = RowPositions(type(sampler)(**sampler._made_with), rows.seed, rows.decoder_only)
        numbers = np.arange(len(lengths))
        others = {
            "later": _read(rows, lengths),
            "by a map that is made again with the same options": _read(again, lengths),
            "in a batch of another order": _read(rows, lengths[::-1], numbers[::-1])[::-1],
            "in a batch of its own": [_read(rows, lengths[[i]], numbers[[i]])[0] for i in numbers],
        }
        for when, other in others.items():
            for here, there in zip(first, other, strict=True):
                if here != there:
                    got, fix = f"{here[:8]}, and {there[:8]} {when}", "use only the key, the place and `capacity`"
                    raise user_parts.returns(sampler, "positions", got, "equal positions for equal keys", fix)


def _of_the_tokens(sampler: PositionSampler) -> None:
    """The place of a token depends only on the tokens up to it in its own row."""
    ids = rng.below(rng.bits(rng.rows(0, "rules", np.arange(6))[:, None], np.arange(20)), 20)
    line = np.tile(np.arange(1, 21), (6, 1))
    rows = RowPositions(sampler, 0)
    whole = rows.places(ids, line)
    for i, n in np.ndindex(ids.shape):
        part = rows.places(ids[i : i + 1, : n + 1], line[i : i + 1, : n + 1])
        if (part != whole[i, : n + 1]).any():
            got, fix = f"place {whole[i, n]}, and {part[0, n]} without what follows", "read only the tokens up to it"
            raise user_parts.returns(sampler, "places", got, "equal places after equal tokens", fix)


RULES: dict[str, Callable[[PositionSampler], None]] = {
    "form": _form,
    "of-the-key": _of_the_key,
    "of-the-tokens": _of_the_tokens,
}


def _batches(sampler: PositionSampler) -> Iterator[tuple[RowPositions, I64]]:
    """The map in both kinds of models, and the lengths of the sources of a batch, int64 [B].

    A map may refuse long rows with a `UsageError`. Then only short ones are measured.
    """
    for decoder_only in (False, True):
        rows = RowPositions(sampler, 0, decoder_only)
        for lengths in _LENGTHS:
            lengths.setflags(write=False)  # the batch still needs them
            try:
                _read(rows, lengths)
            except UsageError:
                continue
            yield rows, lengths


def _read(rows: RowPositions, sources: I64, numbers: I64 | None = None) -> list[list[int]]:
    """The positions of all places of rows. Without a `capacity`, answers are as long as their sources.

    numbers: int64 [B], of the rows; by default from 0
    """
    numbers = np.arange(len(sources)) if numbers is None else numbers
    counts = rows.counts(sources)
    lengths = sources * (1 + rows.decoder_only) if counts is None else counts
    mask = np.arange(lengths.max()) < lengths[:, None]
    positions = rows.at(numbers, sources, np.arange(1, lengths.max() + 1)[None], mask)
    return [line[inside].tolist() for line, inside in zip(positions, mask, strict=True)]

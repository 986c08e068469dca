"""The rules of maps of positions. They are measured through `RowPositions`, which is how batches read a map.

They cannot tell whether positions are the intended ones, or whether they depend on the process, such as on the hash of
a string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np

from ape_cli.core import user_parts
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64
from ape_cli.data.position_maps._sampler import PositionSampler, RowPositions

_LENGTHS = (np.array([2, 1, 3]), np.array([3, 40, 2, 7]))  # tokens of the sources of two batches
_STREAM = "draw all random numbers from `keys`, with the functions of `ape_cli.core.rng`"


def _form(sampler: PositionSampler) -> None:
    """Positions are int64 `[B, most]`, from 1 to `greatest(most)`."""
    for rows, lengths in _batches(sampler):
        _read(rows, lengths)


def _greatest(sampler: PositionSampler) -> None:
    """`greatest` is a whole number that does not fall with the number of places."""
    least = 1
    for most in (1, 2, 3, 6, 40, 80):
        with suppress(UsageError):  # of a map that has no more places
            greatest = sampler.greatest(most)
            if type(greatest) is not int or greatest < least:
                got = f"{greatest!r} for {most} places"
                raise user_parts.returns(sampler, "greatest", got, f"a whole number, {least} or more")
            least = greatest


def _capacity(sampler: PositionSampler) -> None:
    """`capacity` gives every token of a source a place, and follows from the number of these tokens alone."""
    for rows, lengths in _batches(sampler):
        whole = _counts(rows, lengths)
        alone = [count for part in np.split(lengths, len(lengths)) for count in _counts(rows, part)]
        got = f"{whole} for sources of {lengths.tolist()} tokens, `joined={rows.joined}`"
        if whole != alone:
            got += f", and {alone} for each alone"
            raise user_parts.returns(sampler, "capacity", got, "the same for each alone")
        if any(count is not None and count < length for count, length in zip(whole, lengths, strict=True)):
            raise user_parts.returns(sampler, "capacity", got, "at least the number of tokens of each source")


def _repeatable(sampler: PositionSampler) -> None:
    """The same keys give the same positions, whatever was drawn before, also by the map when it is made again."""
    for rows, lengths in _batches(sampler):
        first, _ = _read(rows, lengths), _read(rows.of_epoch(3), lengths)
        again = RowPositions(type(sampler)(**sampler._made_with), rows.seed, rows.joined)
        for other, when in ((rows, "later"), (again, "by a map that is made again with the same options")):
            _compare(sampler, first, _read(other, lengths), f"for the same keys {when}", _STREAM)


def _independent(sampler: PositionSampler) -> None:
    """The positions of a row do not depend on the other rows of its batch, on their order, or on their lengths."""
    for rows, lengths in _batches(sampler):
        first = _read(rows, lengths)
        fix = "use only the key of the row, its place and its `capacity`, not `most` or other rows"
        turned = _read(rows, lengths[::-1], np.arange(len(lengths))[::-1])[::-1]
        alone = [_read(rows, lengths[i : i + 1], np.array([i]))[0] for i in range(len(lengths))]
        for other, where in ((turned, "in a batch of another order"), (alone, "in a batch of its own")):
            _compare(sampler, first, other, f"for a row {where}", fix)


RULES: dict[str, Callable[[PositionSampler], None]] = {
    "greatest": _greatest,
    "form": _form,
    "capacity": _capacity,
    "repeatable": _repeatable,
    "independent": _independent,
}


def _batches(sampler: PositionSampler) -> Iterator[tuple[RowPositions, I64]]:
    """The map in both kinds of models, and the lengths of the sources of a batch, int64 [B].

    A map may refuse long rows with a `UsageError`. Then only short ones are measured.
    """
    for joined in (False, True):
        rows = RowPositions(sampler, 0, joined)
        for lengths in _LENGTHS:
            lengths.setflags(write=False)  # the batch still needs them
            try:
                _read(rows, lengths)
            except UsageError:
                continue
            yield rows, lengths


def _counts(rows: RowPositions, sources: I64) -> list[int | None]:
    """The `capacity` of each row, None without one."""
    counts = rows.counts(sources)
    return [None] * len(sources) if counts is None else counts.tolist()


def _read(rows: RowPositions, sources: I64, numbers: I64 | None = None) -> list[list[int]]:
    """The positions of all places of rows. Without a `capacity`, answers are as long as their sources.

    numbers: int64 [B], of the rows; by default from 0
    """
    numbers = np.arange(len(sources)) if numbers is None else numbers
    counts = rows.counts(sources)
    lengths = sources * (1 + rows.joined) if counts is None else counts
    mask = np.arange(lengths.max()) < lengths[:, None]
    positions = rows.at(numbers, sources, np.arange(1, lengths.max() + 1)[None], mask)
    return [line[inside].tolist() for line, inside in zip(positions, mask, strict=True)]


def _compare(sampler: PositionSampler, one: list[list[int]], other: list[list[int]], when: str, fix: str) -> None:
    """Compare the positions of rows. Raises `ApeError` if they differ."""
    for row, (here, there) in enumerate(zip(one, other, strict=True)):
        if here != there:
            got = f"{here[:8]} and {there[:8]} {when} (row {row})"
            raise user_parts.returns(sampler, "positions", got, "equal positions", fix)

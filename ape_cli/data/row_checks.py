"""Checks of the rows of a dataset of sequences, trees and grids, against its vocabulary and its structure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ape_cli.core.errors import DataError
from ape_cli.core.rng import U64
from ape_cli.core.vocabulary import FIRST_SYMBOL, PAD
from ape_cli.storage import sequence_rows
from ape_cli.structure import Cyclic, Seq, Structure, Tree

_AGAIN = "generate it again"


def check_row_numbers(part: pa.Table, first: int) -> None:
    """Check that rows are numbered one by one, from `first` on. Raises `DataError` otherwise."""
    numbers = part["row"].to_numpy()
    wrong = np.flatnonzero(numbers != np.arange(first, first + len(part), dtype=np.uint64))
    if wrong.size:
        at = int(wrong[0])
        raise DataError("a row has another number", got=numbers[at], allowed=first + at, fix=_AGAIN)


def check_rows(part: pa.Table, own: Structure, ids: int, *, tagged: bool = False) -> None:
    """Check that every id is in the vocabulary and has a position, and that every position exists in the structure.

    Each row of a tree must also have its root, once. Only words may be empty, because they end with EOS.

    `own` is the structure of the dataset, and `ids` the size of its vocabulary. If targets are `tagged`, they may have
    PAD, and are as long as their sources. Raises `DataError` otherwise.
    """
    operators(part)
    sides = [pc.list_value_length(part[f"{side}_ids"]).to_numpy() for side in ("source", "target")]
    if tagged and (sides[0] != sides[1]).any():
        row = int(np.flatnonzero(sides[0] != sides[1])[0])
        got = f"{sides[1][row]} tags for {sides[0][row]} tokens"
        raise DataError("not each token has a tag", got=got, allowed="one for each", fix=_AGAIN)
    if tagged and not part["source_positions"].equals(part["target_positions"]):
        got = "tags at other positions than the tokens"
        raise DataError("not each token has a tag", got=got, allowed="those of the source", fix=_AGAIN)
    for side in ("source", "target"):
        lengths = [pc.list_value_length(part[f"{side}_{what}"]).to_numpy() for what in ("ids", "positions")]
        if (lengths[0] != lengths[1]).any():
            row = int(np.flatnonzero(lengths[0] != lengths[1])[0])
            got = f"{lengths[0][row]} ids with {lengths[1][row]} positions"
            raise DataError(f"not each {side} id has a position", got=got, allowed="one for each", fix=_AGAIN)
        if not isinstance(own, Seq) and (lengths[0] == 0).any():
            row = int(np.flatnonzero(lengths[0] == 0)[0])
            raise DataError(f"a {side} is empty", got=f"row {row} of these", allowed="at least one id", fix=_AGAIN)
        symbol = part[f"{side}_ids"].combine_chunks().values.to_numpy()
        if tagged and side == "target":
            symbol = symbol[symbol != PAD]
        if symbol.size and not FIRST_SYMBOL <= symbol.min() <= symbol.max() < ids:
            wrong = symbol[(symbol < FIRST_SYMBOL) | (symbol >= ids)][0]
            raise DataError(
                f"a {side} id is not in the vocabulary", got=wrong, allowed=f"{FIRST_SYMBOL} to {ids - 1}", fix=_AGAIN
            )
        places = part[f"{side}_positions"].combine_chunks()
        at = sequence_rows.positions(places)
        for factor, coordinate in zip(own.simple, at.reshape(-1, own.width).T, strict=True):
            low, high = _range(factor)
            least, greatest = (int(coordinate.min()), int(coordinate.max())) if coordinate.size else (low, low)
            if least < low or greatest > high:
                deep = " (a path too deep for a heap index?)" if isinstance(factor, Tree) else ""
                raise DataError(
                    f"a {side} position is not one of {factor.expression}{deep}",
                    got=greatest if greatest > high else least,
                    allowed=f"{low} to {high}",
                    fix=_AGAIN,
                )
        if isinstance(own, Tree):
            _check_roots(at, places.offsets.to_numpy(), side)


def _check_roots(at: U64, starts: NDArray[np.int32], side: str) -> None:
    """Check that each row has exactly one root, which has heap index 1.

    `at` has the positions of all rows: uint64 [T], and row r has those from `starts[r]` to `starts[r + 1]`: int32
    [R+1]. Raises `DataError`.
    """
    roots = np.diff(np.concatenate(([0], np.cumsum(at == 1)))[starts])
    if (roots != 1).any():
        wrong = int(np.flatnonzero(roots != 1)[0])
        raise DataError(
            f"a {side} is no tree", got=f"{roots[wrong]} roots in row {wrong} of these", allowed="one", fix=_AGAIN
        )


def operators(part: pa.Table) -> list[str | None]:
    """The names of the operators in a table. Raises `DataError` if they are not text in UTF-8."""
    try:
        found: list[str | None] = part["op"].combine_chunks().dictionary.to_pylist()
        return found
    except UnicodeDecodeError as error:
        raise DataError("the name of an operator is not UTF-8", got=str(error), fix=_AGAIN) from error


def _range(factor: Structure) -> tuple[int, int]:
    """The smallest and the largest coordinate that a dataset may store for a factor of its structure."""
    if isinstance(factor, Tree):
        return 1, int(factor.level_start(factor.max_depth + 1)) - 1
    return 0, factor.order - 1 if isinstance(factor, Cyclic) else 2**63 - 2  # collation adds 1

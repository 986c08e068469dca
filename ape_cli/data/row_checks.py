"""Checks of the rows of a dataset of sequences, trees and grids, against its vocabulary and its structure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ape_cli.core.errors import DataError
from ape_cli.core.vocabulary import FIRST_SYMBOL, PAD
from ape_cli.storage import sequence_rows
from ape_cli.structure import Cyclic, Seq, Structure, Tree


def check_rows(part: pa.Table, structure: Structure, ids: int, *, tagged: bool = False) -> None:
    """Check that every id is in the vocabulary and has a position, and that every position exists in the structure.

    Each row of a tree must also have its root, once. Only words may be empty, because they end with EOS.

    `structure` is that of the dataset, and `ids` the size of its vocabulary. If targets are `tagged`, they may have
    PAD, and have the positions of their sources. Raises `DataError` otherwise.
    """
    if tagged and not part["source_positions"].equals(part["target_positions"]):
        raise _invalid("not each token has a tag", "tags at other positions than the tokens", "those of the source")
    for side in ("source", "target"):
        lengths = pc.list_value_length(part[f"{side}_ids"]).to_numpy()
        _check_each(
            lengths == pc.list_value_length(part[f"{side}_positions"]).to_numpy(), f"not each {side} id has a position"
        )
        if not isinstance(structure, Seq):
            _check_each(lengths > 0, f"a {side} is empty")
        symbols = part[f"{side}_ids"].combine_chunks().values.to_numpy()
        if tagged and side == "target":
            symbols = symbols[symbols != PAD]
        _check_range(f"a {side} id is not in the vocabulary", symbols, FIRST_SYMBOL, ids - 1)
        places = part[f"{side}_positions"].combine_chunks()
        positions = sequence_rows.positions(places)
        for factor, coordinate in zip(structure.simple, positions.reshape(-1, structure.width).T, strict=True):
            deep = " (a path too deep for a heap index?)" if isinstance(factor, Tree) else ""
            _check_range(f"a {side} position is not one of {factor.expression}{deep}", coordinate, *_range(factor))
        if isinstance(structure, Tree):
            roots = np.concatenate(([0], np.cumsum(positions == 1)))[places.offsets.to_numpy()]
            _check_each(np.diff(roots) == 1, f"a {side} is no tree: it does not have one root")


def _check_each(valid: NDArray[np.bool_], what: str) -> None:
    """Check that all rows are valid: bool [R]. Raises `DataError`."""
    if not valid.all():
        raise _invalid(what, f"row {int(valid.argmin())} of these")


def _check_range(what: str, values: np.ndarray, low: int, high: int) -> None:
    """Check that all values, integers [T], are in low..high. Raises `DataError`."""
    if values.size and not low <= values.min() <= values.max() <= high:
        raise _invalid(what, values[(values < low) | (values > high)][0], f"{low} to {high}")


def _invalid(what: str, got: Any, allowed: str | None = None) -> DataError:
    """The error for rows that no model can read."""
    return DataError(what, got=got, allowed=allowed, fix="correct the task, and generate the dataset again")


def _range(factor: Structure) -> tuple[int, int]:
    """The smallest and the largest coordinate that a dataset may store for a factor of its structure."""
    if isinstance(factor, Tree):
        return 1, int(factor.level_start(factor.max_depth + 1)) - 1
    return 0, factor.order - 1 if isinstance(factor, Cyclic) else 2**63 - 2  # collation adds 1

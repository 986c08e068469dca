"""A check of the rows that a user's own task draws, against its vocabulary and its structure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ape_cli.core.errors import DataError
from ape_cli.core.vocabulary import FIRST_SYMBOL, PAD
from ape_cli.storage import sequence_rows
from ape_cli.structure import Cyclic, Structure, Tree


def check_rows(part: pa.Table, structure: Structure, ids: int, *, tagged: bool = False) -> None:
    """Check that every id is in the vocabulary, that every position exists, and that every tree has one root.

    `structure` is that of the dataset, and `ids` the size of its vocabulary. If targets are `tagged`, they may have
    PAD. Raises `DataError` otherwise.
    """
    for side in ("source", "target"):
        symbols = part[f"{side}_ids"].combine_chunks().values.to_numpy()
        if tagged and side == "target":
            symbols = symbols[symbols != PAD]
        _check_range(f"a {side} id is not in the vocabulary", symbols, FIRST_SYMBOL, ids - 1)
        column = part[f"{side}_positions"].combine_chunks()
        positions = sequence_rows.positions(column)
        for factor, coordinate in zip(structure.simple, positions.reshape(-1, structure.width).T, strict=True):
            deep = " (a path too deep for a heap index?)" if isinstance(factor, Tree) else ""
            _check_range(f"a {side} position is not one of {factor.expression}{deep}", coordinate, *_range(factor))
        if isinstance(structure, Tree):
            roots = np.concatenate(([0], np.cumsum(positions == 1)))[column.offsets.to_numpy()]
            if (np.diff(roots) != 1).any():
                raise DataError(f"a {side} is not a tree: it does not have exactly one root", fix="correct the task")


def _check_range(what: str, values: np.ndarray, low: int, high: int) -> None:
    """Check that all values, integers [T], are in low..high. Raises `DataError`."""
    if values.size and not low <= values.min() <= values.max() <= high:
        wrong = values[(values < low) | (values > high)][0]
        raise DataError(what, got=wrong, allowed=f"{low} to {high}", fix="correct the task")


def _range(factor: Structure) -> tuple[int, int]:
    """The smallest and the largest coordinate that a dataset may store for a factor of its structure."""
    if isinstance(factor, Tree):
        return 1, int(factor.level_start(factor.max_depth + 1)) - 1
    return 0, factor.order - 1 if isinstance(factor, Cyclic) else 2**63 - 2  # collation adds 1

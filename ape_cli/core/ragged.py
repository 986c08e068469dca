"""Ragged rows as flat arrays: row r of `values` is `values[offsets[r]:offsets[r + 1]]`.

Shapes: R rows, N chosen rows, T values in all. `offsets` is int64 [R+1].
"""

from __future__ import annotations

import numpy as np

from ape_cli.core.rng import I64


def offsets_of(sizes: I64) -> I64:
    """The start of each row, followed by the end of the last row. int64 [R] -> int64 [R+1]"""
    offsets = np.zeros(sizes.size + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def rows_of(offsets: I64) -> I64:
    """The row that each value belongs to. int64 [R+1] -> int64 [T]"""
    return np.repeat(np.arange(offsets.size - 1), np.diff(offsets))


def ranges(first: I64 | int, offsets: I64) -> I64:
    """Count up from the first number of each row: `first[0]`, `first[0] + 1` and so on.

    `first` is int64 [R], or one number for all rows, and `offsets` is int64 [R+1]. Returns int64 [T].

    >>> ranges(np.array([7, 0]), np.array([0, 2, 5]))
    array([7, 8, 0, 1, 2])
    """
    index: I64 = np.repeat(first - offsets[:-1], np.diff(offsets))
    index += np.arange(offsets[-1])
    return index


def indices_of(offsets: I64) -> I64:
    """The place of each value in its row, from 0. int64 [R+1] -> int64 [T]"""
    return ranges(0, offsets)


def backwards(offsets: I64) -> I64:
    """The flat indices of the values, each row from its end. int64 [R+1] -> int64 [T]

    >>> backwards(np.array([0, 2, 5]))
    array([1, 0, 4, 3, 2])
    """
    return np.repeat(offsets[:-1] + offsets[1:] - 1, np.diff(offsets)) - np.arange(offsets[-1])


def beside(*parts: tuple[I64, ...]) -> list[I64]:
    """The rows of several ragged arrays side by side: the offsets of the joined rows, and their values.

    Each part has offsets, int64 [R+1], and one or more arrays of values.

    >>> beside((np.array([0, 1, 2]), np.array([7, 8])), (np.array([0, 2, 3]), np.array([1, 2, 3])))
    [array([0, 3, 5]), array([7, 1, 2, 8, 3])]
    """
    row = np.concatenate([rows_of(offsets) for offsets, *_ in parts])
    line = np.argsort(row, kind="stable")
    columns = zip(*(values for _, *values in parts), strict=True)
    return [offsets_of(np.bincount(row, minlength=parts[0][0].size - 1)), *(np.concatenate(c)[line] for c in columns)]


def take(offsets: I64, rows: I64) -> tuple[I64, I64]:
    """The values of the chosen rows, in the chosen order.

    `offsets` is int64 [R+1] and `rows` is int64 [N]. Returns the flat indices of the values, and the offsets of the
    chosen rows, int64 [N+1].

    >>> take(np.array([0, 2, 2, 5]), np.array([2, 0]))
    (array([2, 3, 4, 0, 1]), array([0, 3, 5]))
    """
    cut = offsets_of(np.diff(offsets)[rows])
    return ranges(offsets[rows], cut), cut

"""Dictionary-encoded columns of Parquet files, whose indices pyarrow does not check when it reads them."""

from __future__ import annotations

import pyarrow as pa


def check_indices(column: pa.Array) -> None:
    """Check that each index of a dictionary-encoded column is in its dictionary. Columns of other types are sound.

    Raises `pyarrow.ArrowInvalid` otherwise.
    """
    if not pa.types.is_dictionary(column.type) or column.null_count == len(column):
        return
    indices, size = column.indices.drop_null().to_numpy(), len(column.dictionary)
    if indices.min() < 0 or indices.max() >= size:
        wrong = indices.min() if indices.min() < 0 else indices.max()
        raise pa.ArrowInvalid(f"index {wrong} into a dictionary of {size} values")

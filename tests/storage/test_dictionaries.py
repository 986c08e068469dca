"""Indices of dictionary-encoded columns that are not in their dictionary. pyarrow reads them without an error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ape_cli.core.errors import DataError
from ape_cli.storage import sources
from ape_cli.storage.dictionaries import check_indices
from ape_cli.storage.parquet import read_group
from tests.storage.sources import formats

SHORTER = b"\x15\x80\x01", b"\x15\xd0\x00"  # the number of values of a dictionary page: 64, and 40 in as many bytes


def shorten(path: Path, column: int) -> None:
    """Lets the dictionary of a column of 64 values have 40 values only, as one changed byte would do."""
    with pq.ParquetFile(path) as file:
        place = file.metadata.row_group(0).column(column).dictionary_page_offset
    content = path.read_bytes()
    assert SHORTER[0] in content[place : place + 40]
    path.write_bytes(content[:place] + content[place:].replace(*SHORTER, 1))


def test_indices() -> None:
    names = pa.array(["a", "b"])
    for indices in ([0, 1, 1], [None, 1], [None, None], []):
        check_indices(pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), names))
    check_indices(pa.array([7, 8]))
    for wrong in (2, -1):
        made = pa.DictionaryArray.from_arrays(pa.array([0, wrong, None], pa.int32()), names, safe=False)
        with pytest.raises(pa.ArrowInvalid, match=f"index {wrong} into a dictionary of 2 values"):
            check_indices(made)


def test_a_shard_whose_dictionary_is_too_short(tmp_path: Path) -> None:
    table = pa.table({"row": np.arange(64), "op": pa.array([f"op {i}" for i in range(64)]).dictionary_encode()})
    pq.write_table(table, tmp_path / "x.parquet", compression="none")
    with pq.ParquetFile(tmp_path / "x.parquet") as file:
        assert read_group(file, 0, "x.parquet").equals(table)
    shorten(tmp_path / "x.parquet", 1)
    with pq.ParquetFile(tmp_path / "x.parquet") as file, pytest.raises(DataError, match="dictionary of 40 values"):
        read_group(file, 0, "x.parquet")


@pytest.mark.parametrize("struct", [True, False])
@pytest.mark.parametrize("column", [0, 1])
def test_images_whose_dictionary_is_too_short(tmp_path: Path, column: int, struct: bool) -> None:
    """Of the images, or of their labels."""
    images = [formats.encoded(np.full((2, 2), i, np.uint8)) for i in range(64)]
    column_of_images = [{"bytes": image} for image in images] if struct else images
    table = pa.table({"image": column_of_images, "label": [str(i) for i in range(64)]})
    pq.write_table(table, tmp_path / "x.parquet", compression="none")
    assert len(sources.open_source(str(tmp_path / "x.parquet")).classes) == 64
    shorten(tmp_path / "x.parquet", column)
    with pytest.raises(DataError, match="dictionary of 40 values"):
        sources.open_source(str(tmp_path / "x.parquet"))

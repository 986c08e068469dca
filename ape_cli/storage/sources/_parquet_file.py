"""Parquet files of images: open them within a budget, and read their columns in parts.

Every error of reading is a `DataError`, also a name or a text that is not UTF-8.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli.core import budget
from ape_cli.core.errors import DataError
from ape_cli.storage.dictionaries import check_indices
from ape_cli.storage.parquet import group_sizes, most_expanded

_AT_ONCE = 256  # encoded images that are in memory at once
_LABELS = 2**16  # labels that are read at once
_END = 8  # bytes at the end of a file: the length of the footer, and PAR1


def check_footers(paths: list[Path]) -> None:
    """Raise `DataError` if the footers of these files, which are read at once, are too large together."""
    size = sum(map(_footer, paths))
    if size > budget.FOOTER_BYTES:
        raise DataError(
            f"the footer of {paths[0]} is too large" if len(paths) == 1 else "the footers of the files are too large",
            got=f"{size:,} bytes",
            allowed=f"{budget.FOOTER_BYTES:,} bytes",
            fix="write fewer and larger row groups",
        )


def _footer(path: Path) -> int:
    """The length of the footer in bytes, as the end of the file tells it; 0 if there is no such file."""
    if not path.is_file() or path.stat().st_size < _END:
        return 0
    with path.open("rb") as file:
        file.seek(-_END, 2)
        length: int = struct.unpack("<I4x", file.read(_END))[0]
    return min(length, path.stat().st_size)


class ImageShard:
    """An open Parquet file. Raises `DataError` if it cannot be read."""

    def __init__(self, path: Path) -> None:
        """Open the file at `path` and read its schema."""
        self.path = path
        with self._reading():
            if not path.is_file():
                raise OSError("it is no regular file")
            self.file = pq.ParquetFile(path.absolute())  # pyarrow takes `a1:/x` for the address of a file system
            self.schema: pa.Schema = self.file.schema_arrow
            for field in self.schema:
                str(field)  # decodes all names
        self.rows: int = self.file.metadata.num_rows

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn errors of reading in this block into `DataError`."""
        try:
            yield
        except UnicodeDecodeError as error:
            raise self._unreadable("a name that is not UTF-8") from error
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(str(error).partition("\n")[0]) from error

    def _unreadable(self, got: str) -> DataError:
        """The error for a damaged file."""
        return DataError(f"cannot read {self.path}", got=got, allowed="a complete Parquet file", fix="fetch it again")

    def labels(self, name: str) -> Iterator[tuple[int, pa.Array]]:
        """Yield the parts of a column of labels, each with the index of its first row in the file.

        Equal texts are in memory only once. Raises `DataError` if the labels of a part or a row group are too large.
        """
        self._check_groups()
        text = not pa.types.is_integer(self.schema.field(name).type)
        for start, part in self._parts(name, [name] if text else [], _LABELS):
            if part.nbytes > budget.LABEL_BYTES:
                what = f"labels of {self.path} are too large"
                raise _too_large(what, part.nbytes, f"{budget.LABEL_BYTES:,} bytes")
            yield start, part

    def images(self, name: str) -> Iterator[tuple[int, pa.Array]]:
        """`labels` for encoded images. Equal images are in memory only once, as the file stores them.

        Raises `DataError` if a row group does not fit into memory.
        """
        self._check_groups()
        kind = self.schema.field(name).type
        return self._parts(name, [f"{name}.bytes" if pa.types.is_struct(kind) else name], _AT_ONCE)

    def _check_groups(self) -> None:
        """Raise `DataError` if a row group does not fit into memory, or is much larger than the file."""
        expanded = most_expanded(self.path.stat().st_size)
        most = min(budget.memory(), expanded)
        limit = "half of this machine's memory" if most < expanded else "as the file is small"
        for size in group_sizes(self.file.metadata):
            if size > most:
                raise _too_large(f"a row group of {self.path} is too large", size, f"{most:,} bytes, {limit}")

    def _parts(self, name: str, once: list[str], at_once: int) -> Iterator[tuple[int, pa.Array]]:
        """Yield the parts of a column, each with the index of its first row. Equal values of `once` are stored once.

        Raises `DataError` if there are more or fewer rows than the footer says.
        """
        start = 0
        with self._reading():
            for batch in pq.ParquetFile(self.path.absolute(), read_dictionary=once).iter_batches(
                at_once, columns=[name]
            ):
                if start + len(batch) > self.rows:
                    break
                column = batch.column(0)
                check_indices(column.field("bytes") if pa.types.is_struct(column.type) else column)
                yield start, column
                start += len(batch)
            else:
                if start == self.rows:
                    return
        raise self._unreadable(f"another number of rows than {self.rows:,}, as its footer says")


def _too_large(what: str, size: int, allowed: str) -> DataError:
    """The error for a part of a file that is too large."""
    return DataError(what, got=f"{size:,} bytes", allowed=allowed, fix="write smaller row groups")

"""The labels of images in Parquet files: whole numbers, or texts, of which each is kept once.

Shapes: R images.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ape_cli.core import budget
from ape_cli.core.errors import DataError
from ape_cli.storage.sources._parquet_file import ImageShard
from ape_cli.storage.sources._source import check_names, no_text, of_labels, too_large


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type has texts."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def read(shards: list[ImageShard], field: pa.Field) -> pa.ChunkedArray:
    """The labels of a split: whole numbers as stored, or one dictionary of texts.

    Raises `DataError` if a label is null, or if texts are not UTF-8, too many or too long.
    """
    parts: list[pa.Array] = []
    texts = _Texts()
    for shard in shards:
        for start, part in shard.labels(field.name):
            if part.null_count:
                row = start + pc.index(part.is_null(), True).as_py()
                raise DataError(
                    "an image without a label",
                    got=f"null in row {row} of {shard.path}",
                    fix="leave it out, or label it",
                )
            parts.append(texts.numbers(part) if is_text(field.type) else part)
    if not is_text(field.type):
        return pa.chunked_array(parts, type=field.type)
    names = pa.array(list(texts.known), pa.string())
    indices = np.concatenate([np.empty(0, np.int32), *parts])
    return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, names)])


class _Texts:
    """The distinct texts among labels, numbered in the order in which they are found."""

    def __init__(self) -> None:
        """Start without texts."""
        self.known: dict[str, int] = {}

    def numbers(self, part: pa.DictionaryArray) -> np.ndarray:
        """The numbers of texts, int32 [R].

        Raises `DataError` if texts are not UTF-8, or if all that are known are too many or too long together.
        """
        used, places = np.unique(part.indices.to_numpy(), return_inverse=True)
        encoded = part.dictionary.take(pa.array(used)).cast(pa.large_binary())
        size = pc.sum(pc.binary_length(encoded)).as_py() or 0
        if size > budget.CLASSES_BYTES:
            raise too_large(len(encoded), size)
        numbers = [self.known.setdefault(_decoded(name), len(self.known)) for name in encoded.to_pylist()]
        check_names(list(self.known))
        return np.asarray(numbers, np.int32)[places]


def _decoded(name: bytes) -> str:
    """Decode a text. Raises `DataError` if it is not UTF-8."""
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise no_text(str(name[:80])) from error


def classes(field: pa.Field, labels: dict[str, pa.ChunkedArray]) -> list[str]:
    """The names of the classes: the sorted texts, or the numbers from 0 to the largest label.

    Raises `DataError` if the largest number is 65,536 or more.
    """
    chunks = [chunk for column in labels.values() for chunk in column.chunks]
    if is_text(field.type):
        return sorted({name for chunk in chunks for name in chunk.dictionary.to_pylist()})
    most = max([0, *(pc.max(chunk).as_py() for chunk in chunks if len(chunk))])
    if most >= budget.CLASSES:
        raise DataError(
            f"the numbers of {field.name} are not labels",
            got=most,
            allowed=f"less than {budget.CLASSES:,}",
            fix="choose another column",
        )
    return [str(number) for number in range(most + 1)]


def numbers(values: pa.ChunkedArray, names: list[str]) -> np.ndarray:
    """Convert labels to indices into `names`, the classes. Returns int64 [R]."""
    if not is_text(values.type):
        return of_labels(values.to_numpy())
    (chunk,) = values.chunks
    places = pc.index_in(chunk.dictionary, pa.array(names, pa.string()))
    return of_labels(places.take(chunk.indices).to_numpy(zero_copy_only=False))

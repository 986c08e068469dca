"""Labelled images in Parquet files, as on the Hugging Face hub and as written by `ape gen`.

One column contains encoded images (PNG, JPEG …), as binary or as a struct with a binary field `bytes`. Another column
contains the labels, as integers or texts. For integers, the schema's metadata `huggingface` names the classes
(`ClassLabel`); without it, each number is its own name. For texts, the classes are the sorted distinct texts.

Shapes: R images.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ape_cli.core import budget
from ape_cli.core.errors import DataError, UsageError, unknown
from ape_cli.storage.sources import _decode, _labels
from ape_cli.storage.sources._parquet_file import ImageShard, check_footers
from ape_cli.storage.sources._source import ImageSource, LabelledImages, known, source

_NAMES = ("label", "labels", "class", "classes", "target", "category")  # usual names of a label column


@dataclass(frozen=True)
class _Columns:
    """The columns to read: the images and the labels."""

    image: pa.Field
    label: pa.Field
    classes: list[str] | None  # names by label, if the metadata has them


def read(path: Path, files: dict[str, list[Path]], label: str | None) -> ImageSource:
    """Read the source at `path`. `files` are the Parquet files of each split, in order.

    Raises `DataError` if a file is damaged, or its columns or values do not fit, and `UsageError` if the column of
    labels is unknown or ambiguous.
    """
    paths = [file for parts in files.values() for file in parts]
    check_footers(paths)
    shards = {split: [ImageShard(file) for file in parts] for split, parts in files.items()}
    every = [shard for parts in shards.values() for shard in parts]
    columns = _columns(every[0], label)
    for shard in every:
        _check_columns(shard, columns)
    budget.check_rows(sum(shard.rows for shard in every), sum(shard.path.stat().st_size for shard in every))
    labels = {split: _labels.read(parts, columns.label) for split, parts in shards.items()}
    classes = columns.classes or _labels.classes(columns.label, labels)
    pixels = _pixels(shards, columns.image.name)
    numbers = {split: _labels.numbers(values, classes) for split, values in labels.items()}
    return source(path, classes, {split: LabelledImages(pixels[split], numbers[split]) for split in pixels})


def _check_columns(shard: ImageShard, columns: _Columns) -> None:
    """Raise `DataError` if a file does not have the columns of the first shard."""
    for field in (columns.image, columns.label):
        own = [f for f in shard.schema if f.name == field.name]
        if len(own) != 1 or own[0].type != field.type:
            raise DataError(
                f"{shard.path} has other columns than the first file",
                got=f"{field.name}: {own[0].type if own else 'none'}",
                allowed=f"{field.name}: {field.type}",
                fix="write all files with one schema",
            )


def _columns(shard: ImageShard, label: str | None) -> _Columns:
    """Choose the column of images, and the column of labels that `label` selects.

    Raises `DataError` if there is not exactly one column of images, or no column of labels.
    """
    images = [field for field in shard.schema if _is_image(field.type)]
    if len(images) != 1:
        raise DataError(
            f"{shard.path} has {'several columns' if images else 'no column'} of images",
            got=", ".join(field.name for field in images or shard.schema),
            allowed="one column of binary, or of a struct with binary `bytes`",
            fix="keep one" if images else "write the images as encoded bytes (PNG, JPEG)",
        )
    named = _class_names(shard.schema)
    usable = {field.name: field for field in shard.schema if _is_number(field.type) or _labels.is_text(field.type)}
    which = _label(shard.path, list(usable), named, label)
    return _Columns(images[0], usable[which], named.get(which) if _is_number(usable[which].type) else None)


def _label(path: Path, usable: list[str], named: dict[str, list[str]], label: str | None) -> str:
    """Choose the column of labels among the `usable` columns; `named` are those with names of classes.

    Without `label`, it tries in this order: columns with names of classes, columns with a usual name, all usable
    columns. If several remain, the fine labels of CIFAR-100 are preferred.

    Raises `UsageError` if `label` is unknown or the choice is ambiguous, and `DataError` if there is no usable column.
    """
    if label is not None:
        which = next((name for name in (label, f"{label}_label") if name in usable), None)
        if which is None:
            raise unknown("column of labels", label, usable)
        return which
    tries = (named, [name for name in usable if name in _NAMES or name.endswith("_label")], usable)
    candidates: list[str] = next(filter(None, ([name for name in some if name in usable] for some in tries)), [])
    if not candidates:
        raise DataError(
            f"{path} has no column of labels", allowed="a column of whole numbers, or of texts", fix="add one"
        )
    if len(candidates) == 1:
        return candidates[0]
    fine = next((name for name in candidates if known(named.get(name, [])) == "cifar-100"), None)
    if fine is None:
        raise UsageError(
            f"{path} has several columns of labels",
            got=", ".join(candidates),
            allowed="one",
            fix="choose one with --label",
        )
    return fine


def _is_image(kind: pa.DataType) -> bool:
    """Whether a column of this type can contain encoded images."""
    if pa.types.is_struct(kind):
        at = kind.get_field_index("bytes")
        return at >= 0 and _is_bytes(kind.field(at).type)
    return _is_bytes(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind)


def _class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """The names of classes by column, in the order of the schema.

    They come from the metadata that the `datasets` library writes. The result is empty if there are none.
    """
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        named = {name: features[name]["names"] for name in schema.names if "names" in features.get(name, {})}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return {name: found for name, found in named.items() if _is_names(found)}


def _is_names(found: Any) -> bool:
    return isinstance(found, list) and bool(found) and all(isinstance(name, str) for name in found)


def _pixels(shards: dict[str, list[ImageShard]], image: str) -> dict[str, np.ndarray]:
    """Decode the images of each split into one array, one image at a time."""
    canvases = {}
    for split, parts in shards.items():
        stored = sum(shard.path.stat().st_size for shard in parts)
        canvases[split] = _decode.Canvas(sum(shard.rows for shard in parts), stored)
        for shard in parts:
            canvases[split].paint(_encoded(shard, image))
    return _decode.alike(canvases)


def _encoded(shard: ImageShard, image: str) -> Iterator[tuple[str, bytes]]:
    """Yield the encoded bytes of each image, with its place for error messages.

    Raises `DataError` if a row has no image.
    """
    for start, part in shard.images(image):
        whole = pc.struct_field(part, "bytes") if pa.types.is_struct(part.type) else part
        for number, value in enumerate(whole, start):
            encoded = value.as_py()  # one at a time
            if encoded is None:
                raise DataError(
                    "a row without an image",
                    got=f"row {number} of {shard.path}: {part[number - start].as_py()}",
                    allowed="its encoded bytes; a path alone is not enough",
                    fix="write the images into the file, or leave the row out",
                )
            yield f"row {number} of {shard.path}", encoded

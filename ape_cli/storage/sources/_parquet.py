"""Labelled images in Parquet files, as on the Hugging Face hub and as written by `ape gen`.

One column contains encoded images (PNG, JPEG …), as binary or as a struct with a binary field `bytes`. Another column
contains the labels, as integers or texts. For integers, the schema's metadata `huggingface` names the classes
(`ClassLabel`); without it, each number is its own name. For texts, the classes are the sorted distinct texts.

If all images of a source are gray (modes L and 1), their array has one channel. Otherwise all images are converted to
RGB (also from P and CMYK). The EXIF orientation of the camera is applied, as the `datasets` library does. Images with
transparency, animation or more than 8 bits per channel are rejected, because there is no unique conversion.

Shapes: R images, H height, W width, C channels.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ape_cli.core.errors import DataError, UsageError, brief, unknown
from ape_cli.core.memory import half_memory
from ape_cli.storage import image_rows
from ape_cli.storage.parquet import check_groups, is_bytes, is_text, reading
from ape_cli.storage.sources._source import MOST_CLASSES, ImageSource, LabelledImages, cifar_name, source

_AGAIN = "fetch it again"
_AT_ONCE = 64  # encoded images that are in memory at once
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")  # none that runs a program, as EPS does
_MOST_BYTES = 8 * 2**20  # of an encoded image
_MOST_PIXELS = 2**25  # of an image
_GRAY, _COLOUR = ("L", "1"), ("RGB", "P", "CMYK")
_NAMES = ("label", "labels", "class", "classes", "target", "category")  # usual names of a label column


def read(path: Path, files: dict[str, list[Path]], label: str | None) -> ImageSource:
    """Read the source at `path`. `files` are the Parquet files of each split, in order.

    Raises `DataError` if a file is damaged, or its columns or values do not fit, and `UsageError` if the column of
    labels is unknown or ambiguous, or if Pillow is not installed.
    """
    image_rows.pillow()
    paths = [file for parts in files.values() for file in parts]
    shards = {file: _open(file) for file in paths}
    image, column, names = _columns(paths[0], shards[paths[0]].schema_arrow, label)
    for file, shard in shards.items():
        for field in (image, column):
            if [other.type for other in shard.schema_arrow if other.name == field.name] != [field.type]:
                allowed = f"{field.name}: {field.type}"
                raise DataError(f"{file} has different columns from the first file", allowed=allowed)
        if names and (others := _class_names(shard.schema_arrow).get(column.name, names)) != names:
            what, fix = f"{file} names different classes from the first file", "store all files with the same classes"
            raise DataError(what, got=brief(others), allowed=brief(names), fix=fix)
    canvas = Canvas(sum(shard.metadata.num_rows for shard in shards.values()))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")  # of metadata that it skips
        rows = {
            split: [name for file in parts for name in _rows(file, shards[file], image, column, canvas)]
            for split, parts in files.items()
        }
    if is_text(column.type):
        classes = sorted({name for part in rows.values() for name in part})
        numbers = {name: number for number, name in enumerate(classes)}
        rows = {split: [numbers[name] for name in part] for split, part in rows.items()}
    else:  # without names, the classes are the numbers from 0 to the largest label
        largest = max([0, *(max(part, default=0) for part in rows.values())])
        if not names and largest >= MOST_CLASSES:
            got, allowed = largest, f"less than {MOST_CLASSES:,}"
            raise DataError(f"the numbers of {column.name} are not labels", got=got, allowed=allowed)
        classes = names or [str(number) for number in range(largest + 1)]
    pixels = np.split(canvas.pixels, np.cumsum([len(part) for part in rows.values()])[:-1])
    labels = [np.array(part, np.int64) for part in rows.values()]
    return source(path, classes, dict(zip(rows, map(LabelledImages, pixels, labels), strict=True)))


def _open(path: Path) -> pq.ParquetFile:
    """Open a file. Raises `DataError` if it cannot be read, or is too large."""
    with reading(f"cannot read {path}", _AGAIN):
        if not path.is_file():
            raise OSError("it is not a regular file")
        file = pq.ParquetFile(path.absolute())  # pyarrow takes `a1:/x` for the address of a file system
        str(file.schema_arrow)  # decodes all names
    check_groups(file, path)
    return file


def _rows(path: Path, file: pq.ParquetFile, image: pa.Field, label: pa.Field, canvas: Canvas) -> Iterator[Any]:
    """Paint the images of a file, and yield their labels: numbers or texts.

    Raises `DataError` if the file is damaged, or a row has no image or no label.
    """
    with reading(f"cannot read {path}", _AGAIN):
        row = 0
        for batch in file.iter_batches(_AT_ONCE, columns=[image.name, label.name]):
            images = batch[image.name]
            encoded = pc.struct_field(images, "bytes") if pa.types.is_struct(image.type) else images
            for content, name in zip(encoded, batch[label.name].to_pylist(), strict=True):
                if not content.is_valid or name is None:
                    what = f"a row without {'a label' if content.is_valid else 'an image (a path alone is not enough)'}"
                    raise DataError(what, got=f"row {row} of {path}")
                canvas.add(f"row {row} of {path}", content.as_py())
                yield name
                row += 1


def _columns(path: Path, schema: pa.Schema, label: str | None) -> tuple[pa.Field, pa.Field, list[str] | None]:
    """The column of images, the column of labels that `label` selects, and its classes if the metadata has them.

    Raises `DataError` if there is not exactly one column of images, or no column of labels.
    """
    images = [field for field in schema if _is_image(field.type)]
    if len(images) != 1:
        what = f"{path} has {'several columns' if images else 'no column'} of images (encoded, such as PNG or JPEG)"
        raise DataError(what, got=", ".join(field.name for field in images or schema), allowed="one")
    named = _class_names(schema)
    usable = {field.name: field for field in schema if pa.types.is_integer(field.type) or is_text(field.type)}
    chosen = usable[_label(path, list(usable), named, label)]
    return images[0], chosen, None if is_text(chosen.type) else named.get(chosen.name)


def _label(path: Path, usable: list[str], named: dict[str, list[str]], label: str | None) -> str:
    """Choose the column of labels among the `usable` columns; `named` are those with names of classes.

    Without `label`, it tries in this order: columns with names of classes, columns with a usual name, all usable
    columns. If several remain, the fine labels of CIFAR-100 are preferred.

    Raises `UsageError` if `label` is unknown, or if there is no choice or an ambiguous one.
    """
    if label is not None:
        chosen = next((name for name in (label, f"{label}_label") if name in usable), None)
        if chosen is None:
            raise unknown("column of labels", label, usable)
        return chosen
    with_names = [name for name in named if name in usable]
    usual = [name for name in usable if name in _NAMES or name.endswith("_label")]
    candidates = with_names or usual or usable
    fine = [name for name in candidates if cifar_name(named.get(name, [])) == "cifar-100"]
    if len(candidates) != 1 and not fine:
        what = f"{path} has {'several columns' if candidates else 'no column'} of labels (whole numbers or texts)"
        raise UsageError(what, got=", ".join(candidates) or None, fix="choose one with `label`" if candidates else None)
    return (fine or candidates)[0]


def _is_image(data_type: pa.DataType) -> bool:
    """Whether a column of this type can contain encoded images."""
    if pa.types.is_struct(data_type):
        return any(field.name == "bytes" and _is_image(field.type) for field in data_type)
    return is_bytes(data_type)


def _class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """The names of classes by column, in the order of the schema.

    They come from the metadata that the `datasets` library writes. The result is empty if there are none.
    """
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        named = {name: features[name]["names"] for name in schema.names if "names" in features.get(name, {})}
        return {name: names for name, names in named.items() if names and "".join(names) and isinstance(names, list)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


class Canvas:
    """An array for `rows` images of one size, filled one by one. The first image decides the size."""

    def __init__(self, rows: int) -> None:
        """Create an empty canvas; the array is allocated with the first image."""
        self.rows = rows
        self.filled = 0
        self.pixels = np.empty((0, 0, 0, 1), np.uint8)  # [rows, H, W, C], or no rows before the first image

    def add(self, location: str, encoded: bytes) -> None:
        """Decode the next image. `location` says where it is, for error messages.

        Raises `DataError` if it cannot be decoded, is not supported, has another size or needs too much memory.
        """
        image = self._decoded(location, encoded)
        if not len(self.pixels):
            self.pixels = np.empty((self.rows, *image.shape), np.uint8)
        if image.shape[:2] != self.pixels.shape[1:3]:
            got, first = ("{} x {}".format(*shape) for shape in (image.shape, self.pixels.shape[1:]))
            raise DataError("images of different sizes", got=f"{got}, {location}", allowed=f"{first}, as the first")
        if image.shape[2] > self.pixels.shape[3]:
            self.pixels = self.pixels.repeat(3, axis=3)  # all earlier images were gray
        self.pixels[self.filled] = image  # a gray image is broadcast to all channels
        self.filled += 1

    def _decoded(self, location: str, encoded: bytes) -> np.ndarray:
        """Decode an image: uint8 [H, W, 1] if it is gray, else uint8 [H, W, 3].

        Raises `DataError` if it cannot be decoded, is not supported or is too large.
        """
        from PIL import Image, ImageOps

        try:
            if len(encoded) > _MOST_BYTES:
                raise ValueError(f"more than {_MOST_BYTES:,} bytes")
            with Image.open(io.BytesIO(encoded), formats=_FORMATS) as image:
                gray, size = image.mode in _GRAY, image.height * image.width
                problems = {
                    f"more than {_MOST_PIXELS:,} pixels": size > _MOST_PIXELS,
                    "transparency": image.has_transparency_data,
                    f"mode {image.mode}": image.mode not in (*_GRAY, *_COLOUR),
                    "several frames": getattr(image, "is_animated", False),
                }
                if problem := next((problem for problem, is_so in problems.items() if is_so), None):
                    raise ValueError(problem)
                needed = self.rows * size * (1 if gray else 3)
                if needed > half_memory():
                    got, allowed = f"{self.rows:,} images, {needed:,} bytes", f"{half_memory():,} bytes"
                    raise DataError("the images are too large", got=got, allowed=allowed, fix="use fewer")
                pixels = np.asarray(ImageOps.exif_transpose(image.convert("L" if gray else "RGB")))
                return pixels[..., None] if gray else pixels
        except DataError:
            raise
        except Exception as error:  # Pillow raises many kinds of exceptions for damaged files
            allowed = f"{', '.join(_FORMATS)}, opaque, one frame, modes {', '.join((*_GRAY, *_COLOUR))}"
            raise DataError("an image cannot be used", got=f"{error} ({location})", allowed=allowed) from error

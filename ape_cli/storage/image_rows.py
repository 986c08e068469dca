"""Rows of an image dataset: the Arrow schema of a shard, its pixels and its labels.

Images are stored as PNG (lossless), in the form that the `datasets` library of Hugging Face uses. The metadata of the
schema declares it, so that `datasets.load_dataset(DIR)` returns images and named labels. The content hash of a row is
computed from its pixels, so it does not depend on the version of zlib that compressed the PNG.

Shapes: R rows (images), H height, W width, C channels: 1 (gray) or 3 (RGB).
"""

from __future__ import annotations

import hashlib
import io
import json
from types import ModuleType
from typing import Annotated

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from ape_cli.core.errors import DataError, UsageError
from ape_cli.core.extras import how_to_install
from ape_cli.core.rng import I64, U64

_Side = Annotated[int, Field(ge=1, lt=2**16)]
Size = tuple[_Side, _Side, Annotated[int, Field(ge=1, le=3)]]  # height, width, channels: 1 (gray) or 3 (RGB)

_AGAIN = "generate it again"
_AT_ONCE = 256  # images that are decoded together


class Moments(BaseModel):
    """Mean and standard deviation of each channel of the training images. Pixel values are divided by 255."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mean: list[Annotated[float, Field(ge=0, le=1)]]
    std: list[Annotated[float, Field(gt=0, le=1)]]


def schema(classes: list[str] | None = None) -> pa.Schema:
    """The Arrow schema of a shard of images.

    The names of the `classes` are stored as metadata. Two schemas that differ only in metadata are equal.
    """
    image = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
    fields = [
        pa.field("row", pa.uint64(), nullable=False),
        pa.field("image", image),  # must be nullable: otherwise `datasets` does not recognise images
        pa.field("label", pa.int64()),
        pa.field("size", pa.uint16(), nullable=False),
    ]
    value = {field.name: {"dtype": str(field.type), "_type": "Value"} for field in fields}
    label = value["label"] if classes is None else {"names": classes, "_type": "ClassLabel"}
    features = value | {"image": {"_type": "Image"}, "label": label}
    return pa.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": features}})})


def pillow() -> ModuleType:
    """Import and return Pillow's module `Image`. Raises `UsageError` if Pillow is not installed."""
    try:
        from PIL import Image
    except ImportError:
        raise UsageError("images need Pillow", got="it is not installed", fix=how_to_install("image")) from None
    return Image


def table(row: U64, pixels: np.ndarray, labels: I64, classes: list[str]) -> pa.Table:
    """Build a table with the schema of a shard of images.

    `row`: uint64 [R], row numbers. `pixels`: uint8 [R, H, W, C]. `labels`: int64 [R], in 0 .. len(classes) - 1. The
    column `size` becomes the larger of H and W.

    Raises `UsageError` if Pillow is not installed.
    """
    image = pillow()

    def png(array: np.ndarray) -> bytes:
        """Encode one image, uint8 [H, W, C], as PNG."""
        written = io.BytesIO()
        image.fromarray(array[..., 0] if array.shape[-1] == 1 else array).save(written, "png")
        return written.getvalue()

    encoded = pa.array([png(array) for array in pixels], pa.binary())
    shard = schema(classes)
    columns = [
        pa.array(row, pa.uint64()),
        pa.StructArray.from_arrays([encoded, pa.nulls(len(encoded), pa.string())], fields=list(shard.field(1).type)),
        pa.array(labels, pa.int64()),
        pa.array(np.full(len(encoded), max(pixels.shape[1:3])), pa.uint16()),
    ]
    return pa.table(columns, schema=shard)


def pixels(part: pa.Table, size: Size) -> np.ndarray:
    """Decode the images of a table. Returns uint8 [R, H, W, C]. `size` is their (H, W, C).

    Raises `DataError` if an image is damaged, and `UsageError` if Pillow is not installed.
    """
    image = pillow()
    decoded = np.empty((len(part), *size), dtype=np.uint8)
    for i, stored in enumerate(part["image"].to_pylist()):
        try:
            with image.open(io.BytesIO(stored["bytes"]), formats=["PNG"]) as opened:
                decoded[i] = np.asarray(opened).reshape(size)
        except Exception as error:  # Pillow raises many kinds of exceptions for damaged files
            raise DataError(f"the image of row {part['row'][i]} cannot be read", got=error, fix=_AGAIN) from error
    return decoded


def sources(part: pa.Table, size: Size) -> U64:
    """Hash the pixels of each image of a table: uint64 [R]. `size` is their (H, W, C).

    Raises `DataError` if an image is damaged.
    """
    blocks = (pixels(part.slice(first, _AT_ONCE), size) for first in range(0, len(part), _AT_ONCE))
    digests = (hashlib.blake2b(image.tobytes(), digest_size=8).digest() for block in blocks for image in block)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def content(part: pa.Table, size: Size) -> tuple[int, int]:
    """Hash the rows of a table: two sums, modulo 2^64, of hashes of the row number, the label and the pixels.

    `size` is their (H, W, C). The sums of several tables can be added. Raises `DataError` if an image is damaged.
    """
    sums = [0, 0]
    for row, label, image in zip(part["row"].to_pylist(), part["label"].to_pylist(), pixels(part, size), strict=True):
        digest = hashlib.blake2b(f"{row} {label} {image.shape} ".encode() + image.tobytes(), digest_size=16).digest()
        sums = [(s + int.from_bytes(d, "little")) % 2**64 for s, d in zip(sums, (digest[:8], digest[8:]), strict=True)]
    return sums[0], sums[1]

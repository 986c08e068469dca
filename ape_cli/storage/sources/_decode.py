"""Decode encoded images with Pillow into one array of pixels.

If all images of a source are gray (modes L and 1), the arrays have one channel. Otherwise all images are converted to
RGB (also from P and CMYK). The EXIF orientation of the camera is applied, as the `datasets` library does. Images with
transparency, animation or more than 8 bits per channel are rejected, because there is no unique conversion.

Shapes: R images, H height, W width, C channels.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ape_cli.core import budget
from ape_cli.core.errors import DataError
from ape_cli.storage import image_rows
from ape_cli.storage.sources._source import size, sizes_differ

if TYPE_CHECKING:
    from PIL import Image

_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")  # none that runs a program, as EPS does
_SCAN = b"\xff\xda"  # begins a scan of a JPEG; in its data, a zero follows each 255
_TILE_WIDTH, _TILE_LENGTH = 322, 323  # tags of a TIFF
_GRAY, _COLOUR = ("L", "1"), ("RGB", "P", "CMYK")


class _Parts(io.BytesIO):
    """An encoded image that is read in a limited number of parts. Readers of markers, chunks and blocks are slow."""

    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Read a part. Raises `OSError` if there were too many."""
        self.reads += 1
        if self.reads > budget.IMAGE_PARTS:
            raise OSError(f"it has more than {budget.IMAGE_PARTS:,} parts")
        return super().read(size)


class Canvas:
    """An array for `rows` images of one size, filled one by one. The first image decides the size.

    `stored` is the size of the files with the images, in bytes.
    """

    def __init__(self, rows: int, stored: int) -> None:
        """Create an empty canvas; the array is allocated with the first image."""
        self.rows, self.stored = rows, stored
        self.filled = self.encoded = 0
        self.pixels: np.ndarray | None = None  # uint8 [rows, H, W, C]

    def paint(self, images: Iterable[tuple[str, bytes]]) -> None:
        """Decode each pair of (place for error messages, encoded bytes). There must not be more images than free rows.

        Raises `DataError` if an image cannot be decoded, is not supported, differs in size, or needs too much memory.
        """
        bomb = image_rows.pillow().DecompressionBombWarning
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="PIL")  # of metadata that it skips
            warnings.simplefilter("error", bomb)
            for place, encoded in images:
                self.encoded += len(encoded)
                budget.check_encoded(self.encoded, self.stored)
                self._add(place, _decoded(place, encoded))

    def _add(self, place: str, image: np.ndarray) -> None:
        """Append one image, uint8 [H, W, C]. Raises `DataError` if it has another size than the first."""
        if self.pixels is None:
            height, width, channels = image.shape
            budget.check_images(self.rows, height, width, channels, stored=self.stored)
            self.pixels = np.empty((self.rows, height, width, channels), np.uint8)
        if image.shape[:2] != self.pixels.shape[1:3]:
            raise sizes_differ(f"{size(image)}, {place}", f"{size(self.pixels)}, as the first")
        if image.shape[2] > self.pixels.shape[3]:
            self.pixels = self.pixels.repeat(3, axis=3)  # all earlier images were gray
        self.pixels[self.filled] = image  # a gray image is broadcast to all channels
        self.filled += 1


def alike(canvases: dict[str, Canvas]) -> dict[str, np.ndarray]:
    """The pixels of each canvas, uint8 [R, H, W, C], with C = 1 if all canvases are gray, else 3.

    Canvases without images are left out.
    """
    found = {name: canvas.pixels for name, canvas in canvases.items() if canvas.pixels is not None}
    channels = max((pixels.shape[3] for pixels in found.values()), default=1)
    return {name: pixels if pixels.shape[3] == channels else pixels.repeat(3, axis=3) for name, pixels in found.items()}


def _decoded(place: str, encoded: bytes) -> np.ndarray:
    """Decode an image: uint8 [H, W, 1] if it is gray, else uint8 [H, W, 3].

    Raises `DataError` if it cannot be decoded or is not supported.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    if len(encoded) > budget.IMAGE_BYTES:
        got, allowed = f"{len(encoded):,} bytes ({place})", f"{budget.IMAGE_BYTES:,} bytes"
        raise DataError("an encoded image is too large", got=got, allowed=allowed, fix="leave it out")
    try:
        with Image.open(_Parts(encoded), formats=_FORMATS) as image:
            budget.check_images(1, image.height, image.width, 3, stored=len(encoded))
            _check_work(image, encoded)
            _check(place, image)
            gray = image.mode in _GRAY
            upright = ImageOps.exif_transpose(image.convert("L" if gray else "RGB"))
            pixels = np.asarray(upright)
            return pixels[..., None] if gray else pixels
    except DataError:
        raise
    except Exception as error:  # Pillow raises many kinds of exceptions for damaged files
        kind = "no image" if isinstance(error, UnidentifiedImageError) else str(error)
        raise DataError(
            "an image cannot be decoded", got=f"{kind} ({place})", allowed=", ".join(_FORMATS), fix="leave it out"
        ) from error


def _check_work(image: Image.Image, encoded: bytes) -> None:
    """Raise `ValueError` for a JPEG with too many scans, or a TIFF with tiles much larger than an image may be."""
    if image.format == "JPEG" and encoded.count(_SCAN) > budget.IMAGE_SCANS:
        raise ValueError(f"more than {budget.IMAGE_SCANS} scans")
    tags = getattr(image, "tag_v2", {}) if image.format == "TIFF" else {}
    if tags.get(_TILE_WIDTH, 0) * tags.get(_TILE_LENGTH, 0) > budget.IMAGE_PIXELS:
        raise ValueError(f"a tile of more than {budget.IMAGE_PIXELS:,} pixels")


def _check(place: str, image: Image.Image) -> None:
    """Raise `DataError` for transparency, an unsupported mode or animation."""
    wrong = None
    if image.has_transparency_data:
        wrong = "an image with transparency", "paint it on a background first"
    elif image.mode not in (*_GRAY, *_COLOUR):
        wrong = "an image of another kind of pixels", "convert it first"
    elif getattr(image, "is_animated", False):
        wrong = "an image that moves", "keep one of its frames"
    if wrong:
        modes = ", ".join((*_GRAY, *_COLOUR))
        raise DataError(wrong[0], got=f"mode {image.mode}, {place}", allowed=f"modes {modes}", fix=wrong[1])

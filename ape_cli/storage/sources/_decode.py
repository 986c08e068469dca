"""Decode encoded images with Pillow into one array of pixels.

If all images of a source are gray (modes L and 1), the array has one channel. Otherwise all images are converted to
RGB (also from P and CMYK). The EXIF orientation of the camera is applied, as the `datasets` library does. Images with
transparency, animation or more than 8 bits per channel are rejected, because there is no unique conversion.

Shapes: R images, H height, W width, C channels.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from ape_cli.core.errors import DataError
from ape_cli.core.runtime import half_memory

if TYPE_CHECKING:
    from PIL import Image

_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")  # none that runs a program, as EPS does
_SCAN = b"\xff\xda"  # begins a scan of a JPEG; in its data, a zero follows each 255
_TILE_WIDTH, _TILE_LENGTH = 322, 323  # tags of a TIFF
_MOST_BYTES = 8 * 2**20  # of an encoded image
_MOST_PIXELS = 2**25  # of an image
_MOST_SCANS = 50  # passes over a progressive JPEG; usual ones have 10
_GRAY, _COLOUR = ("L", "1"), ("RGB", "P", "CMYK")


class Canvas:
    """An array for `rows` images of one size, filled one by one. The first image decides the size."""

    def __init__(self, rows: int) -> None:
        """Create an empty canvas; the array is allocated with the first image."""
        self.rows = rows
        self.filled = self.encoded = 0
        self.pixels = np.empty((0, 0, 0, 1), np.uint8)  # [rows, H, W, C], or no rows before the first image

    def add(self, place: str, encoded: bytes) -> None:
        """Decode the next image. `place` says where it is, for error messages.

        Raises `DataError` if it cannot be decoded, is not supported, has another size or needs too much memory.
        """
        self.encoded += len(encoded)
        self._check_memory(self.encoded)
        image = self._decoded(place, encoded)
        if not len(self.pixels):
            self.pixels = np.empty((self.rows, *image.shape), np.uint8)
        if image.shape[:2] != self.pixels.shape[1:3]:
            got, first = ("{} x {}".format(*shape) for shape in (image.shape, self.pixels.shape[1:]))
            raise DataError("images of different sizes", got=f"{got}, {place}", allowed=f"{first}, as the first")
        if image.shape[2] > self.pixels.shape[3]:
            self.pixels = self.pixels.repeat(3, axis=3)  # all earlier images were gray
        self.pixels[self.filled] = image  # a gray image is broadcast to all channels
        self.filled += 1

    def _check_memory(self, size: int) -> None:
        """Raise `DataError` if all images, encoded or decoded, have more bytes than half of the memory."""
        if size > half_memory():
            got, allowed = f"{self.rows:,} images, {size:,} bytes", f"{half_memory():,} bytes"
            raise DataError("the images are too large", got=got, allowed=allowed, fix="scale them down, or take fewer")

    def _decoded(self, place: str, encoded: bytes) -> np.ndarray:
        """Decode an image: uint8 [H, W, 1] if it is gray, else uint8 [H, W, 3].

        Raises `DataError` if it cannot be decoded, is not supported or is too large.
        """
        from PIL import Image, ImageOps, UnidentifiedImageError

        try:
            if len(encoded) > _MOST_BYTES:
                raise ValueError(f"more than {_MOST_BYTES:,} bytes")
            with Image.open(io.BytesIO(encoded), formats=_FORMATS) as image:
                gray = image.mode in _GRAY
                if image.height * image.width > _MOST_PIXELS:
                    raise ValueError(f"more than {_MOST_PIXELS:,} pixels")
                self._check_memory(self.rows * image.height * image.width * (1 if gray else 3))
                _check_work(image, encoded)
                if image.has_transparency_data:
                    raise ValueError("transparency")
                if image.mode not in (*_GRAY, *_COLOUR):
                    raise ValueError(f"mode {image.mode}")
                if getattr(image, "is_animated", False):
                    raise ValueError("several frames")
                upright = ImageOps.exif_transpose(image.convert("L" if gray else "RGB"))
                pixels = np.asarray(upright)
                return pixels[..., None] if gray else pixels
        except DataError:
            raise
        except Exception as error:  # Pillow raises many kinds of exceptions for damaged files
            kind = "no image" if isinstance(error, UnidentifiedImageError) else str(error)
            allowed = f"{', '.join(_FORMATS)}, opaque, one frame, modes {', '.join((*_GRAY, *_COLOUR))}"
            raise DataError("an image cannot be used", got=f"{kind} ({place})", allowed=allowed) from error


def _check_work(image: Image.Image, encoded: bytes) -> None:
    """Raise `ValueError` for a JPEG with too many scans, or a TIFF with tiles much larger than an image may be."""
    if image.format == "JPEG" and encoded.count(_SCAN) > _MOST_SCANS:
        raise ValueError(f"more than {_MOST_SCANS} scans")
    tags = getattr(image, "tag_v2", {}) if image.format == "TIFF" else {}
    if tags.get(_TILE_WIDTH, 0) * tags.get(_TILE_LENGTH, 0) > _MOST_PIXELS:
        raise ValueError(f"a tile of more than {_MOST_PIXELS:,} pixels")

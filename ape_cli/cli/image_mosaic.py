"""Draw an image with characters.

In colour, a line of text shows two rows of pixels. Without colours, each pixel is two characters in shades of gray. An
image that is too wide is drawn smaller, with the mean of a square for each pixel, and a line says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from rich.color import Color
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from ape_cli.storage import image_rows

_HALF = "▀"  # the upper half has the colour of the text, the lower half that of the background
_SHADES = " ░▒▓█"  # from 0 to 255


@dataclass(frozen=True)
class Mosaic:
    """An image that rich can print. `pixels`: uint8 [H, W, C]."""

    pixels: np.ndarray

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """The width in characters, for rich."""
        wide = self.pixels.shape[1] * _columns(console)
        return Measurement(min(wide, options.max_width), min(wide, options.max_width))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The characters, for rich."""
        height, width, _ = self.pixels.shape
        factor = -(-width * _columns(console) // options.max_width)
        if factor > 1:
            yield Text(f"1/{factor} of {height} x {width} pixels", style="dim")
        drawn = _smaller(self.pixels, factor)
        yield from _coloured(drawn) if _columns(console) == 1 else _shaded(drawn)


def _columns(console: Console) -> int:
    """The number of characters side by side that show one pixel."""
    return 2 if console.color_system is None or console.no_color else 1


def _smaller(pixels: np.ndarray, factor: int) -> np.ndarray:
    """The means of squares of pixels. uint8 [H, W, C] -> uint8 [ceil(H / factor), ceil(W / factor), C]"""
    image = image_rows.pillow()
    reduced = np.asarray(image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).reduce(factor))
    return reduced.reshape(*reduced.shape[:2], pixels.shape[2])


def _coloured(pixels: np.ndarray) -> Iterator[Segment]:
    """Half blocks in colour. pixels: uint8 [H, W, C]"""
    colours = np.broadcast_to(pixels, (*pixels.shape[:2], 3)).tolist()
    for upper, lower in zip_longest(colours[::2], colours[1::2]):
        for above, below in zip_longest(upper, lower or []):
            background = Color.from_rgb(*below) if below else None
            yield Segment(_HALF, Style(color=Color.from_rgb(*above), bgcolor=background))
        yield Segment.line()


def _shaded(pixels: np.ndarray) -> Iterator[Segment]:
    """Characters in shades of gray. pixels: uint8 [H, W, C]"""
    weights = np.array([0.299, 0.587, 0.114] if pixels.shape[2] == 3 else [1.0])  # luma, ITU-R BT.601
    level = np.minimum(pixels @ weights * len(_SHADES) / 256, len(_SHADES) - 1).astype(int)
    for row in level:
        yield Segment("".join(_SHADES[i] * 2 for i in row))
        yield Segment.line()

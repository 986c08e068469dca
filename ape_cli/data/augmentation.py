"""Augmentation of training images: random crop, horizontal flip, and AutoAugment's policy for CIFAR-10.

Sources: Cubuk et al. 2019, arXiv:1805.09501 (its appendix has the 25 sub-policies that were found on reduced CIFAR-10,
and its table of operations has the ranges); Hassani et al. 2021, arXiv:2104.05704 (the recipe of compact transformers
on CIFAR). The operations are those of Pillow, as in AutoAugment's own program.

- Crop: the image is padded with black on each side by an eighth of that axis (4 pixels of 32). The padding is rounded,
  halves to even, and is at least 1. The image is then cut out at an offset that is uniform on 0..2 paddings, for each
  axis separately.
- Flip: left and right are exchanged with probability 1/2.
- AutoAugment: one of 25 sub-policies is drawn uniformly. Each of its two operations is applied with its own
  probability.

Where the paper leaves something open, this module does what torchvision does. Bins 0..9 go in equal steps from no
effect to the end of the range. An operation that has two directions draws one with probability 1/2. (Solarize in bin 0
still turns 255 into 0.) A translation is by whole pixels, rounded towards zero. Pixels are taken from the nearest
pixel, without interpolation. Areas outside the image are filled with mid gray, 128. It is near the mean of CIFAR (125,
123, 114) and does not depend on a data set. Rotations are about the centre of the image, and shears about its upper
left corner, as in both programs.

AutoAugment's own program differs in these points:

- the factor of brightness, color, contrast and sharpness is 0.1 + 0.18 bin, without a random direction, so bins below 5
  weaken;
- magnitudes are bin/10 of the range, and translations are by at most 9 pixels;
- posterize keeps 4 to 1 bits, where this module keeps 8 to 4;
- areas outside the image are filled with the mean;
- the crop and the flip come after the policy.

The random numbers of an image come from its own generator. They are 8 numbers, uniform on [0, 1), each with a fixed
use. The effect of one step on an image therefore does not depend on which other steps are used.

Shapes: B images, H height, W width, C channels (1 or 3). Pixels are uint8.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ape_cli.core.errors import UsageError, pick
from ape_cli.core.extras import how_to_install

if TYPE_CHECKING:
    from PIL import Image

U8 = NDArray[np.uint8]
F64 = NDArray[np.float64]

NAMES = ("crop", "flip", "autoaugment")  # in the order in which they are applied

_GRAY = 128
# 25 sub-policies, each a pair of (operation, probability, bin); operations without magnitude have bin 0
POLICY = json.loads(Path(__file__).with_name("autoaugment.json").read_text(encoding="utf-8"))


class Operation(NamedTuple):
    """An operation on an image: its name in `POLICY`, its bin, and its direction if it has two."""

    name: str
    bin: int  # 0..9
    sign: int = 1  # 1 or -1


def parse(text: str) -> tuple[str, ...]:
    """Parse the names of augmentation steps: some of `crop,flip,autoaugment` in any order, or `none`.

    Returns the names in the order of application. Raises `UsageError` if a name is unknown.

    >>> parse("flip, crop"), parse("none")
    (('crop', 'flip'), ())
    """
    names = [] if text == "none" else [pick("augmentation", word.strip(), NAMES) for word in text.split(",")]
    return tuple(name for name in NAMES if name in names)


def apply(steps: tuple[str, ...], pixels: np.ndarray, seeds: Sequence[Sequence[int]]) -> U8:
    """Augment images. Returns a new array. uint8 [B, H, W, C] -> the same

    Arguments: `steps`, as `parse` returns them; `seeds`, for each image the seed of its own `np.random.default_rng`, so
    that the result for an image depends on nothing else.

    Raises `UsageError` if `autoaugment` is used and Pillow is not installed.
    """
    draws = np.array([np.random.default_rng(seed).random(8) for seed in seeds]).reshape(-1, 8)
    result: U8 = pixels.copy()
    if "crop" in steps:
        result = _crop(result, draws[:, 0:2])
    if "flip" in steps:
        result = np.where(draws[:, 2, None, None, None] < 0.5, result[:, :, ::-1], result)
    if "autoaugment" in steps:
        result = _autoaugment(result, draws[:, 3:8])
    return result


def _crop(pixels: U8, draws: F64) -> U8:
    """Crop each image. `draws`: float64 [B, 2], for the offset down and the offset to the right."""
    _, height, width, _ = pixels.shape
    padding = [max(1, round(side / 8)) for side in (height, width)]
    ground = np.pad(pixels, ((0, 0), (padding[0],) * 2, (padding[1],) * 2, (0, 0)))
    offsets = (draws * (2 * np.array(padding) + 1)).astype(np.int64)  # 0 .. 2 paddings
    result = np.empty_like(pixels)
    for image, padded, (down, right) in zip(result, ground, offsets.tolist(), strict=True):
        image[:] = padded[down : down + height, right : right + width]
    return result


def _autoaugment(pixels: U8, draws: F64) -> U8:
    """Apply AutoAugment's policy. `draws`: float64 [B, 5], as `chosen` reads them. Raises `UsageError`."""
    try:
        from PIL import Image
    except ModuleNotFoundError as missing:
        raise UsageError("`autoaugment` needs Pillow, which is not installed", fix=how_to_install("image")) from missing
    result = pixels.copy()
    for array, operations in zip(result, chosen(draws), strict=True):
        image = Image.fromarray(array if array.shape[2] == 3 else array[:, :, 0])
        for operation in operations:
            image = operate(image, operation)
        array[:] = np.asarray(image).reshape(array.shape)
    return result


def chosen(draws: F64) -> list[list[Operation]]:
    """The operations for each image: up to two.

    `draws`: float64 [B, 5]. The first column chooses the sub-policy, the next two decide whether its operations are
    applied, and the last two choose their directions.
    """
    result = []
    for row in draws.tolist():
        pair = POLICY[int(row[0] * len(POLICY))]
        signs = [1 if draw < 0.5 else -1 for draw in row[3:5]]
        drawn = zip(pair, row[1:3], signs, strict=True)
        result.append([Operation(name, bin, sign) for (name, likely, bin), draw, sign in drawn if draw < likely])
    return result


def operate(image: Image.Image, operation: Operation) -> Image.Image:
    """Apply one operation to a gray or RGB image."""
    from PIL import Image, ImageEnhance, ImageOps

    name, bin, sign = operation
    ground = (_GRAY,) * len(image.getbands())
    if name in {"shear-x", "shear-y", "translate-x", "translate-y"}:
        matrix = _matrix(operation, *image.size)
        return image.transform(image.size, Image.Transform.AFFINE, matrix, fillcolor=ground)
    if name == "rotate":
        return image.rotate(sign * 30 * bin / 9, fillcolor=ground)
    if name in {"brightness", "color", "contrast", "sharpness"}:
        enhancer = getattr(ImageEnhance, name.title())
        return enhancer(image).enhance(1 + sign * 0.1 * bin)
    if name == "posterize":
        return ImageOps.posterize(image, 8 - round(bin / (9 / 4)))
    if name == "solarize":
        return ImageOps.solarize(image, math.ceil(255 * (9 - bin) / 9))  # inverts the values from this one on
    return getattr(ImageOps, name)(image)  # autocontrast, equalize, invert


def _matrix(operation: Operation, width: int, height: int) -> tuple[float, ...]:
    """The affine matrix (a, b, c, d, e, f): the pixel at (x, y) is taken from (ax + by + c, dx + ey + f).

    A positive translation moves the image to the right or down.
    """
    name, bin, sign = operation
    shear = sign * 0.3 * bin / 9
    if name == "shear-x":
        return (1, shear, 0, 0, 1, 0)
    if name == "shear-y":
        return (1, 0, 0, shear, 1, 0)
    side = width if name == "translate-x" else height
    shift = sign * (150 * side * bin // (331 * 9))
    return (1, 0, -shift, 0, 1, 0) if name == "translate-x" else (1, 0, 0, 0, 1, -shift)

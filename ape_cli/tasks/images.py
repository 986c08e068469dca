"""The task `images`: classify images. The rows are not drawn; they are the labelled images of a source.

The splits are those of the source. If it has no test split, a fifth of its training images is held out for testing. If
it has no validation split, a tenth of the remaining training images is held out. A keyed hash of the pixels orders the
rows and thereby decides what is held out. It depends on the seed and on the images, but not on the format or the order
of the source. Images that are equal pixel by pixel stay together, so a held-out image never occurs in training. Images
that the source itself contains in two splits are counted. A smaller dataset is a prefix of a larger one.

Shapes: R rows, H height, W width, C channels: 1 (gray) or 3 (RGB).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ape_cli.core import rng
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import SPLITS
from ape_cli.storage import image_rows
from ape_cli.storage.image_rows import Moments
from ape_cli.storage.sources import DIGITS, ImageSource, LabelledImages, open_source
from ape_cli.tasks import option
from ape_cli.tasks._base import FixedRows

_HELD_OUT = {"test": 5, "validation": 10}  # one of how many of the remaining training images
_BLOCK = 2**22  # number of pixels that are counted at once


@dataclass(frozen=True)
class SplitImages:
    """The images of one split. The pixels are those of the source, before they are shuffled."""

    pixels: np.ndarray  # uint8 [R, H, W, C]
    labels: I64  # [R]
    shared: np.ndarray  # bool [R], whether the training split has the same image

    def __len__(self) -> int:
        """The number of images."""
        return self.labels.size


@dataclass(frozen=True, kw_only=True)
class Images(FixedRows[SplitImages]):
    """Predict the label of an image.

    With `shuffled`, the pixels of each image are permuted independently, in the same way for all its channels, so a
    model cannot use their positions.

    The source is read when it is needed. Reading it raises `DataError` if it is missing or damaged, and `UsageError`
    for an invalid request.
    """

    summary = "the label of an image"
    modality = "image"
    things = "images"
    mean_target_tokens = 1.0  # an image has one label
    structure = "grid(2)"  # of the pixels, and of the tokens that a model makes of them

    where: str = option(DIGITS, "CIFAR in its binary version, Parquet, or digits.", name="source")
    label: str | None = option(None, "Column of labels, if the source has several.")
    shuffled: bool = option(False, "Permute the pixels of each image at random.")

    @classmethod
    def form(cls, parameters: Mapping[str, Any]) -> str:
        """The source of a dataset, as columns of tables name it: `digits (shuffled)`."""
        return str(parameters["source"]) + " (shuffled)" * bool(parameters.get("shuffled"))

    @cached_property
    def _source(self) -> ImageSource:
        return open_source(self.where, self.label)

    @property
    def title(self) -> str:
        """The name of the dataset's folder: `images-digits`, `images-cifar-10-shuffled`."""
        return f"{self.name}-{self._source.name}" + "-shuffled" * self.shuffled

    def notes(self, seed: int) -> list[str]:
        """Which splits the source does not have."""
        held_out = [split for split in SPLITS if split not in self._source.splits]
        return [f"{' and '.join(held_out)}: held out of the source's training images"] if held_out else []

    @property
    def image(self) -> image_rows.Size:
        """Height, width and channels of the images."""
        height, width, channels = self._source.splits["train"].pixels.shape[1:]
        return height, width, channels

    def rows(self, counts: Mapping[str, int | None], seed: int) -> dict[str, int]:
        """See `FixedRows.rows`. Raises `UsageError` also without training rows, which scale all images."""
        rows = super().rows(counts, seed)
        if not rows["train"]:
            fix = "choose at least one training row"
            raise UsageError(
                "images are scaled by the mean of the training rows, and there are none", got="n=0", fix=fix
            )
        return rows

    def manifest_fields(self, rows: int, seed: int) -> dict[str, Any]:
        """The mean and the standard deviation of the pixels of the first training rows."""
        return {"moments": self.moments(rows, seed)}

    @property
    def id_names(self) -> list[str]:
        """The name of each label."""
        return self._source.classes

    @property
    def mean_size(self) -> float:
        """The longer side, in pixels."""
        return float(max(self.image[:2]))

    @property
    def mean_tokens(self) -> float:
        """The number of pixels."""
        return float(self.image[0] * self.image[1])

    @property
    def columns(self) -> pa.Schema:
        """The schema of the shards."""
        return image_rows.schema(self._source.classes)

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The options, as the manifest keeps them: the source by its name and content, not by its path."""
        sha = hashlib.sha256(repr(self._source.classes).encode())
        for name, part in sorted(self._source.splits.items()):
            keys = sorted(zip(_digests(part, 0), part.labels.tolist(), strict=True))
            sha.update(repr((name, part.pixels.shape, keys)).encode())
        parameters = {"source": self._source.name, "sha256": sha.hexdigest()}
        return parameters | ({"shuffled": True} if self.shuffled else {})

    def content(self, part: pa.Table) -> tuple[int, int]:
        """Two 64-bit sums over the rows of a table, for the dataset's fingerprint."""
        return image_rows.content(part, self.image)

    def sources(self, part: pa.Table) -> U64:
        """A hash of each image of a table: uint64 [R]"""
        return image_rows.sources(part, self.image)

    def moments(self, rows: int, seed: int) -> Moments:
        """Mean and standard deviation of each channel of the first training rows, with pixels divided by 255.

        The deviation of a constant channel is given as 1.
        """
        flat = self.splits(seed)["train"].pixels[:rows].reshape(-1, self.image[2])
        counts = np.zeros((self.image[2], 256))
        for first in range(0, len(flat), _BLOCK):
            block = flat[first : first + _BLOCK]
            counts += [np.bincount(channel, minlength=256) for channel in block.T]
        values = np.arange(256) / 255
        mean = (counts * values).sum(1) / counts.sum(1)
        variance = (counts * (values - mean[:, None]) ** 2).sum(1) / counts.sum(1)
        std = np.where(variance > 0, np.sqrt(variance), 1.0)
        return Moments(mean=mean.tolist(), std=std.tolist())

    def _split(self, seed: int) -> dict[str, SplitImages]:
        ordered = {name: _ordered(part, seed) for name, part in self._source.splits.items()}
        for split, of in _HELD_OUT.items():
            if split not in ordered:
                ordered[split], ordered["train"] = _cut(*ordered["train"], of)
        seen = set(ordered["train"][1])
        splits = {}
        for split in SPLITS:
            part, keys = ordered[split]
            shared = np.array([split != "train" and key in seen for key in keys], dtype=bool)
            splits[split] = SplitImages(part.pixels, part.labels, shared)
        return splits

    def _table(self, row: I64, rows: SplitImages, seed: int) -> tuple[pa.Table, int]:
        pixels = _shuffled(rows.pixels[row]) if self.shuffled else rows.pixels[row]
        table = image_rows.table(row.astype(np.uint64), pixels, rows.labels[row], self._source.classes)
        return table, int(rows.shared[row].sum())


def _digests(part: LabelledImages, seed: int) -> list[bytes]:
    """A hash of each image's pixels, keyed by a seed."""
    key = seed.to_bytes(8, "little")
    return [hashlib.blake2b(image.tobytes(), key=key, digest_size=16).digest() for image in part.pixels]


def _ordered(part: LabelledImages, seed: int) -> tuple[LabelledImages, list[bytes]]:
    """The images in the order of their hashes, and the hashes."""
    keys = _digests(part, seed)
    order: I64 = np.array(sorted(range(len(keys)), key=lambda i: (keys[i], part.labels[i])), dtype=np.int64)
    return LabelledImages(part.pixels[order], part.labels[order]), [keys[i] for i in order]


def _cut(part: LabelledImages, keys: list[bytes], of: int) -> tuple[tuple[LabelledImages, list[bytes]], ...]:
    """Divide ordered images: the first one of every `of`, and the others. Equal images stay together."""
    end = len(keys) // of
    while end and keys[end] == keys[end - 1]:
        end -= 1
    return tuple((LabelledImages(part.pixels[s], part.labels[s]), keys[s]) for s in (slice(end), slice(end, None)))


def _shuffled(pixels: np.ndarray) -> np.ndarray:
    """The pixels of each image in an order that the image alone decides. uint8 [R, H, W, C] -> the same shape"""
    rows, height, width, channels = pixels.shape
    digests = b"".join(hashlib.blake2b(image.tobytes(), digest_size=8, person=b"shuffled").digest() for image in pixels)
    words = rng.bits(np.frombuffer(digests, "<u8").astype(np.uint64)[:, None], np.arange(height * width))
    order = np.argsort(words, axis=1, kind="stable")  # [R, H * W]
    flat = pixels.reshape(rows, height * width, channels)
    return np.take_along_axis(flat, order[:, :, None], axis=1).reshape(pixels.shape)

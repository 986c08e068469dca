"""Some rows of an image dataset: everything that is needed to write them, in another process too.

Shapes: R rows, H height, W width, C channels: 1 (gray) or 3 (RGB).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ape_cli.core import rng
from ape_cli.core.rng import I64
from ape_cli.storage import image_rows
from ape_cli.tasks._fixed_rows import SplitRows


@dataclass(frozen=True)
class Portion(SplitRows):
    """Rows of one split. The pixels are those of the source, before they are shuffled."""

    split: str
    seed: int
    first: int  # number of its first row in the split
    pixels: np.ndarray  # uint8 [R, H, W, C]
    labels: I64  # [R]
    shared: np.ndarray  # bool [R], whether the training split has the same image
    classes: list[str]
    shuffled: bool

    @property
    def count(self) -> int:
        """The number of images."""
        return self.labels.size

    @property
    def mean_answer_tokens(self) -> float:
        """The number of labels of an image: one."""
        return 1.0

    @property
    def mean_tokens(self) -> float:
        """The number of pixels of an image. The model decides how many tokens it makes of them."""
        return float(self.pixels.shape[1] * self.pixels.shape[2])

    @property
    def columns(self) -> pa.Schema:
        """The schema of the shards."""
        return image_rows.schema(self.classes)

    def part(self, rows: range) -> Portion:
        """Some of its rows, as views without copies. `rows` are row numbers of the split, one after the other."""
        part = slice(rows.start - self.first, rows.stop - self.first)
        pixels, labels, shared = self.pixels[part], self.labels[part], self.shared[part]
        return replace(self, first=rows.start, pixels=pixels, labels=labels, shared=shared)

    def sample_counted(self, *, rows: range, split: str, seed: int) -> tuple[pa.Table, int]:
        """These rows as a table with the schema of a shard, and how many of them the training split has too."""
        assert (split, seed) == (self.split, self.seed)
        row = np.arange(rows.start, rows.stop, rows.step)
        index = row - self.first
        pixels = _shuffled(self.pixels[index]) if self.shuffled else self.pixels[index]
        table = image_rows.table(row.astype(np.uint64), pixels, self.labels[index], self.classes)
        return table, int(self.shared[index].sum())

    def content(self, part: pa.Table) -> tuple[int, int]:
        """Two 64-bit sums over the rows of a table, for the dataset's fingerprint."""
        height, width, channels = self.pixels.shape[1:]
        return image_rows.content(part, (height, width, channels))


def _shuffled(pixels: np.ndarray) -> np.ndarray:
    """The pixels of each image in an order that the image alone decides. uint8 [R, H, W, C] -> the same shape"""
    rows, height, width, channels = pixels.shape
    digests = b"".join(hashlib.blake2b(one.tobytes(), digest_size=8, person=b"shuffled").digest() for one in pixels)
    words = rng.bits(np.frombuffer(digests, "<u8").astype(np.uint64)[:, None], np.arange(height * width))
    order = np.argsort(words, axis=1, kind="stable")  # [R, H * W]
    flat = pixels.reshape(rows, height * width, channels)
    return np.take_along_axis(flat, order[:, :, None], axis=1).reshape(pixels.shape)

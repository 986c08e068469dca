"""Labelled images as a model reads them: a batch, and a window of rows that it is made of.

Shapes: B rows, H x W pixels, C channels. Pixels are uint8, as they are stored: a model brings them to its own scale.
Labels are int64 [B, 1], so that a row has one thing to predict and all sums are those of sequences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ape_cli.core.rng import I64
from ape_cli.data import augmentation
from ape_cli.data.collation import WHOLE, Labelled, Share, own_rows

Steps = tuple[str, ...]  # of augmentation


@dataclass(frozen=True)
class ImageBatch(Labelled):
    """One batch of images."""

    blank: ClassVar[int] = -1

    pixels: Tensor  # uint8 [B, H, W, C]
    labels: Tensor  # int64 [B, 1], -1 where there is nothing to predict
    row: I64  # [B] row in its split
    size: I64  # [B]
    op: I64  # [B] the true class, by which scores are told apart
    whole: tuple[int, int] | None = None  # of a share: labels and source tokens (none) of the batch that it is of

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (self.pixels,)

    @property
    def counts(self) -> tuple[int, int]:
        return self.whole or (int(self.label_mask.sum()), 0)


@dataclass(frozen=True)
class ImageRows:
    """Some thousand rows."""

    row: I64
    size: I64
    pixels: np.ndarray  # uint8 [R, H, W, C]
    labels: I64

    def batches(self, batch_size: int, rng: np.random.Generator | None) -> list[I64]:
        """Row numbers of each batch, in random order with `rng`."""
        rows = np.arange(self.row.size) if rng is None else rng.permutation(self.row.size)
        return np.split(rows, range(batch_size, rows.size, batch_size)) if rows.size else []


def collate(album: ImageRows, rows: I64, share: Share, steps: Steps, epoch_seed: tuple[int, int]) -> ImageBatch:
    """The chosen rows, or a share of them; augmented by `steps`, each image by a stream of its own."""
    own, asked = own_rows(rows, share)
    pixels, labels = album.pixels[own], album.labels[own, None]
    if steps:
        pixels = augmentation.apply(steps, pixels, [(*epoch_seed, int(row)) for row in album.row[own]])
    return ImageBatch(
        pixels=torch.from_numpy(pixels),
        labels=torch.from_numpy(labels if asked else np.full_like(labels, ImageBatch.blank)),
        row=album.row[own],
        size=album.size[own],
        op=album.labels[own],
        whole=None if share == WHOLE else (rows.size, 0),
    )

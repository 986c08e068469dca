"""Batches of labelled images, and the windows of rows from which batches are collated.

Shapes: B rows of a batch, R rows of a window, H x W pixels, C channels. Pixels are uint8, as they are stored; models
scale them. Labels are int64 [B, 1], so that each row has one thing to predict and sums over labels are computed as for
sequences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ape_cli.core.rng import I64
from ape_cli.data import augmentation
from ape_cli.data.batches import WHOLE, Batch, Share, own_rows

Steps = tuple[str, ...]  # names of augmentation steps


@dataclass(frozen=True)
class ImageBatch(Batch):
    """One batch of images."""

    ignore_index: ClassVar[int] = -1

    pixels: Tensor  # uint8 [B, H, W, C]
    labels: Tensor  # int64 [B, 1], -1 where there is nothing to predict
    row: I64  # [B] row number in the split
    size: I64  # [B] longer side in pixels
    op: I64  # [B] true class, by which scores are grouped
    whole: tuple[int, int] | None = None  # for a share: numbers of labels and source tokens (0) of the whole batch

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that a model reads: the pixels, uint8 [B, H, W, C]."""
        return (self.pixels,)

    @property
    def counts(self) -> tuple[int, int]:
        """The number of labels and of source tokens (0) of the whole batch."""
        return self.whole or (int(self.label_mask.sum()), 0)


@dataclass(frozen=True)
class ImageRows:
    """A window: some thousand rows of a dataset of images."""

    row: I64  # [R] row number in the split
    size: I64  # [R] longer side in pixels
    pixels: np.ndarray  # uint8 [R, H, W, C]
    labels: I64  # [R]

    def batches(self, batch_size: int, rng: np.random.Generator | None) -> list[I64]:
        """The indices into the window of the rows of each batch, in random order if `rng` is given.

        Returns int64 [B] with at most `batch_size` rows for each batch.
        """
        rows = np.arange(self.row.size) if rng is None else rng.permutation(self.row.size)
        return np.split(rows, range(batch_size, rows.size, batch_size)) if rows.size else []


def collate(album: ImageRows, rows: I64, share: Share, steps: Steps, epoch_seed: tuple[int, int]) -> ImageBatch:
    """Collate the chosen rows of a window, or a share of them, into a batch.

    Arguments: `rows`, int64 [B], indices into the window; `share`, the rows of the batch that this process has (see
    `Share` in `data/batches.py`); `steps`, the augmentation; `epoch_seed`, which seeds the random numbers of each image
    together with its row number in the split.
    """
    chosen, is_labelled = own_rows(rows, share)
    pixels, labels = album.pixels[chosen], album.labels[chosen, None]
    if steps:
        pixels = augmentation.apply(steps, pixels, [(*epoch_seed, int(row)) for row in album.row[chosen]])
    return ImageBatch(
        pixels=torch.from_numpy(pixels),
        labels=torch.from_numpy(labels if is_labelled else np.full_like(labels, ImageBatch.ignore_index)),
        row=album.row[chosen],
        size=album.size[chosen],
        op=album.labels[chosen],
        whole=None if share == WHOLE else (rows.size, 0),
    )

"""The task `images`: which label does an image have. Its samples are not drawn, they are those of a source (`sources`).

Splits: those that the source has. Of its training images a tenth is held out for validation; where it has no test
split, a fifth for that. The order of rows, and with it what is held out, is that of a keyed hash of the pixels: it
depends on the seed and on the images, not on the format or the order of the source. Images that are the same pixel by
pixel are held out together, so that training never sees one of them; what a source itself has in two splits is
counted. A smaller dataset is a prefix of a larger one.

`shuffled`: the pixels of each image stand in an order of its own, the same for all its channels. What a model can still
tell of such images it does not tell by where pixels are.
"""

from __future__ import annotations

import hashlib
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ape_cli import schema, sources
from ape_cli.errors import UsageError, pick, unknown
from ape_cli.schema import Moments, pictures
from ape_cli.sources import Pictures, Source
from ape_cli.streams import I64

NAME = "images"
DIGITS = "digits"  # the source that is there where none is named
_HELD_OUT = {"test": 5, "validation": 10}  # one of how many


class Images:
    """The images of a source as a dataset: what `gen` asks of a task. Raises `DataError` and `UsageError`.

    It is sent to other processes by what made it, and reads the source there again.
    """

    name, summary, order = NAME, "the label of an image", None
    structure = "grid(2)"  # of pixels, and of what a model makes of them
    ops: tuple[str, ...] = ()
    mean_answer_tokens = 1.0

    def __init__(self, where: str = DIGITS, label: str | None = None, shuffled: bool = False) -> None:
        self.where, self.label, self.shuffled = where, label, shuffled
        self.rows_of = cache(self._split)

    def __reduce__(self) -> tuple[Any, ...]:
        return Images, (self.where, self.label, self.shuffled)

    @cached_property
    def source(self) -> Source:
        return sources.open(self.where, self.label)

    @property
    def title(self) -> str:
        """A name for its dataset's folder: `images-digits`, `images-cifar-10-shuffled`."""
        return f"{NAME}-{self.source.name}" + "-shuffled" * self.shuffled

    @property
    def image(self) -> pictures.Size:
        height, width, channels = self.source.splits["train"].pixels.shape[1:]
        return height, width, channels

    @property
    def id_names(self) -> list[str]:
        return self.source.classes

    @property
    def mean_size(self) -> float:
        return float(max(self.image[:2]))

    @property
    def mean_tokens(self) -> float:
        """Pixels; how many tokens a model makes of them is its own."""
        return float(self.image[0] * self.image[1])

    @property
    def columns(self) -> pa.Schema:
        return pictures.shard(self.source.classes)

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """What the manifest keeps: the source by its name and content, not by where it lies."""
        sha = hashlib.sha256(repr(self.source.classes).encode())
        for name, part in sorted(self.source.splits.items()):
            keys = sorted(zip(_digests(part, 0), part.labels.tolist(), strict=True))
            sha.update(repr((name, part.pixels.shape, keys)).encode())
        found = {"source": self.source.name, "sha256": sha.hexdigest()}
        return found | ({"shuffled": True} if self.shuffled else {})

    def available(self, seed: int) -> dict[str, int]:
        """Rows that there are, of each split."""
        return {split: self.rows_of(split, seed)[0].labels.size for split in schema.SPLITS}

    def rows(self, wanted: dict[str, int | None], seed: int) -> dict[str, int]:
        """Numbers of rows, all where None is wanted; a `UsageError` for more than there are."""
        there = self.available(seed)
        for split, count in wanted.items():
            if count is not None and count > there[split]:
                what = f"the source has not as many images for {split}"
                raise UsageError(what, got=count, allowed=f"at most {there[split]}", fix="leave it out for all")
        return {split: there[split] if count is None else count for split, count in wanted.items()}

    def sample(self, *, rows: range, split: str, seed: int) -> pa.Table:
        """These rows of a split, as a table of a shard's schema."""
        return self.sample_counted(rows=rows, split=split, seed=seed)[0]

    def sample_counted(self, *, rows: range, split: str, seed: int) -> tuple[pa.Table, int]:
        """`sample`, and how many of the rows are in the training split as well, pixel by pixel."""
        pick("split", split, schema.SPLITS)
        part, shared = self.rows_of(split, seed)
        index = np.arange(rows.start, rows.stop, rows.step)
        pixels = part.pixels[index]
        if self.shuffled:
            pixels = np.stack([_shuffled(one) for one in pixels]) if index.size else pixels
        made = pictures.table(index.astype(np.uint64), pixels, part.labels[index], self.source.classes)
        return made, int(shared[index].sum())

    def content(self, part: pa.Table) -> tuple[int, int]:
        return pictures.content(part, self.image)

    def moments(self, rows: int, seed: int) -> Moments:
        """Of each channel of the first training rows, as fractions of 255; a channel without any spread has 1."""
        pixels = self.rows_of("train", seed)[0].pixels[:rows]
        counts = np.stack([np.bincount(pixels[..., c].ravel(), minlength=256) for c in range(self.image[2])])
        values = np.arange(256) / 255
        mean = (counts * values).sum(1) / counts.sum(1)
        variance = (counts * (values - mean[:, None]) ** 2).sum(1) / counts.sum(1)
        std = np.where(variance > 0, np.sqrt(variance), 1.0)
        return Moments(mean=mean.tolist(), std=std.tolist())

    def _split(self, split: str, seed: int) -> tuple[Pictures, np.ndarray]:
        """The rows of a split in their order, and of each whether it is in the training split too."""
        splits = self._cut(seed)
        part, keys = splits[split]
        seen = set(splits["train"][1]) if split != "train" else set()
        return part, np.array([key in seen for key in keys], dtype=bool)

    def _cut(self, seed: int) -> dict[str, tuple[Pictures, list[bytes]]]:
        """Each split in its order, with the hash of each image."""
        found = {name: _ordered(part, seed) for name, part in self.source.splits.items()}
        for split, of in _HELD_OUT.items():
            if split in found:
                continue
            part, keys = found["train"]
            end = len(keys) // of
            while 0 < end < len(keys) and keys[end] == keys[end - 1]:
                end += 1
            found[split] = Pictures(part.pixels[:end], part.labels[:end]), keys[:end]
            found["train"] = Pictures(part.pixels[end:], part.labels[end:]), keys[end:]
        return found


def make(order: str | None = None, **options: Any) -> Images:
    """Images with these options: `source`, `label`, `shuffled`. Raises `UsageError` for others and for bad values."""
    if order is not None:
        raise UsageError("images have no order", got=f"order {order!r}", allowed="none", fix="leave it out")
    kinds = {"source": str, "label": str, "shuffled": bool}
    for key, value in options.items():
        if key not in kinds:
            raise unknown("option of images", key, kinds)
        if not isinstance(value, kinds[key]):
            allowed = "true or false" if kinds[key] is bool else "text"
            raise UsageError(f"bad {key}", got=repr(value), allowed=allowed, fix="give it as such")
    where = options.pop("source", DIGITS)
    return Images(where, **options)


def _digests(part: Pictures, seed: int) -> list[bytes]:
    """A hash of each image's pixels, keyed by a seed."""
    key = seed.to_bytes(8, "little")
    return [hashlib.blake2b(one.tobytes(), key=key, digest_size=16).digest() for one in part.pixels]


def _ordered(part: Pictures, seed: int) -> tuple[Pictures, list[bytes]]:
    keys = _digests(part, seed)
    order: I64 = np.array(sorted(range(len(keys)), key=lambda i: (keys[i], part.labels[i])), dtype=np.int64)
    return Pictures(part.pixels[order], part.labels[order]), [keys[i] for i in order]


def _shuffled(pixels: np.ndarray) -> np.ndarray:
    """The pixels of an image in an order that the image alone decides. [H, W, C] -> the same"""
    key = hashlib.blake2b(pixels.tobytes(), digest_size=8, person=b"shuffled").digest()
    flat = pixels.reshape(-1, pixels.shape[-1])
    order = np.random.default_rng(int.from_bytes(key, "little")).permutation(len(flat))
    return flat[order].reshape(pixels.shape)

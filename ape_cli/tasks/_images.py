"""The task `images`: which label does an image have. Its samples are not drawn, they are those of a source (`sources`).

Splits: those that the source has. Where it has no test split, a fifth of its training images is held out for that;
where it has no validation split, a tenth of what is left. The order of rows, and with it what is held out, is that of a
keyed hash of the pixels: it depends on the seed and on the images, not on the format or the order of the source. Images
that are the same pixel by pixel stay together, so that training never sees one that was held out of it; what a source
itself has in two splits is counted. A smaller dataset is a prefix of a larger one.

`shuffled`: the pixels of each image stand in an order of its own, the same for all its channels. What a model can still
tell of such images it does not tell by where pixels are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ape_cli.core import rng
from ape_cli.core.errors import UsageError, pick, unknown
from ape_cli.core.rng import I64
from ape_cli.core.vocabulary import SPLITS
from ape_cli.storage import image_rows
from ape_cli.storage.image_rows import Moments
from ape_cli.storage.sources import ImageSource, LabelledImages, open_source

NAME = "images"
DIGITS = "digits"  # the source that is there where none is named
_HELD_OUT = {"test": 5, "validation": 10}  # one of how many of the training images that are left
_BLOCK = 2**22  # pixels that are counted at once


@dataclass(frozen=True)
class Portion:
    """Rows of one split: all that is needed to write them, in another process too. R rows, H x W pixels, C channels."""

    split: str
    seed: int
    first: int  # row in its split
    pixels: np.ndarray  # uint8 [R, H, W, C], as the source has them
    labels: I64  # [R]
    shared: np.ndarray  # bool [R], whether the training split has this image too
    classes: list[str]
    shuffled: bool

    mean_answer_tokens: ClassVar[float] = 1.0

    @property
    def mean_tokens(self) -> float:
        """Pixels; how many tokens a model makes of them is its own."""
        return float(self.pixels.shape[1] * self.pixels.shape[2])

    @property
    def columns(self) -> pa.Schema:
        return image_rows.schema(self.classes)

    def part(self, rows: range) -> Portion:
        """Some of its rows, which are no copies."""
        own = slice(rows.start - self.first, rows.stop - self.first)
        pixels, labels, shared = self.pixels[own], self.labels[own], self.shared[own]
        return replace(self, first=rows.start, pixels=pixels, labels=labels, shared=shared)

    def sample_counted(self, *, rows: range, split: str, seed: int) -> tuple[pa.Table, int]:
        """These rows as a table of a shard's schema, and how many of them the training split has too."""
        assert (split, seed) == (self.split, self.seed)
        row = np.arange(rows.start, rows.stop, rows.step)
        own = row - self.first
        pixels = _shuffled(self.pixels[own]) if self.shuffled else self.pixels[own]
        made = image_rows.table(row.astype(np.uint64), pixels, self.labels[own], self.classes)
        return made, int(self.shared[own].sum())

    def content(self, part: pa.Table) -> tuple[int, int]:
        height, width, channels = self.pixels.shape[1:]
        return image_rows.content(part, (height, width, channels))


class Images:
    """The images of a source as a dataset: what `gen` asks of a task. Raises `DataError` and `UsageError`."""

    name, summary = NAME, "the label of an image"
    order = source_order = None
    source = "Algebraic Positional Encodings, section 4.1"  # of the task; that of its images is an option
    structure = "grid(2)"  # of pixels, and of what a model makes of them
    ops: tuple[str, ...] = ()
    mean_answer_tokens = Portion.mean_answer_tokens
    why_shared = "validation and test images that are among the source's training images too, pixel by pixel"

    def __init__(self, where: str = DIGITS, label: str | None = None, shuffled: bool = False) -> None:
        self.where, self.label, self.shuffled = where, label, shuffled
        self.splits = cache(self._splits)

    @cached_property
    def _source(self) -> ImageSource:
        return open_source(self.where, self.label)

    @property
    def title(self) -> str:
        """A name for its dataset's folder: `images-digits`, `images-cifar-10-shuffled`."""
        return f"{NAME}-{self._source.name}" + "-shuffled" * self.shuffled

    @property
    def options(self) -> dict[str, Any]:
        return {"source": self.where, "label": self.label, "shuffled": self.shuffled}

    @property
    def given(self) -> dict[str, Any]:
        """The options that make it again; where a source lies on this machine is nobody's business."""
        source = DIGITS if self.where == DIGITS else "PATH"
        return {"source": source} | {k: v for k, v in self.options.items() if k != "source" and v}

    @property
    def origin(self) -> dict[str, str]:
        """Of each split, in words."""
        own, out = "the source's own", "held out of the source's training images"
        found = {split: own if split in self._source.splits else out for split in SPLITS}
        return found | ({"train": "the source's training images, but those held out"} if out in found.values() else {})

    @property
    def image(self) -> image_rows.Size:
        height, width, channels = self._source.splits["train"].pixels.shape[1:]
        return height, width, channels

    @property
    def id_names(self) -> list[str]:
        return self._source.classes

    @property
    def mean_size(self) -> float:
        return float(max(self.image[:2]))

    @property
    def mean_tokens(self) -> float:
        return float(self.image[0] * self.image[1])

    @property
    def columns(self) -> pa.Schema:
        return image_rows.schema(self._source.classes)

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """What the manifest keeps: the source by its name and content, not by where it lies."""
        sha = hashlib.sha256(repr(self._source.classes).encode())
        for name, part in sorted(self._source.splits.items()):
            keys = sorted(zip(_digests(part, 0), part.labels.tolist(), strict=True))
            sha.update(repr((name, part.pixels.shape, keys)).encode())
        found = {"source": self._source.name, "sha256": sha.hexdigest()}
        return found | ({"shuffled": True} if self.shuffled else {})

    def available(self, seed: int) -> dict[str, int]:
        """Rows that there are, of each split."""
        return {split: part.labels.size for split, part in self.splits(seed).items()}

    def rows(self, wanted: Mapping[str, int | None], seed: int) -> dict[str, int]:
        """Numbers of rows, all where None is wanted; a `UsageError` for more than there are."""
        there = self.available(seed)
        for split, count in wanted.items():
            if count is not None and count > there[split]:
                what = f"the source has not as many images for {split}"
                raise UsageError(what, got=count, allowed=f"at most {there[split]}", fix="leave it out for all")
        return {split: there[split] if count is None else count for split, count in wanted.items()}

    def portion(self, rows: range, split: str, seed: int) -> Portion:
        """These rows of a split and nothing else: another process needs no source."""
        pick("split", split, SPLITS)
        return self.splits(seed)[split].part(rows)

    def sample(self, *, rows: range, split: str, seed: int) -> pa.Table:
        """These rows of a split, as a table of a shard's schema."""
        return self.sample_counted(rows=rows, split=split, seed=seed)[0]

    def sample_counted(self, *, rows: range, split: str, seed: int) -> tuple[pa.Table, int]:
        """`sample`, and how many of the rows are in the training split as well, pixel by pixel."""
        pick("split", split, SPLITS)
        return self.splits(seed)[split].sample_counted(rows=rows, split=split, seed=seed)

    def content(self, part: pa.Table) -> tuple[int, int]:
        return image_rows.content(part, self.image)

    def moments(self, rows: int, seed: int) -> Moments:
        """Of each channel of the first training rows, as fractions of 255; a channel without any spread has 1."""
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

    def _splits(self, seed: int) -> dict[str, Portion]:
        """Each split, whole and in its order."""
        found = {name: _ordered(part, seed) for name, part in self._source.splits.items()}
        for split, of in _HELD_OUT.items():
            if split not in found:
                found[split], found["train"] = _cut(*found["train"], of)
        seen = set(found["train"][1])

        def whole(split: str, part: LabelledImages, keys: list[bytes]) -> Portion:
            shared = np.array([split != "train" and key in seen for key in keys], dtype=bool)
            return Portion(
                split=split,
                seed=seed,
                first=0,
                pixels=part.pixels,
                labels=part.labels,
                shared=shared,
                classes=self._source.classes,
                shuffled=self.shuffled,
            )

        return {split: whole(split, *found[split]) for split in SPLITS}


def make(order: str | None = None, source_order: str | None = None, **options: Any) -> Images:
    """Images with these options: `source`, `label`, `shuffled`. Raises `UsageError` for others and for bad values."""
    if given := order or source_order:
        raise UsageError("images have no order", got=f"order {given!r}", allowed="none", fix="leave it out")
    if "sizes" in options:
        what = "images have the size that their source gives them"
        raise UsageError(what, got=f"sizes {options['sizes']!r}", allowed="none", fix="leave --sizes out")
    kinds = {"source": str, "label": str, "shuffled": bool}
    for key, value in options.items():
        if key not in kinds:
            raise unknown("option of images", key, kinds)
        if not isinstance(value, kinds[key]):
            allowed = "true or false" if kinds[key] is bool else "text"
            raise UsageError(f"bad {key}", got=repr(value), allowed=allowed, fix="give it as such")
    where = options.pop("source", DIGITS)
    return Images(where, **options)


def _digests(part: LabelledImages, seed: int) -> list[bytes]:
    """A hash of each image's pixels, keyed by a seed."""
    key = seed.to_bytes(8, "little")
    return [hashlib.blake2b(one.tobytes(), key=key, digest_size=16).digest() for one in part.pixels]


def _ordered(part: LabelledImages, seed: int) -> tuple[LabelledImages, list[bytes]]:
    """The images in the order of their hashes, and those."""
    keys = _digests(part, seed)
    order: I64 = np.array(sorted(range(len(keys)), key=lambda i: (keys[i], part.labels[i])), dtype=np.int64)
    return LabelledImages(part.pixels[order], part.labels[order]), [keys[i] for i in order]


def _cut(part: LabelledImages, keys: list[bytes], of: int) -> tuple[tuple[LabelledImages, list[bytes]], ...]:
    """One of so many images, fewer where some that are the same would come apart; and the others."""
    end = len(keys) // of
    while end and keys[end] == keys[end - 1]:
        end -= 1
    return tuple((LabelledImages(part.pixels[s], part.labels[s]), keys[s]) for s in (slice(end), slice(end, None)))


def _shuffled(pixels: np.ndarray) -> np.ndarray:
    """The pixels of each image in an order that the image alone decides. [R, H, W, C] -> the same"""
    rows, height, width, channels = pixels.shape
    digests = b"".join(hashlib.blake2b(one.tobytes(), digest_size=8, person=b"shuffled").digest() for one in pixels)
    words = rng.bits(np.frombuffer(digests, "<u8").astype(np.uint64)[:, None], np.arange(height * width))
    order = np.argsort(words, axis=1, kind="stable")  # [R, H * W]
    flat = pixels.reshape(rows, height * width, channels)
    return np.take_along_axis(flat, order[:, :, None], axis=1).reshape(pixels.shape)

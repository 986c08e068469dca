"""The task `selective-copying`: copy the symbols of a sequence that are between blanks.

Source: selective copying of MAD; Poli et al. 2024, "Mechanistic Design and Scaling of Hybrid Architectures",
arXiv:2403.17844; github.com/athms/mad-lab, commit 0f49a45, `mad/data/instances.py`. The published program draws the
places of blanks with numpy's global generator, so its seed does not determine its rows.

Deviation: models read an EOS before the sequence.

Shapes: R rows, L tokens of a row, C copied symbols of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ape_cli.core import rng
from ape_cli.core.rng import U64
from ape_cli.core.vocabulary import FIRST_SYMBOL, PAD
from ape_cli.tasks import Source, Tokens, letters, option
from ape_cli.tasks._sized import Sized
from ape_cli.tasks._task import of_one_length


@dataclass(frozen=True, kw_only=True)
class SelectiveCopying(Sized):
    """Copy the symbols of a sequence without its blanks.

    The source has $L$ tokens: `copied` symbols with blanks between them, then `copy`, then `copied` blanks. The last
    blanks are tagged with the symbols, in order. Symbols are drawn uniformly. Each of the other blanks is placed before
    a symbol that is drawn uniformly, so `copy` follows the last symbol. Models read each row once, from left to right.

    The size of a source is $L$. The most frequent symbol of the source is right in 20% of the tags, and in 40% at
    preset `small`.

    >>> task = SelectiveCopying(length=10, copied=3)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> " ".join(task.id_names[i] for i in row["source_ids"])
    'k blank blank blank l h copy blank blank blank'
    >>> " ".join(task.id_names[i].strip("<>") for i in row["target_ids"])
    'pad pad pad pad pad pad pad k l h'
    """

    structure = "seq"
    summary = "the symbols between blanks: a__b_ -> ab"
    source = "Poli et al. 2024, arXiv:2403.17844"
    extent = "length"
    form_options = ("copied",)
    tagged = causal = True
    preset_options: ClassVar = {
        "small": {"length": 32, "copied": 6, "vocabulary": 6},
        "tiny": {"length": 16, "copied": 3},
    }

    length: int = option(256, "Number L of tokens.")
    copied: int = option(16, "Number of symbols to copy.", between=(1, 29_000))
    vocabulary: int = option(14, "Number of symbols.", between=(1, 60_000))

    @property
    def limits(self) -> tuple[int, int, str]:
        """The smallest and the largest length."""
        return 2 * self.copied + 2, 60_000, ""

    @property
    def _blank(self) -> int:
        """The id of the blank. That of `copy` follows."""
        return FIRST_SYMBOL + self.vocabulary

    def draw(self, key: U64) -> Source:
        """Draw symbols and places for each key. uint64 [R] -> `Source` of R rows of L tokens"""
        rows, number = key.size, np.arange(self.copied)
        blanks = self.length - 2 * self.copied - 1
        before = rng.below(rng.bits(rng.child(key, "blanks")[:, None], np.arange(blanks)), self.copied)  # [R, blanks]
        cell = (np.arange(rows)[:, None] * self.copied + before).ravel()
        count = np.bincount(cell, minlength=rows * self.copied).reshape(rows, self.copied).cumsum(axis=1)
        data = rng.below(rng.bits(rng.child(key, "symbols")[:, None], number), self.vocabulary)
        symbol = np.full((rows, self.length), self.vocabulary)  # the number of the blank
        np.put_along_axis(symbol, number + count, data, axis=1)
        symbol[:, self.copied + blanks] += 1
        return of_one_length(symbol, self.length)

    def target(self, source: Source) -> Tokens:
        """The target of each source: the symbols that are no blanks, as tags of the last blanks."""
        tags = np.full(source.symbol.size, PAD)
        last = source.offsets[1:, None] - self.copied + np.arange(self.copied)  # [R, C]
        tags[last.ravel()] = source.symbol[source.symbol < self._blank]
        return Tokens(source.offsets, source.position, tags)

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on."""
        return [*letters(self.vocabulary), "blank", "copy"]

"""The task `compression`: write a word again from a single state of the encoder.

Source: compression of MAD; Poli et al. 2024, "Mechanistic Design and Scaling of Hybrid Architectures",
arXiv:2403.17844; github.com/athms/mad-lab, commit 0f49a45, `mad/data/instances.py`.

Deviations: EOS takes the place of the published special symbol, at the end of both source and target. The published
decoder is a feed-forward network that reads the state and a position. Ours also reads the symbols before.

Shapes: R rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ape_cli.core.rng import U64
from ape_cli.tasks import Source, Tokens, letters, option
from ape_cli.tasks._sized import Sized
from ape_cli.tasks._words import random_words


@dataclass(frozen=True, kw_only=True)
class Compression(Sized):
    """Write a word again from a single state of the encoder.

    Source and target are the same word, drawn uniformly. As published, the decoder reads only the state of the encoder
    at the last token: train with `--set memory=last`. Without it, the decoder reads all states, and the task is `copy`.

    The size of a source is the published length, which counts the EOS. A guess is right in 1 of `vocabulary` symbols.

    >>> row = Compression(length=8).sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> len(row["source_ids"]), row["source_ids"] == row["target_ids"]
    (7, True)
    """

    structure = "seq"
    summary = "the word itself, from one state of the encoder: abca -> abca"
    source = "Poli et al. 2024, arXiv:2403.17844"
    extent = "length"
    preset_options: ClassVar = {"small": {"length": 12}, "tiny": {"length": 8}}

    length: int = option(32, "Number of tokens, with the EOS.")
    vocabulary: int = option(15, "Number of symbols.", between=(1, 60_000))

    limits = (2, 60_000, "")

    def draw(self, key: U64) -> Source:
        """Draw one word for each key. uint64 [R] -> `Source` of R rows"""
        words = random_words(key, self.length - 1, 0.0, self.vocabulary)
        return replace(words, size=np.full(key.size, self.length))

    def target(self, source: Source) -> Tokens:
        """The target of each source: the same word."""
        return Tokens(source.offsets, source.position, source.symbol)

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on."""
        return letters(self.vocabulary)

    def expected_tokens(self) -> float:
        """The number of symbols of a word."""
        return self.length - 1.0

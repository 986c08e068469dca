"""The task `word-grid-rotate`: the target is a grid of words after a clockwise quarter turn.

Shapes: R rows, W words of all rows, T symbols of all words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._grids import Grids, cells, clockwise
from ape_cli.tasks._sized import check_normal

_LONGEST_WORD = 1000


@dataclass(frozen=True, kw_only=True)
class WordGridRotate(Grids):
    """Rotate a grid of words clockwise, as `grid-rotate` does. Each word is still read from left to right.

    The structure is `grid(2)*seq` (Algebraic Positional Encodings, section 3.4.3). The coordinates of a symbol are the
    row and column of its word and its place in the word, all from 0. Words are stored one after the other. The length
    of each word is drawn independently. The size of a source is its longer side, in words.

    Raises `UsageError` if an option is out of range.

    >>> task = WordGridRotate(side_mean=2, side_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=2).to_pylist()[0]
    >>> "".join(task.id_names[i] for i in row["source_ids"]), row["source_positions"][3:7]  # sirf gi / pgga em
    ('sirfgipggaem', [[0, 0, 3], [0, 1, 0], [0, 1, 1], [1, 0, 0]])
    >>> "".join(task.id_names[i] for i in row["target_ids"])  # pgga sirf / em gi
    'pggasirfemgi'
    """

    structure = "grid(2)*seq"
    summary = "a grid of words after a quarter turn clockwise: ab c/d ef -> d ab/ef c"
    source = "ours; the products of Algebraic Positional Encodings, section 3.4.3"
    preset_options: ClassVar = {"small": {"side_mean": 3.0, "side_std": 0.5}, "tiny": {"side_mean": 2.0}}

    side_mean: float = option(6.0, "Mean height and width of a grid, in words.")
    word_mean: float = option(3.0, "Mean length of words, in symbols.")
    word_std: float = option(1.0, "Standard deviation of the length of words, in symbols.")

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range."""
        super().check()
        check_normal("word_mean and word_std", self.word_mean, self.word_std, 1, _LONGEST_WORD)

    def draw(self, key: U64) -> Source:
        """Draw one grid of words for each key. uint64 [R] -> `Source` of R rows"""
        height, width = self.sides(key)
        first, cell, corner = cells(height, width)  # of words: [R+1], [W] and [W, 2]
        word_key = rng.bits(np.repeat(rng.child(key, "words"), height * width), cell)
        length = rng.normal(rng.child(word_key, "length"), self.word_mean, self.word_std, 1, _LONGEST_WORD)
        word_offsets = ragged.offsets_of(length)
        index = ragged.indices_of(word_offsets)
        symbol = rng.below(rng.bits(np.repeat(rng.child(word_key, "symbols"), length), index), self.vocabulary)
        position = np.column_stack([np.repeat(corner, length, axis=0), index])
        return Source(word_offsets[first], position, FIRST_SYMBOL + symbol, np.maximum(height, width))

    def target(self, source: Source) -> Tokens:
        """The target of each source: the turned grid, with the same words."""
        begins = np.flatnonzero(source.position[:, 2] == 0)  # [W], where each word begins
        first = np.searchsorted(begins, source.offsets)  # [R+1], the first word of each row
        height, width = source.position[source.offsets[1:] - 1, :2].T + 1
        taken, corner = clockwise(first[:-1], height, width)
        index, word_offsets = ragged.take(np.append(begins, source.symbol.size), taken)
        position = np.column_stack([np.repeat(corner, np.diff(word_offsets), axis=0), source.position[index, 2]])
        return Tokens(source.offsets, position, source.symbol[index])

    def expected_tokens(self) -> float:
        """The mean number of symbols: that of words times the mean length of a word."""
        return super().expected_tokens() * self.word_mean

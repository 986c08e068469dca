"""What the word tasks share: words over a small vocabulary, so that symbols repeat.

Paper, appendix B: length from the discretised N(100, 10), vocabulary of 20. Positions are 0..n-1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, check_whole, letters
from ape_cli.tasks._sized import Sized, over_sizes


@dataclass(frozen=True, kw_only=True)
class Words(Sized):
    """A word drawn uniformly; subclasses say what becomes of it."""

    extent: ClassVar[str] = "length"

    length_mean: float = 100.0
    length_std: float = 10.0
    vocabulary: int = 20

    @property
    def limits(self) -> tuple[int, int, str]:
        return 1, 60_000, ""

    def check(self) -> None:
        super().check()
        check_whole("vocabulary", self.vocabulary, 1, 60_000)

    @property
    def structure(self) -> str:
        return "seq"

    def draw(self, key: U64) -> Source:
        assert not self.sizes
        size = rng.normal(rng.child(key, "size"), self.length_mean, self.length_std, 1, 65_535)
        starts = ragged.starts_of(size)
        place = np.arange(starts[-1]) - np.repeat(starts[:-1], size)
        word = rng.bits(np.repeat(rng.child(key, "symbols"), size), place)
        return Source(starts, place, FIRST_SYMBOL + rng.below(word, self.vocabulary), size)

    def symbols(self) -> list[str]:
        return letters(self.vocabulary)

    @property
    @over_sizes
    def mean_size(self) -> float:
        return self.length_mean

    @property
    @over_sizes
    def mean_tokens(self) -> float:
        return self.length_mean

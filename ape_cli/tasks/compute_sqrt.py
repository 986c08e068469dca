"""The task `compute-sqrt`: the target is the square root of a binary number, rounded down.

Source: the task "compute sqrt" of Deletang et al. 2023, "Neural Networks and the Chomsky Hierarchy" (arXiv:2207.02098).

Deviation: by default, lengths are normally distributed; the published ones are uniform (`--sizes 1-40`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._binary import integers, positive, tokens
from ape_cli.tasks._words import Sequences


@dataclass(frozen=True, kw_only=True)
class ComputeSqrt(Sequences):
    """Compute the square root of a binary number, rounded down. Both are written with the most significant bit first.

    A number of $n$ bits is uniform on $1..2^n - 1$, so it may have leading zeros. Its root has $n/2$ bits, rounded up,
    also with leading zeros. The size of a source is its length.

    The bits of roots are almost uniform: the most frequent bit of each place is right in 55% of the tokens of length 20
    and in 53% at length 40. The first bit is 1 in 75% of the rows of even length.

    >>> task = ComputeSqrt(length_mean=9, length_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> "".join(task.id_names[i] for i in row["source_ids"]), "".join(task.id_names[i] for i in row["target_ids"])
    ('101111110', '10011')
    """

    summary = "the square root of a binary number, rounded down: 100101 -> 110"
    source = "Deletang et al. 2023, arXiv:2207.02098"

    def draw(self, key: U64) -> Source:
        """Draw a number for each key. uint64 [R] -> `Source` of R rows"""
        size = self.draw_sizes(key)
        offsets = ragged.offsets_of(size)
        return Source(
            offsets, ragged.indices_of(offsets), FIRST_SYMBOL + positive(rng.child(key, "symbols"), size), size
        )

    def target(self, source: Source) -> Tokens:
        """The target of each source: its root, with half as many bits."""
        numbers = integers(source.symbol[ragged.backwards(source.offsets)] - FIRST_SYMBOL, source.offsets)
        roots = tokens([math.isqrt(number) for number in numbers], (np.diff(source.offsets) + 1) // 2)
        return Tokens(roots.offsets, roots.position, roots.symbol[ragged.backwards(roots.offsets)])

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the bits."""
        return ["0", "1"]

    def expected_target_tokens(self) -> float:
        """The mean number of tokens of a target."""
        return self.expected(lambda size: (size + 1) // 2)

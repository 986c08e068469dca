"""The task `bucket-sort`: the target is the symbols of the source in ascending order.

Source: the task "bucket sort" of Deletang et al. 2023, "Neural Networks and the Chomsky Hierarchy" (arXiv:2207.02098),
with 5 symbols.

Deviation: by default, lengths are normally distributed; the published ones are uniform (`--sizes 1-40`).

Shapes: T tokens in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.core import ragged
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._words import Words


@dataclass(frozen=True, kw_only=True)
class BucketSort(Words):
    """Sort the symbols of a string.

    Most tokens need no sorting. A guesser that writes the smallest symbol and then repeats the previous symbol is
    wrong only where another of the $k$ symbols begins, in $(k - 1)(1 - (1 - 1/k)^n)$ of $n$ tokens on average. With 5
    symbols, 80.2% of its tokens are right at length 20, 90.0% at length 40, and 99.2% at length 500.

    >>> task = BucketSort(length_mean=8, length_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> "".join(task.id_names[i] for i in row["source_ids"]), "".join(task.id_names[i] for i in row["target_ids"])
    ('33200003', '00002333')
    """

    summary = "the symbols in ascending order: 10204112 -> 00111224"
    source = "Deletang et al. 2023, arXiv:2207.02098"

    vocabulary: int = option(5, "Number of symbols.", between=(1, 60_000))

    def target(self, source: Source) -> Tokens:
        """The target of each source: its symbols, sorted."""
        ids = FIRST_SYMBOL + self.vocabulary
        symbol = np.sort(ragged.rows_of(source.offsets) * ids + source.symbol) % ids
        return Tokens(source.offsets, source.position, symbol)

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on, in ascending order."""
        return [str(i) for i in range(self.vocabulary)]

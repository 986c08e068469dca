"""The task `even-pairs`: whether the number of places where a bit string changes is even.

Source: the task "even pairs" of Deletang et al. 2023, "Neural Networks and the Chomsky Hierarchy" (arXiv:2207.02098).
The language is regular.

Deviation: by default, lengths are normally distributed; the published ones are uniform (`--sizes 1-40`).

Shapes: R rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from ape_cli.core.rng import U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._words import SingleAnswer, random_words, single_tokens


@dataclass(frozen=True, kw_only=True)
class EvenPairs(SingleAnswer):
    """Tell whether the number of pairs `01` and `10` in a bit string is even.

    The bits are drawn uniformly. The target is `0` for an even number of pairs and `1` for an odd one. The number is
    odd if the first and the last bit differ, so a model only needs to compare these two. Each answer is right in half
    of the rows. A string of one bit has no pairs.

    >>> task = EvenPairs(length_mean=7, length_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> "".join(task.id_names[i] for i in row["source_ids"]), task.id_names[row["target_ids"][0]]
    ('1110000', '1')
    """

    summary = "whether the number of pairs 01 and 10 is even (0) or odd (1): 0101001 -> 1"
    source = "Deletang et al. 2023, arXiv:2207.02098"

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on."""
        return ["0", "1"]

    def draw(self, key: U64) -> Source:
        """Draw one bit string for each key. uint64 [R] -> `Source` of R rows"""
        return random_words(key, self.length_mean, self.length_std, 2)

    def target(self, source: Source) -> Tokens:
        """The target of each source: 1 if its first and its last bit differ."""
        first, last = source.offsets[:-1], source.offsets[1:] - 1
        return single_tokens(FIRST_SYMBOL + (source.symbol[first] != source.symbol[last]))

"""The task `associative-recall`: keys and their values are listed, and the target has the values of queried keys.

Source: multi-query associative recall; Arora et al. 2023, "Zoology: Measuring and Improving Recall in Efficient
Language Models", arXiv:2312.04927.

Deviations: the source trains a decoder that reads each query and answers it at once. Its queries are spread over a
longer sequence, with gaps that follow a power law. Here the encoder reads the pairs and then all queries without
gaps, and the decoder writes the answers. As in the source, keys are distinct, no key is queried twice, and keys and
values have symbols of their own.

Shapes: R rows, P pairs of a row, Q queries of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens, check_whole, option
from ape_cli.tasks._sized import Sized, over_sizes


@dataclass(frozen=True, kw_only=True)
class AssociativeRecall(Sized):
    """Look up the values of keys.

    The source consists of P pairs, each of which is a key and its value, and Q queries, which are keys. The target
    consists of the value of each query, in the order of the queries. The keys of a row are a uniform draw without
    repetition, and so are its queries. Values are drawn uniformly, so several keys may have the same value.

    A model that sees which values a source has, but not to which keys they belong, can guess among those that it has
    not written yet. With 8 pairs, 16 values and a query of each key, such guesses give 42% of the values. The fewer
    queries there are, the less this helps: with 2 queries it is 26%.

    Arguments: `pairs`, the number P of pairs; `queries`, the number Q of queries, at most P, where 0 means that each
    key is queried once; `keys` and `values`, the number of symbols for keys and for values. The size of a source is P.
    Raises `UsageError` if an option is out of range.

    >>> task = AssociativeRecall(pairs=3, queries=2, keys=6, values=6)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> " ".join(task.id_names[i] for i in row["source_ids"]), " ".join(task.id_names[i] for i in row["target_ids"])
    ('k3 v4 k4 v5 k5 v4 k4 k3', 'v5 v4')
    """

    structure = "seq"
    summary = "the values of queried keys: k2 v7 k5 v1 k5 -> v1"
    source = "Arora et al. 2023, arXiv:2312.04927"
    extent: ClassVar[str] = "pairs"
    form_options = ("queries",)
    size_words = ("pairs", "pairs of a key and a value")
    preset_options: ClassVar = {
        "small": {"pairs": 4, "queries": 1, "keys": 6, "values": 6},  # what 800 steps can learn
        "tiny": {"pairs": 3, "keys": 6, "values": 6},
    }

    pairs: int = option(32, "Number of pairs of a key and a value.")
    queries: int = option(0, "Number of queries, without repetition; 0 for one query of each key.")
    keys: int = option(64, "Number of symbols for keys.")
    values: int = option(64, "Number of symbols for values.")

    @property
    def limits(self) -> tuple[int, int, str]:
        """The smallest and the largest number of pairs, and the reason for the largest."""
        return 1, min(self.keys, 10_000), " (no more than --keys, because the keys of a row are distinct)"

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range."""
        check_whole("keys", self.keys, 1, 30_000)
        check_whole("values", self.values, 1, 30_000)
        super().check()
        if not 0 <= self.queries <= self.pairs:
            raise UsageError(
                "bad queries",
                got=self.queries,
                allowed=f"0 to {self.pairs}, the number of pairs, because no key is queried twice",
                fix="choose fewer queries, or more pairs",
            )

    def draw(self, key: U64) -> Source:
        """Draw pairs and queries for each key. uint64 [R] -> `Source` of R rows with 2P + Q tokens each"""
        assert not self.sizes
        rows, queries = key.size, self.queries or self.pairs
        keys = distinct(rng.child(key, "keys"), self.pairs, self.keys)  # [R, P]
        values = rng.below(rng.bits(rng.child(key, "values")[:, None], np.arange(self.pairs)), self.values)
        asked = np.take_along_axis(keys, distinct(rng.child(key, "queries"), queries, self.pairs), axis=1)  # [R, Q]
        pairs = np.stack([keys, self.keys + values], axis=2).reshape(rows, 2 * self.pairs)
        symbol = np.concatenate([pairs, asked], axis=1)
        tokens = symbol.shape[1]
        position = np.tile(np.arange(tokens), rows)
        return Source(np.arange(rows + 1) * tokens, position, FIRST_SYMBOL + symbol.ravel(), np.full(rows, self.pairs))

    def answer(self, source: Source) -> Tokens:
        """The target of each source: the values of its queries."""
        row = ragged.rows_of(source.starts)
        queried = source.position >= 2 * source.size[row]
        name = row * self.keys + source.symbol  # tells the keys of different rows apart
        stated = np.flatnonzero(~queried & (source.position % 2 == 0))
        stated = stated[np.argsort(name[stated])]
        found = stated[np.searchsorted(name[stated], name[queried])]
        count = np.bincount(row[queried], minlength=source.size.size)
        starts = ragged.starts_of(count)
        return Tokens(starts, ragged.places_of(starts), source.symbol[found + 1])

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the keys k0, k1 and so on, then the values v0, v1 and so on."""
        return [f"k{i}" for i in range(self.keys)] + [f"v{i}" for i in range(self.values)]

    @property
    @over_sizes
    def mean_tokens(self) -> float:
        """The number of tokens of a source: pairs and queries."""
        return 2.0 * self.pairs + (self.queries or self.pairs)

    @property
    @over_sizes
    def mean_answer_tokens(self) -> float:
        """The number of tokens of a target: the queries."""
        return float(self.queries or self.pairs)


def distinct(key: U64, count: int, bound: int) -> I64:
    """Draw numbers below a bound without repetition, where each ordered draw has the same probability.

    Element i is first drawn among the bound - i numbers that are left, by its rank among them. Ranks become numbers
    from the last element to the first: a rank that is not below that of an element before it counts this element too
    (the decoding of a Lehmer code).

    `key`: uint64 [R]; `count` is at most `bound`. Returns int64 [R, count].
    """
    place = np.arange(count)
    number = rng.below(rng.bits(key[:, None], place), bound - place)
    columns = np.ascontiguousarray(number.T)  # [count, R]
    for i in range(count - 2, -1, -1):
        columns[i + 1 :] += columns[i + 1 :] >= columns[i]
    return columns.T

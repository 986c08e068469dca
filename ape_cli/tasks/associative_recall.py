"""The task `associative-recall`: keys and their values are listed, and the target gives the values of queried keys.

Source: multi-query associative recall; Arora et al. 2023, "Zoology: Measuring and Improving Recall in Efficient
Language Models", arXiv:2312.04927.

With a `length`, queries are spread over a longer sequence with gaps that follow a power law, as in the source, and each
is answered immediately, by a tag. Figure 2 of the source uses blanks between the queries (`filler=blank`); the defaults
of its code use random symbols (`filler=random`). With 4 pairs, a length of 64, 4,095 keys, 4,096 values and blanks, the
data is that of figure 2 at length 64 (github.com/HazyResearch/zoology, commit d88d6f5,
zoology/experiments/paper_configs/iclr24_zoology_figure2/configs.py, zoology/data/multiquery_ar.py). Presets `paper`,
`neurips` and `medium` use the same sizes, with random symbols and one more key.

Deviations: values are drawn with replacement (two are equal in 0.15% of the rows of figure 2), a random symbol that
happens to be a key of its row counts as another query, and models read the sequence a second time, in an encoder or
before the copy that carries the tags.

Without a `length`, the form is ours: the encoder reads the pairs and then all queries without gaps, and the decoder
writes the answers. As in the source, keys are distinct, no key is queried twice, and keys and values use different
symbols.

Shapes: R rows, P pairs of a row, Q queries of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import PAD
from ape_cli.tasks import Source, Tokens, check_whole, option
from ape_cli.tasks._sized import Sized
from ape_cli.tasks._task import of_one_length


@dataclass(frozen=True, kw_only=True)
class AssociativeRecall(Sized):
    """Look up the values of keys.

    The source lists $P$ pairs of a key and its value, then $Q$ queries, which are keys. The target gives the value of
    each query, in the order of the queries. The keys of a row are drawn uniformly without replacement, as are its
    queries. Values are drawn uniformly with replacement.

    A model that knows which values occur, but not which keys they belong to, can guess among those that it has not
    written yet. With 8 pairs, 16 values and a query for each key, such guesses get 42% of the values right. Fewer
    queries make guessing less useful: with 2 queries it gets 26%.

    With a `length` $L$, the pairs take the first $2P$ of $L$ tokens. The rest is divided into $(L - 2P) / 2$ slots of
    two tokens. Each query is the first token of a slot; slot $i = 1, 2, …$ is drawn with probability proportional to
    $i^{g - 1}$, where $g$ is `gap_power`, without replacement. All other tokens are drawn uniformly from all keys and
    values, or are the symbol `blank`. The target has a tag for each token: the value at a query, nothing elsewhere.

    The size of a source is $P$.

    Raises `UsageError` if an option is out of range, or if gaps are described without a `length`.

    >>> task = AssociativeRecall(pairs=3, queries=2, keys=6, values=6)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> " ".join(task.id_names[i] for i in row["source_ids"]), " ".join(task.id_names[i] for i in row["target_ids"])
    ('k3 v4 k4 v5 k5 v4 k4 k3', 'v5 v4')
    >>> task = AssociativeRecall(pairs=2, keys=6, values=6, length=12, filler="blank")
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> " ".join(task.id_names[i] for i in row["source_ids"])
    'k3 v4 k4 v5 k3 blank k4 blank blank blank blank blank'
    >>> " ".join(task.id_names[i].strip("<>") for i in row["target_ids"])
    'pad pad pad pad v4 pad v5 pad pad pad pad pad'
    """

    structure = "seq"
    summary = "the values of queried keys: k2 v7 k5 v1 k5 -> v1"
    source = "Arora et al. 2023, arXiv:2312.04927"
    extent = "pairs"
    answer_options = ("length",)
    form_options = ("queries", "length", "filler")
    size_words = ("pairs", "pairs of a key and a value")
    preset_options: ClassVar = {
        "small": {"pairs": 4, "queries": 1, "keys": 6, "values": 6},  # what 800 steps can learn
        "tiny": {"pairs": 3, "keys": 6, "values": 6},
        "medium": {"pairs": 4, "keys": 4096, "values": 4096, "length": 64},
        "paper": {"pairs": 4, "keys": 4096, "values": 4096, "length": 64},
        "neurips": {"pairs": 4, "keys": 4096, "values": 4096, "length": 64},
    }

    pairs: int = option(32, "Number P of pairs of a key and a value.")
    queries: int = option(0, "Number Q of distinct queries; 0 to query each key once.")
    keys: int = option(64, "Number of symbols for keys.", between=(1, 30_000))
    values: int = option(64, "Number of symbols for values.", between=(1, 30_000))
    length: int = option(0, "Number L of tokens of a source; 0 for no gaps.", late=True, between=(0, 60_000))
    gap_power: float = option(0.01, "Exponent of the gaps; 1 is uniform.", late=True, between=(1e-6, 1.0))
    filler: str = option("random", "Tokens in gaps: random or blank.", late=True, among=("random", "blank"))

    @property
    def tagged(self) -> bool:
        """Whether the values are tags of the queries."""
        return self.length > 0

    @property
    def limits(self) -> tuple[int, int, str]:
        """The smallest and the largest number of pairs, and the reason for the largest."""
        return 1, min(self.keys, 10_000), " (no more than `keys`, because the keys of a row are distinct)"

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range."""
        super().check()
        check_whole("queries", self.queries, 0, self.pairs)
        need = 2 * self.pairs + 2 * (self.queries or self.pairs)
        if self.length and (self.length < need or self.length % 2):
            allowed = f"an even number from {need}, so that each pair and each query has two tokens; or 0"
            raise UsageError("bad length", got=self.length, allowed=allowed, fix="choose a longer one, or fewer pairs")
        given = [name for name in ("filler", "gap_power") if getattr(self, name) != getattr(AssociativeRecall, name)]
        if given and not self.length:
            what, fix = f"`{given[0]}` needs gaps to fill", f"choose a `length`, or leave `{given[0]}` out"
            raise UsageError(what, got=f"{given[0]}={getattr(self, given[0])} and length=0", fix=fix)

    def draw(self, key: U64) -> Source:
        """Draw pairs and queries for each key. uint64 [R] -> `Source` of R rows with 2P + Q or L tokens each"""
        rows, queries = key.size, self.queries or self.pairs
        keys = distinct(rng.child(key, "keys"), self.pairs, self.keys)  # [R, P]
        values = rng.below(rng.bits(rng.child(key, "values")[:, None], np.arange(self.pairs)), self.values)
        queried = np.take_along_axis(keys, distinct(rng.child(key, "queries"), queries, self.pairs), axis=1)  # [R, Q]
        pairs = np.stack([keys, self.keys + values], axis=2).reshape(rows, 2 * self.pairs)
        symbol = np.concatenate([pairs, self._spread(key, queried) if self.length else queried], axis=1)
        return of_one_length(symbol, self.pairs)

    def _spread(self, key: U64, queries: I64) -> I64:
        """The tokens behind the pairs: the queries in their slots, and what fills them up. [R], [R, Q] -> [R, L - 2P]

        The slots of a row are drawn one after the other, without repetition: those of the smallest of independent
        exponential variables, whose rates are the weights (Efraimidis and Spirakis 2006).
        """
        rest = self.length - 2 * self.pairs
        slots = np.arange(1, rest // 2 + 1)
        word = rng.bits(rng.child(key, "gaps")[:, None], slots)
        uniform = ((word >> np.uint64(11)) + np.uint64(1)) * 2.0**-53  # in (0, 1]
        waiting = -np.log(uniform) / slots ** (self.gap_power - 1.0)
        chosen = np.argsort(waiting, axis=1, kind="stable")[:, : queries.shape[1]]
        symbols = self.keys + self.values  # and the number of the blank
        if self.filler == "blank":
            tokens = np.full((key.size, rest), symbols)
        else:
            tokens = rng.below(rng.bits(rng.child(key, "filler")[:, None], np.arange(rest)), symbols)
        np.put_along_axis(tokens, 2 * chosen, queries, axis=1)
        return tokens

    def target(self, source: Source) -> Tokens:
        """The target of each source: the values of its queries, or a tag for each token."""
        row = ragged.rows_of(source.offsets)
        behind = source.position >= 2 * source.size[row]
        name = row * len(self.id_names) + source.symbol  # tells the symbols of different rows apart
        stated = np.flatnonzero(~behind & (source.position % 2 == 0))
        stated = stated[np.argsort(name[stated])]
        pair = stated[np.minimum(np.searchsorted(name[stated], name), stated.size - 1)]  # [T]
        queried = behind & (name[pair] == name)
        if self.length:
            return Tokens(source.offsets, source.position, np.where(queried, source.symbol[pair + 1], PAD))
        count = np.bincount(row[queried], minlength=source.size.size)
        offsets = ragged.offsets_of(count)
        return Tokens(offsets, ragged.indices_of(offsets), source.symbol[pair[queried] + 1])

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the keys k0, k1 and so on, the values v0, v1 and so on, a blank."""
        blank = ["blank"] if self.filler == "blank" else []
        return [f"k{i}" for i in range(self.keys)] + [f"v{i}" for i in range(self.values)] + blank

    def expected_tokens(self) -> float:
        """The number of tokens of a source: pairs and queries, and what is between these."""
        return float(self.length) if self.length else 2.0 * self.pairs + (self.queries or self.pairs)

    def expected_target_tokens(self) -> float:
        """The number of tokens of a target: the queries, or a tag for each token."""
        return float(self.length or self.queries or self.pairs)


def distinct(key: U64, count: int, bound: int) -> I64:
    """Draw numbers below a bound without repetition, where each ordered draw has the same probability.

    Element i is first drawn among the bound - i numbers that are left, by its rank among them. Ranks become numbers
    from the last element to the first: a rank that is not below that of an element before it counts this element too
    (the decoding of a Lehmer code).

    `key`: uint64 [R]; `count` is at most `bound`. Returns int64 [R, count].
    """
    index = np.arange(count)
    number = rng.below(rng.bits(key[:, None], index), bound - index)
    columns = np.ascontiguousarray(number.T)  # [count, R]
    for i in range(count - 2, -1, -1):
        columns[i + 1 :] += columns[i + 1 :] >= columns[i]
    return columns.T

"""The task `in-context-recall`: pairs of a key and its value. A key that occurs again is tagged with its value.

Source: three tasks of MAD; Poli et al. 2024, "Mechanistic Design and Scaling of Hybrid Architectures",
arXiv:2403.17844; github.com/athms/mad-lab, commit 0f49a45, `mad/data/instances.py`, with `multi_query` as in
`configs/tasks`. Each is a form of this task:

| published task | options |
|---|---|
| in-context recall | the defaults |
| noisy in-context recall | `noise=0.2 noise_symbols=16` |
| fuzzy in-context recall | `keys=7 key_tokens=3 value_tokens=3` |

It is a task of its own because it would share only two options with `associative-recall`, `keys` and `values`.

Deviations:

- The published loss covers all next tokens in training. Here, training rows have the labels of published test rows.
- Models read an EOS before the sequence.
- In 1.7% of the published fuzzy training rows and 2.6% of the test rows, the last key is new, so its value cannot be
  known. Here, it never is.
- Noise never replaces one of the pairs, drawn uniformly. In the published program it may be the last pair, which is
  never noise anyway; here, it is one of the others.

Shapes: R rows, S pairs that are drawn for a row, W tokens of the longest pair, N keys of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ape_cli.core import rng
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL, PAD
from ape_cli.tasks import Source, Tokens, check_whole, option
from ape_cli.tasks._sized import Sized
from ape_cli.tasks._task import of_one_length
from ape_cli.tasks.associative_recall import distinct


@dataclass(frozen=True, kw_only=True)
class InContextRecall(Sized):
    """Recall the value of a key that occurred before.

    The source is a sequence of pairs of a key and its value. Keys are drawn with replacement. The value of a key is
    drawn when the key first occurs, and stays the same in the row. When the key occurs again, its tag is the value. The
    value is also the next token, so models read each row once, from left to right. The last key is never new.

    With `noise`, symbols without meaning replace some pairs. If `key_tokens` or `value_tokens` is above 1, keys and
    values are strings of distinct symbols. The lengths of values are uniform from 1. So are those of keys in the
    training split; in the other splits, all keys have `key_tokens` tokens. The last token of a key is then tagged with
    the first token of the value, and each token of the value with the next one. Blanks fill the row up on the left.

    The size of a source is the published length $L$. If keys and values have one token, the source has $L - 1$ tokens:
    the last value is only a tag.

    The value that has been most frequent so far, whatever the key, is right in 32% of the tags with the default
    options, in 19% in fuzzy recall, and in 53% at preset `small`.

    Raises `UsageError` if an option is out of range, or if `noise` is given without `noise_symbols`.

    >>> task = InContextRecall(length=12, keys=3, values=4)
    >>> row = task.sample(rows=range(3), split="train", seed=42).to_pylist()[2]
    >>> " ".join(task.id_names[i] for i in row["source_ids"])
    'k0 v3 k1 v2 k1 v2 k2 v3 k2 v3 k0'
    >>> " ".join(task.id_names[i].strip("<>") for i in row["target_ids"])
    'pad pad pad pad v2 pad pad pad v3 pad v3'
    """

    structure = "seq"
    summary = "the value of each key that occurred before: k2 v7 k5 v1 k2 -> v7"
    source = "Poli et al. 2024, arXiv:2403.17844"
    extent = "length"
    form_options = ("key_tokens", "value_tokens", "noise")
    tagged = causal = True
    preset_options: ClassVar = {
        "small": {"length": 32, "keys": 4, "values": 4},
        "tiny": {"length": 16, "keys": 4, "values": 4},
    }
    shorter_keys: ClassVar[bool] = True  # whether keys may have fewer tokens than `key_tokens`

    length: int = option(128, "Published length L: number of tokens, with that of the last value.")
    keys: int = option(8, "Number of symbols for keys.", between=(1, 30_000))
    values: int = option(8, "Number of symbols for values.", between=(1, 30_000))
    key_tokens: int = option(1, "Largest number of tokens of a key.", between=(1, 4))
    value_tokens: int = option(1, "Largest number of tokens of a value.", between=(1, 4))
    noise: float = option(0.0, "Probability that noise replaces a pair.", between=(0.0, 0.99))
    noise_symbols: int = option(0, "Number of symbols for noise.", between=(0, 5_000))

    @property
    def _longest(self) -> int:
        """The number of tokens W of the longest pair."""
        return self.key_tokens + self.value_tokens

    @property
    def _is_fuzzy(self) -> bool:
        """Whether keys or values can have several tokens."""
        return self._longest > 2

    @property
    def limits(self) -> tuple[int, int, str]:
        """The smallest and the largest length."""
        return (2 * self._longest + 1 if self._is_fuzzy else 4), 60_000, ""

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range."""
        super().check()
        check_whole("key_tokens", self.key_tokens, 1, self.keys)
        check_whole("value_tokens", self.value_tokens, 1, self.values)
        if self.length % 2 and not self._is_fuzzy:
            raise UsageError("bad length", got=self.length, allowed="an even number: pairs have two tokens")
        if (self.noise > 0) != (self.noise_symbols > 0):
            got = f"noise={self.noise:g} and noise_symbols={self.noise_symbols}"
            raise UsageError("noise needs symbols", got=got, allowed="both or none", fix="give both, or leave both out")

    def sample_for_split(self, index: U64, split: str, seed: int) -> tuple[Source, int]:
        """See `Task.sample_for_split`. As in the source, only training rows have keys of fewer tokens."""
        if split == "train" or isinstance(self, _LongKeys):
            return super().sample_for_split(index, split, seed)
        options: dict[str, Any] = self.options
        return _LongKeys(**options).sample_for_split(index, split, seed)

    def draw(self, key: U64) -> Source:
        """Draw pairs for each key. uint64 [R] -> `Source` of R rows of `length` tokens, or one less"""
        shortest = 1 + (1 if self.shorter_keys else self.key_tokens)
        pairs = 1 + self.length // shortest if self._is_fuzzy else self.length // 2 - 1
        column = np.arange(pairs)
        keys = _strings(rng.child(key, "keys"), pairs, self.key_tokens, self.keys, self.shorter_keys)
        values = _strings(rng.child(key, "values"), pairs, self.value_tokens, self.values)
        values = np.where(values < 0, values, self.keys + values)
        is_pair = rng.uniform(rng.bits(rng.child(key, "noise")[:, None], column)) >= self.noise  # [R, S]
        is_pair[np.arange(key.size), 0 if self._is_fuzzy else rng.below(rng.child(key, "certain"), pairs)] = True
        code = np.where(is_pair, (keys + 1) @ (self.keys + 1) ** np.arange(self.key_tokens), -1 - column)
        first = _first(code)
        tokens = np.concatenate([keys, np.take_along_axis(values, first[..., None], axis=1)], axis=2)  # [R, S, W]
        if self.noise:
            word = rng.bits(rng.child(key, "symbols")[:, None], np.arange(pairs * self._longest))
            symbol = self.keys + self.values + rng.below(word, self.noise_symbols).reshape(tokens.shape)
            tokens = np.where((tokens < 0) | is_pair[..., None], tokens, symbol)
        if self._is_fuzzy:
            order, shown = self._placed(key, first, (tokens >= 0).sum(axis=2))
        else:
            new = np.cumsum((first == column) & is_pair, axis=1)
            asked = (new <= rng.below(rng.child(key, "query"), new[:, -1])[:, None]).sum(axis=1, keepdims=True)
            order = np.concatenate([np.tile(column, (key.size, 1)), asked], axis=1)
            shown = np.ones(order.shape, dtype=bool)
        tokens = np.take_along_axis(tokens, order[..., None], axis=1)
        mask = (tokens >= 0) & shown[..., None]
        width = self.length + self._is_fuzzy
        filled = np.full((key.size, width), self.keys + self.values + self.noise_symbols)
        filled[np.arange(width) >= width - mask.sum(axis=(1, 2))[:, None]] = tokens[mask]
        return of_one_length(filled[:, :-1], self.length)  # without the last token of the last value

    def _placed(self, key: U64, first: I64, tokens: I64) -> tuple[I64, np.ndarray]:
        """The order in which the pairs of each row are written, int64 [R, S + 1], and whether they are, as bool.

        Pair 0 is the last one of the row. If none of the others has its key until a place is reached that is drawn
        uniformly, it is also written there. `first` is the first pair with the key of each pair, and `tokens` is the
        number of tokens of each pair: int64 [R, S].
        """
        column, last = np.arange(first.shape[1]), tokens[:, :1]
        most = self.length - last - self._longest
        place = rng.below(rng.child(key, "place"), self.length - 2 * last[:, 0])[:, None]
        begin = np.cumsum(tokens[:, 1:], axis=1) - tokens[:, 1:]
        here = np.minimum((begin < place).sum(axis=1), (begin < most).sum(axis=1) - 1)[:, None]
        occurred = ((first[:, 1:] == 0) & (column[:-1] < here)).any(axis=1, keepdims=True)
        here = np.where(occurred, column[-1], here)
        order = np.where(column == here, 0, column + (column < here))
        count = np.take_along_axis(tokens, order, axis=1)
        shown = np.cumsum(count, axis=1) - count < most
        return np.pad(order, [(0, 0), (0, 1)]), np.pad(shown, [(0, 0), (0, 1)], constant_values=True)

    def target(self, source: Source) -> Tokens:
        """The target of each source: the value at each key that occurred before, as tags.

        A key is a run of symbols for keys, and its value the run of symbols for values that follows.
        """
        kind = np.digitize(source.symbol, [FIRST_SYMBOL + self.keys, FIRST_SYMBOL + self.keys + self.values])
        begins = np.append((source.position == 0) | (np.diff(kind, prepend=-1) != 0), True)
        edges = np.flatnonzero(begins)  # of runs, and the end of the last one
        runs = np.flatnonzero(kind[edges[:-1]] == 0)
        start, behind = edges[runs], edges[runs + 1]  # [N], of each key: its first token, and the token after it
        symbol = np.append(source.symbol, np.full(self._longest, PAD))
        kind = np.append(kind, np.full(self._longest, -1))
        place = start[:, None] + np.arange(self.key_tokens)
        string = np.where(place < behind[:, None], symbol[place], PAD)  # [N, key_tokens]
        row = np.searchsorted(source.offsets, start, side="right") - 1
        _, index, inverse = np.unique(np.column_stack([row, string]), axis=0, return_index=True, return_inverse=True)
        stated = index[inverse.reshape(-1)]  # [N], the first key of the row with the same string
        tags = np.full(symbol.size, PAD)
        again = stated != np.arange(stated.size)
        end, has_more = source.offsets[row + 1], again.copy()
        for i in range(self.value_tokens):
            value = behind[stated] + i
            has_more &= (value < end) & (kind[value] == 1) & ((i == 0) | ~begins[np.minimum(value, begins.size - 1)])
            tags[behind[has_more] - 1 + i] = symbol[value[has_more]]
        return Tokens(source.offsets, source.position, tags[: source.symbol.size])

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: keys k0, k1, …, values v0, v1, …, noise n0, n1, …, a blank."""
        counts = {"k": self.keys, "v": self.values, "n": self.noise_symbols}
        names = [f"{kind}{i}" for kind, count in counts.items() for i in range(count)]
        return names + ["blank"] * self._is_fuzzy

    def expected_tokens(self) -> float:
        """The number of tokens of a source, and of its tags."""
        return self.length - (not self._is_fuzzy)


class _LongKeys(InContextRecall):
    """Rows for validation and test: all keys have `key_tokens` tokens."""

    shorter_keys = False


def _strings(key: U64, count: int, tokens: int, symbols: int, shorter: bool = True) -> I64:
    """Strings of distinct symbols, -1 after the end of `shorter` ones. uint64 [R] -> int64 [R, `count`, `tokens`]

    All lengths from 1 are equally likely, and all strings of a length.
    """
    stream = rng.bits(key[:, None], np.arange(count))
    string = distinct(stream.ravel(), tokens, symbols).reshape(*stream.shape, tokens)
    if not shorter:
        return string
    size = 1 + rng.below(rng.child(stream, "length"), tokens)
    return np.where(np.arange(tokens) < size[..., None], string, -1)


def _first(code: I64) -> I64:
    """The first column of the same row with the same number, for each number. int64 [R, S] -> the same"""
    order = np.argsort(code, axis=1, kind="stable")
    ranked = np.take_along_axis(code, order, axis=1)
    column = np.arange(code.shape[1])
    is_new = np.diff(ranked, axis=1, prepend=ranked[:, :1] - 1) != 0
    head = np.maximum.accumulate(np.where(is_new, column, 0), axis=1)
    first = np.empty_like(order)
    np.put_along_axis(first, order, np.take_along_axis(order, head, axis=1), axis=1)
    return first

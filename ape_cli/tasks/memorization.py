"""The task `memorization`: the value of each key, by a map that is the same in all rows.

Source: memorization of MAD; Poli et al. 2024, "Mechanistic Design and Scaling of Hybrid Architectures",
arXiv:2403.17844; github.com/athms/mad-lab, commit 0f49a45, `mad/data/instances.py`. The default map is the published
one.

Deviation: models read an EOS before the sequence.

Shapes: R rows, P pairs of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ape_cli.core import rng
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL, PAD
from ape_cli.tasks import Source, Tokens, check_whole, option
from ape_cli.tasks._sized import Sized
from ape_cli.tasks._task import of_one_length


@dataclass(frozen=True, kw_only=True)
class Memorization(Sized):
    """Recall the value of each key from the weights of the model.

    The source is a sequence of keys, drawn uniformly with replacement, each followed by `insert`. The tag of `insert`
    is the value of the key. Each key has its own value, which `map_seed` decides and no source contains. The map is the
    same in all rows and splits. Models read each row once, from left to right.

    The size of a source is the published length. If it is odd, the source has a token less. A table of values by key is
    always right, and a guess is right in 1 of `keys` tags.

    >>> task = Memorization(length=6)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> " ".join(task.id_names[i] for i in row["source_ids"])
    'k80 insert k100 insert k117 insert'
    >>> " ".join(task.id_names[i].strip("<>") for i in row["target_ids"])
    'pad v124 pad v46 pad v10'
    """

    structure = "seq"
    summary = "the value of each key, by a fixed map: k4 insert k7 insert -> v9 v2"
    source = "Poli et al. 2024, arXiv:2403.17844"
    extent = "length"
    answer_options = ("map_seed",)
    tagged = causal = True
    preset_options: ClassVar = {"small": {"length": 16, "keys": 32, "values": 32}, "tiny": {"length": 8}}

    length: int = option(32, "Number of tokens: of keys and `insert` symbols.")
    keys: int = option(127, "Number of keys.", between=(1, 30_000))
    values: int = option(128, "Number of symbols for values, at least one for each key.", between=(1, 30_000))
    map_seed: int = option(12_345, "Seed of the map.", between=(0, 2**63 - 1))

    limits = (2, 60_000, "")

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range."""
        super().check()
        check_whole("keys", self.keys, 1, self.values)

    @cached_property
    def value_of(self) -> I64:
        """The number of the value of each key, int64 [`keys`]. It is drawn as the source draws it, with numpy."""
        generator = np.random.default_rng(self.map_seed)
        shuffled = generator.permutation(self.keys)
        values: I64 = generator.permutation(self.values)[: self.keys][np.argsort(shuffled)]
        return values

    def draw(self, key: U64) -> Source:
        """Draw keys for each key of a stream. uint64 [R] -> `Source` of R rows of 2P tokens"""
        pairs = np.arange(self.length // 2)
        keys = rng.below(rng.bits(rng.child(key, "keys")[:, None], pairs), self.keys)  # [R, P]
        symbol = np.stack([keys, np.full(keys.shape, self.keys + self.values)], axis=2)
        return of_one_length(symbol.reshape(key.size, 2 * pairs.size), self.length)

    def target(self, source: Source) -> Tokens:
        """The target of each source: the values of its keys, as tags of the `insert` symbols."""
        key = source.symbol[::2] - FIRST_SYMBOL
        tags = np.full(source.symbol.size, PAD)
        tags[1::2] = FIRST_SYMBOL + self.keys + self.value_of[key]
        return Tokens(source.offsets, source.position, tags)

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: keys k0, k1, …, values v0, v1, … and `insert`."""
        return [*(f"k{i}" for i in range(self.keys)), *(f"v{i}" for i in range(self.values)), "insert"]

    def expected_tokens(self) -> float:
        """The number of tokens of a source, and of its tags."""
        return float(self.length // 2 * 2)

"""The task `modular`: the parity of a bit string, or the value of an expression modulo n.

Source: the tasks "parity check", "modular arithmetic (simple)" and "modular arithmetic with brackets" of Deletang et
al. 2023, "Neural Networks and the Chomsky Hierarchy" (arXiv:2207.02098). The first two languages are regular; the third
is context-free.

Deviations: `kind=arithmetic` is our form of the task with brackets. Its sizes are numbers of digits, no digit has a
sign or brackets of its own, and the place of the outermost operator is uniform over digits instead of tokens.
`kind=brackets` is the published form. By default, lengths are normally distributed; the published ones are uniform
(`--sizes 1-40`).

Shapes: R rows, T tokens in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._expressions import MINUS, SIGNS, TIMES, evaluate, random_expressions
from ape_cli.tasks._words import Sequences, random_words, single_tokens

_KINDS = ("arithmetic", "parity", "simple", "brackets")


@dataclass(frozen=True, kw_only=True)
class Modular(Sequences):
    """Compute a number modulo n from a string of bits or digits. The target is a single symbol.

    - `kind=arithmetic`: the source is a fully bracketed expression of the digits $0..n-1$ with `+`, `-` and `*`. The
      target is its value modulo $n$. An expression of $m$ digits has $4m - 3$ tokens. The number of digits to the left
      of the outermost operator is drawn uniformly from $1..m-1$, and likewise for each operation inside it. Values are
      not uniform, because products with 0 are 0: modulo 5, 31% of them are 0, and 44% at preset `small`.
    - `kind=parity`: the source is a string of bits. The target is `1` if the number of ones is odd, else `0`.
    - `kind=simple`: the source alternates digits and `+`, `-` and `*`, drawn uniformly. The target is its value, and
      `*` binds more strongly than `+` and `-`. The size is the length asked for: an even one gives one token less, as
      in the published program. At length 5, 23% of the values are 0; at lengths 1 to 40, 21% on average.
    - `kind=brackets`: one to four tokens are `d`, `-d`, `(d)` or `(-d)` with a digit d. A longer expression is `(x+y)`,
      `(x-y)` or `(x*y)`. The length of x is drawn uniformly from 1 to the length minus 4, and likewise inside it. The
      size is the length in tokens. At lengths 1 to 40, 27% of the values are 0, and 30% at length 100.

    Raises `UsageError` if an option is out of range, or if a modulus is given for parity.

    >>> task = Modular(length_mean=4, length_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> "".join(task.id_names[i] for i in row["source_ids"]), task.id_names[row["target_ids"][0]]
    ('(((0+0)+3)*2)', '1')
    """

    answer_options = ("kind", "modulus")
    form_options = ("kind", "modulus")
    summary = "the value of an expression modulo 5, or the parity of bits: ((1-3)*2) -> 1"
    source = "Deletang et al. 2023, arXiv:2207.02098"
    size_words = ("size", "digits or tokens of the source")
    preset_options: ClassVar = {
        "small": {"length_mean": 5.0, "length_std": 0.5, "modulus": 3},
        "tiny": {"length_mean": 3.0, "length_std": 0.5},
    }

    length_mean: float = option(40.0, "Mean length in tokens; for arithmetic, mean number of digits.")
    length_std: float = option(4.0, "Standard deviation of the length.")
    problem: str = option("arithmetic", "Problem: arithmetic, parity, simple or brackets.", name="kind", among=_KINDS)
    modulus: int = option(5, "Modulus of expressions.", between=(2, 1000))

    @classmethod
    def refuse(cls, options: Mapping[str, Any]) -> None:
        """Check given options. Raises `UsageError` if sizes contradict them, or if parity has a modulus."""
        super().refuse(options)
        if options.get("kind") == "parity" and "modulus" in options:
            raise UsageError("parity has the modulus 2", got=options["modulus"], fix="leave `modulus` out")

    @property
    def parameters(self) -> dict[str, Any]:
        """The options, as the manifest keeps them. Parity has no modulus."""
        return {k: v for k, v in super().parameters.items() if k != "modulus" or self.problem != "parity"}

    @property
    def limits(self) -> tuple[int, int, str]:
        """The smallest and the largest size of the options, and a reason for the largest."""
        return (1, 10_000, " (digits of an expression)") if self.problem == "arithmetic" else (1, 60_000, "")

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the bits, or the digits and then the signs."""
        if self.problem == "parity":
            return ["0", "1"]
        return [*map(str, range(self.modulus)), *(SIGNS[:3] if self.problem == "simple" else SIGNS)]

    def draw(self, key: U64) -> Source:
        """Draw one bit string or expression for each key. uint64 [R] -> `Source` of R rows"""
        if self.problem == "parity":
            return random_words(key, self.length_mean, self.length_std, 2)
        size, stream = self.draw_sizes(key), rng.child(key, "symbols")
        if self.problem == "simple":
            offsets = ragged.offsets_of(size - 1 + size % 2)
            index = ragged.indices_of(offsets)
            word = rng.bits(np.repeat(stream, np.diff(offsets)), index)
            symbol = np.where(index % 2, self.modulus + rng.below(word, 3), rng.below(word, self.modulus))
        elif self.problem == "arithmetic":
            offsets, symbol = random_expressions(stream, 4 * size - 3, self.modulus, step=4)
        else:
            offsets, symbol = random_expressions(stream, size, self.modulus)
        return Source(offsets, ragged.indices_of(offsets), FIRST_SYMBOL + symbol, size)

    def target(self, source: Source) -> Tokens:
        """The target of each source: its parity, or its value modulo n."""
        symbol = source.symbol - FIRST_SYMBOL
        if self.problem == "parity":
            value = np.bitwise_xor.reduceat(symbol, source.offsets[:-1])
        else:
            value = (_simple if self.problem == "simple" else evaluate)(source.offsets, symbol, self.modulus)
        return single_tokens(FIRST_SYMBOL + value)

    def expected_tokens(self) -> float:
        """The mean number of symbols: 4m - 3 of m digits, one less than an even length of `simple`, else the size."""
        if self.problem == "simple":
            return self.expected(lambda size: size - 1 + size % 2)
        return 4 * self.length_mean - 3 if self.problem == "arithmetic" else self.length_mean


def _simple(offsets: I64, symbol: I64, modulus: int) -> I64:
    """The values of expressions without brackets. int64 [R+1], int64 [T] -> int64 [R]

    They are read from left to right. `product` is the term that is not yet in the sum, with its sign.
    """
    begin, count = offsets[:-1], np.diff(offsets) // 2  # the first digit of each row, and its number of operators
    total, product = np.zeros_like(begin), symbol[begin]
    for index in range(int(count.max(initial=0))):
        row = np.flatnonzero(count > index)
        sign, digit = (symbol[begin[row] + 2 * index + place] for place in (1, 2))
        binds = sign == modulus + TIMES
        total[row] += np.where(binds, 0, product[row])
        product[row] = np.where(binds, product[row], np.where(sign == modulus + MINUS, -1, 1)) * digit % modulus
    return (total + product) % modulus

"""The task `modular`: the parity of a bit string, or the value of an expression modulo n.

Source: the tasks "parity check" and "modular arithmetic with brackets" of Deletang et al. 2023, "Neural Networks and
the Chomsky Hierarchy" (arXiv:2207.02098). The first language is regular; the second is context-free.

Deviations: every operation is bracketed, there are no unary signs, and lengths are drawn from a normal distribution.

Shapes: R rows, T tokens in all, P open parts of all expressions.
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
from ape_cli.tasks._words import Sequences, random_words

_SIGNS = ["+", "-", "*", "(", ")"]  # their ids follow those of the digits, in this order
PLUS, MINUS, TIMES, OPEN, CLOSE = range(5)


@dataclass(frozen=True, kw_only=True)
class Modular(Sequences):
    """Compute a number modulo n from a string of bits or digits. The target is a single symbol.

    - `kind=arithmetic`: the source is a fully bracketed expression of the digits $0..n-1$ with `+`, `-` and `*`. The
      target is its value modulo $n$. An expression of $m$ digits has $4m - 3$ tokens. The number of digits to the left
      of the outermost operator is drawn uniformly from $1..m-1$, and likewise for each operation inside it. Values are
      not uniform, because products with 0 are 0: modulo 5, 31% of them are 0, and 44% at preset `small`.
    - `kind=parity`: the source is a string of bits. The target is `1` if the number of ones is odd, else `0`.

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
    size_words = ("digits", "digits or bits of the source")
    preset_options: ClassVar = {
        "small": {"length_mean": 5.0, "length_std": 0.5, "modulus": 3},
        "tiny": {"length_mean": 3.0, "length_std": 0.5},
    }

    length_mean: float = option(40.0, "Mean number of bits, or of digits in an expression.")
    length_std: float = option(4.0, "Standard deviation of the length.")
    problem: str = option("arithmetic", "Problem: arithmetic or parity.", name="kind", among=("arithmetic", "parity"))
    modulus: int = option(5, "Modulus of arithmetic.", between=(2, 1000))

    @classmethod
    def refuse(cls, options: Mapping[str, Any]) -> None:
        """Check given options. Raises `UsageError` if sizes contradict them, or if parity has a modulus."""
        super().refuse(options)
        if options.get("kind") == "parity" and "modulus" in options:
            raise UsageError("parity has the modulus 2", got=options["modulus"], fix="leave `modulus` out")

    @property
    def parameters(self) -> dict[str, Any]:
        """The options, as the manifest keeps them. Parity has no modulus."""
        return {k: v for k, v in super().parameters.items() if k != "modulus" or self.problem == "arithmetic"}

    @property
    def limits(self) -> tuple[int, int, str]:
        """The smallest and the largest length of the options, and a reason for the largest."""
        return (1, 60_000, "") if self.problem == "parity" else (1, 10_000, " (digits of an expression)")

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the bits, or the digits and then the signs."""
        return ["0", "1"] if self.problem == "parity" else [*map(str, range(self.modulus)), *_SIGNS]

    def draw(self, key: U64) -> Source:
        """Draw one bit string or expression for each key. uint64 [R] -> `Source` of R rows"""
        if self.problem == "parity":
            return random_words(key, self.length_mean, self.length_std, 2)
        digits = self.draw_sizes(key)
        offsets = ragged.offsets_of(4 * digits - 3)
        symbol = np.empty(offsets[-1], dtype=np.int64)
        # The open parts of all expressions: where each begins, its number of digits, and the key of its row.
        begin, count, stream = offsets[:-1], digits, rng.child(key, "symbols")
        offset = np.zeros_like(begin)  # of the beginning in its own expression, the address of random numbers
        while begin.size:
            word = rng.bits(stream, offset)
            whole = count == 1
            symbol[begin[whole]] = rng.below(word[whole], self.modulus)
            begin, count, stream, offset, word = (x[~whole] for x in (begin, count, stream, offset, word))
            left = 1 + rng.below(word, count - 1)
            sign = begin + 4 * left - 2  # the place of the operator, after a bracket and 4 * left - 3 tokens
            end = begin + 4 * count - 4
            symbol[begin], symbol[end] = self.modulus + OPEN, self.modulus + CLOSE
            symbol[sign] = self.modulus + rng.below(rng.bits(word, np.array(1)), 3)
            begin, count = np.concatenate([begin + 1, sign + 1]), np.concatenate([left, count - left])
            offset = np.concatenate([offset + 1, offset + 4 * left - 1])
            stream = np.concatenate([stream, stream])
        return Source(offsets, ragged.indices_of(offsets), FIRST_SYMBOL + symbol, digits)

    def target(self, source: Source) -> Tokens:
        """The target of each source: its parity, or its value modulo n."""
        symbol, rows = source.symbol - FIRST_SYMBOL, source.size.size
        if self.problem == "parity":
            value = np.bitwise_xor.reduceat(symbol, source.offsets[:-1])
        else:
            value = _evaluate(symbol, self.modulus)
        return Tokens(np.arange(rows + 1), np.zeros(rows, dtype=np.int64), FIRST_SYMBOL + value)

    def expected_tokens(self) -> float:
        """The mean number of symbols: of m bits it is m, and of an expression of m digits 4m - 3."""
        return self.length_mean if self.problem == "parity" else 4 * self.length_mean - 3


def _evaluate(symbol: I64, modulus: int) -> I64:
    """The values of expressions in which every operation has brackets. int64 [T] -> int64 [R]

    `symbol` has 0..n-1 for digits, then n + `PLUS` and so on. In each round, every operation on two digits is replaced
    by its value: no other part of an expression has brackets around three symbols.
    """
    while (opening := np.flatnonzero((symbol[:-4] == modulus + OPEN) & (symbol[4:] == modulus + CLOSE))).size:
        x, sign, y = (symbol[opening + offset] for offset in (1, 2, 3))
        symbol[opening] = np.choose(sign - modulus, [x + y, x - y, x * y]) % modulus
        symbol = np.delete(symbol, (opening[:, None] + np.arange(1, 5)).ravel())
    return symbol

"""The task `solve-equation`: the value of the unknown x in an equation modulo n.

Source: the task "solve equation" of Deletang et al. 2023, "Neural Networks and the Chomsky Hierarchy"
(arXiv:2207.02098). The language is deterministic context-free.

Deviation: by default, lengths are normally distributed; the published ones are uniform (`--sizes 1-40`).

Shapes: R rows, E rows with an equation, T tokens in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._expressions import CLOSE, MINUS, SIGNS, TIMES, evaluate, random_expressions
from ape_cli.tasks._words import SingleAnswer, single_tokens

_UNKNOWN, _EQUALS = CLOSE + 1, CLOSE + 2  # these follow the signs of expressions; `TIMES` does not occur


@dataclass(frozen=True, kw_only=True)
class SolveEquation(SingleAnswer):
    """Find the unknown in an equation modulo n. The target is a single digit.

    The source is an expression of `modular kind=brackets` without `*`, in which `x` replaces a digit, followed by `=`
    and its value. The digit is the next one after a place that is drawn uniformly; after the end, the search goes on
    from the beginning. The size of a source is its number of tokens. Equations have three tokens or more. As in the
    published program, a source of one or two tokens is `0` or `0 0`, and its target is `0`.

    The expression is linear in x with the coefficient 1 or -1, so every equation has one solution. Solutions are
    uniform: each answer is right in a fifth of the equations modulo 5. At lengths 1 to 40, `0` is right in 24% of the
    rows, because of those without an equation.

    >>> task = SolveEquation(length_mean=12, length_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> "".join(task.id_names[i] for i in row["source_ids"]), task.id_names[row["target_ids"][0]]
    ('((x+0)--3)=0', '2')
    """

    answer_options = ("modulus",)
    form_options = ("modulus",)
    summary = "the unknown in an equation modulo 5: (-2-(x+4))=0 -> 4"
    source = "Deletang et al. 2023, arXiv:2207.02098"

    modulus: int = option(5, "Modulus of the equation.", between=(2, 1000))

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the digits, then the signs."""
        return [*map(str, range(self.modulus)), *SIGNS[:TIMES], *SIGNS[TIMES + 1 :], "x", "="]

    def draw(self, key: U64) -> Source:
        """Draw an equation for each key. uint64 [R] -> `Source` of R rows"""
        size = self.draw_sizes(key)
        offsets = ragged.offsets_of(size)
        index, symbol = ragged.indices_of(offsets), np.zeros(offsets[-1], dtype=np.int64)
        row = np.flatnonzero(size > 2)  # [E]
        end, key, length = offsets[row + 1], key[row], size[row] - 2
        cut, expression = random_expressions(rng.child(key, "symbols"), length, self.modulus, operators=2)
        symbol[end - 2], symbol[end - 1] = self.modulus + _EQUALS, evaluate(cut, expression, self.modulus)
        digit = np.append(np.flatnonzero(expression < self.modulus), cut[-1])
        place = cut[:-1] + rng.below(rng.child(key, "unknown"), length)
        first, after = (digit[np.searchsorted(digit, start)] for start in (cut[:-1], place))
        expression[np.where(after < cut[1:], after, first)] = self.modulus + _UNKNOWN
        symbol[index < np.repeat(size - 2, size)] = expression
        symbol -= symbol > self.modulus + TIMES
        return Source(offsets, index, FIRST_SYMBOL + symbol, size)

    def target(self, source: Source) -> Tokens:
        """The target of each source: the solution, from the values of the expression at x = 0 and x = 1."""
        symbol, size = source.symbol - FIRST_SYMBOL, np.diff(source.offsets)
        symbol += symbol > self.modulus + MINUS
        row = np.flatnonzero(size > 2)
        cut, expression = ragged.offsets_of(size[row] - 2), symbol[source.position < np.repeat(size - 2, size)]
        unknown = expression == self.modulus + _UNKNOWN
        zero, one = (evaluate(cut, np.where(unknown, x, expression), self.modulus) for x in (0, 1))
        solution = np.zeros_like(size)
        solution[row] = (symbol[source.offsets[row + 1] - 1] - zero) * (one - zero) % self.modulus
        return single_tokens(FIRST_SYMBOL + solution)

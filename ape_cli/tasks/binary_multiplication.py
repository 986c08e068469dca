"""The task `binary-multiplication`: the target is the product of two binary numbers.

Source: the task "binary multiplication" of Deletang et al. 2023, "Neural Networks and the Chomsky Hierarchy"
(arXiv:2207.02098).

Deviations: EOS takes the place of the termination token and of the padding after it. By default, lengths are normally
distributed; the published ones are uniform (`--sizes 1-40`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._binary import BinaryOperation, tokens


@dataclass(frozen=True, kw_only=True)
class BinaryMultiplication(BinaryOperation):
    """Multiply two binary numbers, written with the least significant bit first.

    Sources are those of `binary-addition`, with another sign. The product has no leading zeros. For the sources of
    length 1 and 2, which have no sign, the targets are those of the published program: empty, and `0`.

    The longer factor is the product in 18% of the rows of length 20 and in 8% at length 40, because the other factor is
    1. It has 51% and 44% of the tokens right.

    >>> task = BinaryMultiplication(length_mean=9, length_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> "".join(task.id_names[i] for i in row["source_ids"]), "".join(task.id_names[i] for i in row["target_ids"])
    ('0110*1001', '011011')
    """

    summary = "the product of two binary numbers, least significant bit first: 001*01101 -> 0001101"
    sign = "*"

    def target(self, source: Source) -> Tokens:
        """The target of each source: the product without leading zeros."""
        return tokens([x * y for x, y in self.numbers(source)], np.minimum(np.diff(source.offsets) - 1, 1))

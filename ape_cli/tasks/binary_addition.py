"""The task `binary-addition`: the target is the sum of two binary numbers.

Source: the task "binary addition" of Deletang et al. 2023, "Neural Networks and the Chomsky Hierarchy"
(arXiv:2207.02098).

Deviations: EOS takes the place of the termination token and of the padding after it. By default, lengths are normally
distributed; the published ones are uniform (`--sizes 1-40`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._binary import BinaryOperation, tokens


@dataclass(frozen=True, kw_only=True)
class BinaryAddition(BinaryOperation):
    """Add two binary numbers, written with the least significant bit first.

    The size of a source is its length, which the two numbers share: the sign is equally likely at each place except the
    first and the last. A number of $w$ bits is uniform on $1..2^w - 1$, so it may have leading zeros. The sum has none.
    Sources of length 1 or 2 have no sign. They are `0`; or `00`, `10` or `01`. The target is their value.

    A guesser that adds without carries is right in 80% of the tokens and 24% of the rows of length 20, and in 82% and
    13% at length 40, because few bits meet where one number is short.

    `addition --base 2 --reverse` draws the number of digits of both numbers independently and excludes leading zeros.

    >>> task = BinaryAddition(length_mean=9, length_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> "".join(task.id_names[i] for i in row["source_ids"]), "".join(task.id_names[i] for i in row["target_ids"])
    ('0110+1001', '1111')
    """

    summary = "the sum of two binary numbers, least significant bit first: 001+01101 -> 01011"
    sign = "+"

    def target(self, source: Source) -> Tokens:
        """The target of each source: the sum without leading zeros."""
        return tokens([x + y for x, y in self.numbers(source)])

"""The task `reverse`: the target is the word in reverse order."""

from __future__ import annotations

from dataclasses import dataclass

from ape_cli.core import ragged
from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._words import Words


@dataclass(frozen=True, kw_only=True)
class Reverse(Words):
    """Reverse a word.

    >>> row = Reverse(length_mean=8).sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> row["source_ids"][::-1] == row["target_ids"]
    True
    """

    summary = "the word backwards: abcd -> dcba"
    default_for = "seq"

    def target(self, source: Source) -> Tokens:
        """The target of each source: the word in reverse order."""
        return Tokens(source.offsets, source.position, source.symbol[ragged.backwards(source.offsets)])

"""The task `copy`: the target is the word itself."""

from __future__ import annotations

from dataclasses import dataclass

from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._words import Words


@dataclass(frozen=True, kw_only=True)
class Copy(Words):
    """Copy a word.

    >>> row = Copy(length_mean=8).sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> row["source_ids"] == row["target_ids"]
    True
    """

    summary = "the word itself: abca -> abca"

    def target(self, source: Source) -> Tokens:
        """The target of each source: the same word."""
        return Tokens(source.offsets, source.position, source.symbol)

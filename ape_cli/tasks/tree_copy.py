"""The task `tree-copy`: the target is the tree itself."""

from __future__ import annotations

from dataclasses import dataclass

from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._trees import PlainTrees


@dataclass(frozen=True, kw_only=True)
class TreeCopy(PlainTrees):
    """Copy a tree.

    >>> row = TreeCopy(depth_mean=2).sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> row["source_ids"] == row["target_ids"], row["source_positions"] == row["target_positions"]
    (True, True)
    """

    summary = "the tree itself"

    def target(self, source: Source) -> Tokens:
        """The target of each source: the same tree."""
        return Tokens(source.offsets, source.position, source.symbol)

"""The task `tree_convert`: a tree is written in one notation, and the target is the same tree in another one.

Shapes: R rows, T nodes in all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from ape_cli.core import ragged
from ape_cli.core.errors import pick
from ape_cli.core.rng import U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.structure import trees
from ape_cli.tasks import Rows, Source, Tokens, option
from ape_cli.tasks._notations import CLOSING, NOTATIONS, OPENING, written
from ape_cli.tasks._sized import Sized, over_sizes
from ape_cli.tasks.tree_copy import TreeCopy


@dataclass(frozen=True, kw_only=True)
class TreeConvert(Sized):
    """Convert a tree from one notation to another. Both are plain sequences, from which the tree has to be inferred.

    The trees are those of `tree-copy`. The notations are `prefix`, `postfix`, `infix` with brackets, and `level`
    (`_notations.py`). Each can be read without positions. Positions are those of a sequence, so schemes for sequences
    are compared on hierarchical data; schemes for trees cannot read it. If both notations are the same, the task is to
    copy a sequence. The task is ours.

    The split of a row is decided by its tree, so no tree is in two splits, in whichever notations. The size of a source
    is the depth of its tree.

    Arguments: `depth_mean` and `depth_std`, of the distribution of depths, in levels; `branching`, the number of
    children of an inner node; `vocabulary`, the number of symbols, brackets not counted; `from` and `to`,
    the notations of source and target (`source_notation` and `target_notation` in Python). Raises `UsageError` if an
    option is out of range or if the trees would be too large.

    >>> task = TreeConvert(depth_mean=2, depth_std=0, target_notation="infix")
    >>> row = task.sample(rows=range(1), split="train", seed=2).to_pylist()[0]
    >>> " ".join(task.id_names[i] for i in row["source_ids"])
    'f3 x3 f1 x5 x2'
    >>> " ".join(task.id_names[i] for i in row["target_ids"])
    '( x3 f3 ( x5 f1 x2 ) )'
    """

    structure = "seq"
    summary = "a tree from one notation to another: f x g y z -> x y z g f"
    source = "ours; the trees of Algebraic Positional Encodings, section 4.1"
    extent: ClassVar[str] = "depth"
    size_words = ("depth", "depth of the tree that the source writes, steps from the root")
    answer_options = ("from", "to")
    form_options = ("branching", "from", "to")

    depth_mean: float = option(7.0, "Mean depth of a tree, in levels.")
    depth_std: float = option(1.0, "Standard deviation of the depth.")
    branching: int = option(2, "Number of children of an inner node.")
    vocabulary: int = option(20, "Number of symbols.")
    source_notation: str = option(
        "prefix", "Notation of the source: prefix, postfix, infix (with brackets) or level.", name="from"
    )
    target_notation: str = option("postfix", "Notation of the target: the same choices.", name="to")

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range or if the trees would be too large."""
        for name, value in (("from", self.source_notation), ("to", self.target_notation)):
            pick(f"notation --{name}", value, NOTATIONS)
        _ = self._trees  # its constructor checks the other options

    @cached_property
    def _trees(self) -> TreeCopy:
        """The task that draws the trees. Raises `UsageError` if an option is out of range."""
        return TreeCopy(
            depth_mean=self.depth_mean,
            depth_std=self.depth_std,
            branching=self.branching,
            vocabulary=self.vocabulary,
        )

    @property
    def limits(self) -> tuple[int, int, str]:
        """The smallest and the largest depth that can be drawn, and the reason for the largest."""
        return self._trees.limits

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: leaf symbols, operators, and brackets if they are written."""
        brackets = ["(", ")"] if "infix" in (self.source_notation, self.target_notation) else []
        return [*self._trees.symbols(), *brackets]

    @property
    @over_sizes
    def mean_tokens(self) -> float:
        """The expected number of symbols of a source."""
        return self._mean_length(self.source_notation)

    @property
    @over_sizes
    def mean_answer_tokens(self) -> float:
        """The expected number of symbols of a target."""
        return self._mean_length(self.target_notation)

    def _mean_length(self, notation: str) -> float:
        """The expected number of symbols of a tree: its nodes and its brackets."""
        nodes = self.expected(lambda depth: trees.mean_nodes(depth, self.branching))
        return nodes + 2 * (nodes - 1) / self.branching if notation == "infix" else nodes

    def draw(self, key: U64) -> Source:
        """Draw one tree for each key, with heap indices, in level order. uint64 [R] -> `Source` of R rows"""
        return self._trees.draw(key)

    def answer(self, source: Source) -> Tokens:
        """The tree of each source, with heap indices, in level order. `store` writes it in the target's notation."""
        return self._trees.answer(source)

    def store(self, rows: Rows) -> Rows:
        """The rows as the dataset holds them: sources in one notation, all others in the other notation."""
        notation = self.source_notation if isinstance(rows, Source) else self.target_notation
        starts, node = written(rows.starts, rows.position, notation, self.branching)
        names = FIRST_SYMBOL + self._trees.leaves + self._trees.operators  # brackets follow
        symbol = rows.symbol[node]
        symbol[node == OPENING], symbol[node == CLOSING] = names, names + 1
        changes: dict[str, Any] = {"starts": starts, "symbol": symbol}
        return replace(rows, position=ragged.places_of(starts), **changes)

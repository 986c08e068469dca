"""The task `group-word`: the product of a word of elements of a finite group.

The model has to track a state: the product so far. Its difficulty depends on the group (Merrill, Petty and Sabharwal
2024, arXiv:2404.08819; Liu et al. 2023, arXiv:2210.10749). For a group that is not solvable, such as `alternating-5`,
no transformer of fixed depth can solve the task at every length, unless TC0 = NC1.

Shapes: R rows, T elements of all words together, N elements of the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any, ClassVar

import numpy as np

from ape_cli.core.errors import DataError, UsageError
from ape_cli.core.rng import U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens, _groups, option
from ape_cli.tasks._groups import Group
from ape_cli.tasks._words import Sequences, random_words


@dataclass(frozen=True, kw_only=True)
class GroupWord(Sequences):
    """Multiply the elements of a word, from left to right.

    The elements are drawn uniformly. `answers` selects the target:

    - `tags`: the product of each prefix, as a tag of its last symbol. Tag $i$ is the product of the source symbols
      $0..i$. The decoder reads the source and never an earlier answer. This is the state tracking of Merrill et al.
    - `prefixes`: the same products, written one after the other. Under teacher forcing the decoder reads the previous
      product, so each answer is a single multiplication: a lookup table of (previous product, symbol) is enough.
    - `product`: only the product of the whole word, a single symbol.

    A group has a name (see `_groups.py`), or is defined by a multiplication table in a file. The manifest stores the
    name of the file and the digest of the table. With `sha256`, a file with a different table is refused.

    Raises `UsageError` if an option is out of range, and `DataError` if the file does not contain the table of a group.

    >>> task = GroupWord(group="symmetric-3", length_mean=4, length_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=2).to_pylist()[0]
    >>> [task.id_names[i] for i in row["source_ids"]]
    ['(1 2)', '(0 1)', '(0 1 2)', '(0 1 2)']
    >>> [task.id_names[i] for i in row["target_ids"]]
    ['(1 2)', '(0 1 2)', '(0 2 1)', '()']
    """

    answer_options = ("group", "sha256", "answers")
    form_options = ("group", "answers")
    summary = "the product of a word over a finite group: (1 2) (0 1) -> (0 1 2)"
    source = "Merrill et al. 2024, arXiv:2404.08819; Liu et al. 2023, arXiv:2210.10749"
    preset_options: ClassVar = {
        "small": {"length_mean": 8.0, "length_std": 1.0},  # what 800 steps can learn of the smallest groups
        "tiny": {"group": "symmetric-3"},
    }

    group: str = option(
        "alternating-5", "Group: cyclic-N, dihedral-N, symmetric-N, alternating-N, or a file with its table."
    )
    answers: str = option(
        "tags",
        "Target: tags (the product so far, at each symbol), prefixes (one after the other) or product.",
        among=("tags", "prefixes", "product"),
    )
    sha256: str | None = option(None, "Expected SHA-256 of the group's table, if it is in a file.", late=True)

    def __post_init__(self) -> None:
        """Check the options. Raises `UsageError` if one is bad, and `DataError` if a file is not a group's table."""
        super().__post_init__()
        if not _groups.is_file(self.group):
            _groups.named(self.group)
            if self.sha256 is not None:
                raise UsageError("only a group in a file has a digest", got=self.group, fix="leave sha256 out")
        elif self.sha256 is None:
            _ = self.elements

    @cached_property
    def elements(self) -> Group:
        """The group. Raises `DataError` if its file cannot be read, or has another table than the one of `sha256`."""
        if not _groups.is_file(self.group):
            return _groups.named(self.group)()
        group = _groups.read_group(self.group)
        if self.sha256 not in (None, group.sha256):
            allowed = f"sha256 {self.sha256}"
            raise DataError(f"{self.group} has another table", got=f"sha256 {group.sha256}", allowed=allowed)
        return group

    @property
    def parameters(self) -> dict[str, Any]:
        """The options, as the manifest keeps them: a file by its name and the digest of its table."""
        parameters = super().parameters
        if _groups.is_file(self.group):
            parameters |= {"group": f"./{PurePath(self.group).name}", "sha256": self.elements.sha256}
        return parameters

    @property
    def tagged(self) -> bool:
        """Whether the products are tags of the source."""
        return self.answers == "tags"

    limits = (1, 60_000, "")

    def symbols(self) -> list[str]:
        """The names of the group's elements, which have the ids from 3 on."""
        return self.elements.names

    def draw(self, key: U64) -> Source:
        """Draw one word for each key. uint64 [R] -> `Source` of R rows"""
        return random_words(key, self.length_mean, self.length_std, len(self.elements.names))

    def target(self, source: Source) -> Tokens:
        """The target of each source: the products of all prefixes, or of the last one."""
        products = self.elements.products
        element = source.symbol - FIRST_SYMBOL
        state = element[source.offsets[:-1]]  # [R], the product so far
        symbol = element.copy()  # [T], of all prefixes
        for index in range(1, int(source.size.max(initial=1))):
            row = np.flatnonzero(source.size > index)
            here = source.offsets[row] + index
            state[row] = symbol[here] = products[state[row], element[here]]
        symbol += FIRST_SYMBOL
        if self.answers != "product":
            return Tokens(source.offsets, source.position, symbol)
        rows = np.arange(source.size.size + 1)
        return Tokens(rows, np.zeros(rows.size - 1, dtype=np.int64), symbol[source.offsets[1:] - 1])

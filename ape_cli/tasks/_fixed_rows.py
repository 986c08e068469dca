"""The base class of tasks whose rows are not drawn: they are those of a source of data.

Shapes: R rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Generic, Self, TypeVar

import pyarrow as pa

from ape_cli.core.errors import UsageError, pick
from ape_cli.core.vocabulary import SPLITS
from ape_cli.tasks._base import BaseTask, RowWriter


class SplitRows(RowWriter):
    """Some rows of one split, without the rest of the source."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of rows."""

    @abstractmethod
    def part(self, rows: range) -> Self:
        """Some of these rows. `rows` are row numbers of the split, one after the other."""


_Rows = TypeVar("_Rows", bound=SplitRows)


@dataclass(frozen=True, kw_only=True)
class FixedRows(BaseTask, Generic[_Rows]):
    """Base of the tasks whose rows are those of a source. Reading it may raise `DataError` or `UsageError`."""

    fixed_rows = True
    things: ClassVar[str]  # what the rows are, in the plural: `images`

    @abstractmethod
    def _split(self, seed: int) -> dict[str, _Rows]:
        """All rows of each split, in the order that the seed gives them."""

    @cached_property
    def _by_seed(self) -> dict[int, dict[str, _Rows]]:
        """The splits that `splits` has made, by seed."""
        return {}

    def splits(self, seed: int) -> dict[str, _Rows]:
        """All rows of each split, in the order that the seed gives them."""
        if seed not in self._by_seed:
            self._by_seed[seed] = self._split(seed)
        return self._by_seed[seed]

    def available(self, seed: int) -> dict[str, int]:
        """The number of rows that each split has."""
        return {split: part.count for split, part in self.splits(seed).items()}

    def rows(self, wanted: Mapping[str, int | None], seed: int) -> dict[str, int]:
        """The number of rows of each split; all that there are if None is wanted.

        Raises `UsageError` if more are wanted than there are.
        """
        there = self.available(seed)
        for split, count in wanted.items():
            if count is not None and count > there[split]:
                what = f"the source has not as many {self.things} for {split}"
                raise UsageError(what, got=count, allowed=f"at most {there[split]}", fix="leave it out for all")
        return {split: there[split] if count is None else count for split, count in wanted.items()}

    def portion(self, rows: range, split: str, seed: int) -> _Rows:
        """These rows of a split without the rest of the source. Raises `UsageError` for an unknown split."""
        return self.splits(seed)[pick("split", split, SPLITS)].part(rows)

    def sample_counted(self, *, rows: range, split: str, seed: int) -> tuple[pa.Table, int]:
        """These rows of a split, and how many of them are shared. Raises `UsageError` for an unknown split."""
        return self.splits(seed)[pick("split", split, SPLITS)].sample_counted(rows=rows, split=split, seed=seed)

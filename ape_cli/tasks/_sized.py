"""Tasks whose sources differ in size. Sizes are drawn from a discretised normal distribution, or listed in `sizes`.

With `sizes`, row r of a split has size number r modulo the number of sizes, in ascending order. A split with n rows of
each of s sizes therefore has n * s rows, and a smaller dataset is a prefix of a larger one. A source that belongs to
another split is drawn again at the same size, so every size has exactly the same number of rows. Sizes may be text with
ranges, such as `1-20,30`.

A size is the length of a word, the depth of a tree, or the height and width of a square grid. For a binarised tree it
is the depth before binarisation. A task of a fixed size has no distribution; its only option for the size is named
after the extent.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, ClassVar, Self

import numpy as np

from ape_cli.core import rng
from ape_cli.core.errors import UsageError, brief
from ape_cli.core.numbers import whole_numbers, without_gaps
from ape_cli.core.rng import I64, U64
from ape_cli.tasks._base import option
from ape_cli.tasks._task import Source, Task, join

_MAX_SIZES = 1000
_LONGEST = 80  # number of characters that the list of sizes may have in a folder's name


@dataclass(frozen=True, kw_only=True)
class Sized(Task):
    """Base of the tasks on words, trees and grids.

    `sizes` lists the sizes to draw, as numbers or as text such as `1-20,30`. If it is empty, sizes are drawn from a
    normal distribution with the options EXTENT_mean and EXTENT_std, in units of a size. A task whose sources all have
    the same size has an option EXTENT instead.

    Raises `UsageError` if an option is out of range, if a size is invalid or repeated, or if there are too many.
    """

    extent: ClassVar[str]  # length, depth, side and so on: names a size, and one or two options

    sizes: tuple[int, ...] = option((), "Sizes instead of a distribution: 1-20,30.", late=True)

    @property
    @abstractmethod
    def limits(self) -> tuple[int, int, str]:
        """The smallest and the largest size that can be drawn, and words that explain the largest in error messages."""

    @classmethod
    def replaced_by_sizes(cls) -> tuple[str, ...]:
        """The options that `sizes` replaces: the mean and the deviation of the distribution, or the one fixed size."""
        fixed = cls.extent in (item.name for item in dataclasses.fields(cls))
        return (cls.extent,) if fixed else (f"{cls.extent}_mean", f"{cls.extent}_std")

    @property
    def _distribution(self) -> tuple[float, float]:
        """The mean and the deviation of the distribution of sizes. One fixed size has no deviation."""
        mean, std = (*(getattr(self, name) for name in self.replaced_by_sizes()), 0.0)[:2]
        return mean, std

    @classmethod
    def refuse(cls, options: Mapping[str, Any]) -> None:
        """Check given options. Raises `UsageError` if `sizes` is given together with an option that it replaces."""
        both = " and ".join(f"`{name}`" for name in cls.replaced_by_sizes() if name in options)
        if both and options.get("sizes"):
            raise UsageError(f"`sizes` replaces {both}", got="both", fix=f"leave `sizes` out, or {both}")

    def __post_init__(self) -> None:
        """Check the options and sort `sizes`. Raises `UsageError` if an option is bad."""
        super().__post_init__()
        sizes: Any = self.sizes
        sizes = whole_numbers("sizes", sizes) if isinstance(sizes, str) else (sizes,) if type(sizes) is int else sizes
        whole = isinstance(sizes, tuple | list) and all(type(size) is int for size in sizes)
        if not whole or len(set(sizes)) < len(sizes) or len(sizes) > _MAX_SIZES:
            allowed = f"up to {_MAX_SIZES} different sizes, whole numbers"
            raise UsageError("bad sizes", got=brief(sizes), allowed=allowed, fix="give a list such as 1-20,30,40")
        object.__setattr__(self, "sizes", tuple(sorted(sizes)))
        if self.sizes:
            _ = self.parts  # the constructor of each checks it
        else:
            self.check()

    def check(self) -> None:
        """Check the options of a task without `sizes`. Raises `UsageError` if one is out of range."""
        low, high, why = self.limits
        check_normal(" and ".join(self.replaced_by_sizes()), *self._distribution, low, high, why)

    def draw_sizes(self, key: U64) -> I64:
        """Draw the sizes of sources. uint64 [R] -> int64 [R]"""
        low, high, _ = self.limits
        return rng.normal(rng.child(key, "size"), *self._distribution, low, high)

    def expected_size(self) -> float:
        """The mean size of the sources of a task without `sizes`. The default is the mean of the distribution."""
        return self._distribution[0]

    def expected_tokens(self) -> float:
        """The mean number of tokens of a source of a task without `sizes`. The default is the mean size."""
        return self.expected_size()

    def expected_target_tokens(self) -> float:
        """The mean number of tokens of a target of a task without `sizes`. The default is that of a source."""
        return self.expected_tokens()

    @property
    def mean_size(self) -> float:
        """The mean size of a source."""
        return fmean(part.expected_size() for part in self.parts)

    @property
    def mean_tokens(self) -> float:
        """The mean number of tokens of a source."""
        return fmean(part.expected_tokens() for part in self.parts)

    @property
    def mean_target_tokens(self) -> float:
        """The mean number of tokens of a target."""
        return fmean(part.expected_target_tokens() for part in self.parts)

    def expected(self, value: Callable[[int], float]) -> float:
        """The mean of a function of the size, over the distribution that sizes are drawn from."""
        low, high, _ = self.limits
        mean, std = self._distribution
        first, last = (min(max(math.floor(mean + side * std), low), high) for side in (-7, 7))
        last = min(last + 1, high)
        chances = rng.normal_chances(mean, std, first, last)
        return float(sum(chance * value(size) for size, chance in enumerate(chances.tolist(), first) if chance))

    @cached_property
    def parts(self) -> tuple[Self, ...]:
        """One task for each of the sizes; without `sizes`, the task itself. Raises `UsageError` for a bad size."""
        if not self.sizes:
            return (self,)
        replaced = self.replaced_by_sizes()
        values: list[tuple[Any, ...]] = [(size,) if len(replaced) == 1 else (float(size), 0.0) for size in self.sizes]
        return tuple(replace(self, sizes=(), **dict(zip(replaced, size, strict=True))) for size in values)

    @property
    def parameters(self) -> dict[str, Any]:
        """The options, as the manifest keeps them.

        Of the options for sizes, only those that are in use are included.
        """
        parameters = super().parameters
        if not self.sizes:
            return parameters
        return {k: v for k, v in parameters.items() if k not in self.replaced_by_sizes()} | {"sizes": list(self.sizes)}

    @property
    def title(self) -> str:
        """The name of the dataset's folder, with the sizes: `copy-sizes-1-20_30`. A long list is shortened."""
        ranges = (f"{low}-{high}" if low < high else f"{low}" for low, high in without_gaps(self.sizes))
        return self._titled("_".join(ranges))

    @property
    def former_title(self) -> str:
        """The name that earlier versions gave, in which each size is listed."""
        return self._titled("-".join(map(str, self.sizes)))

    def _titled(self, listed: str) -> str:
        """The name of the folder with a list of sizes. A long list is shortened to its ends and a hash."""
        if len(listed) > _LONGEST:
            digest = hashlib.sha256(listed.encode()).hexdigest()[:8]
            listed = f"{self.sizes[0]}-to-{self.sizes[-1]}-{digest}"
        return f"{super().title}-sizes-{listed}" if self.sizes else super().title

    def rows(self, counts: Mapping[str, int | None], seed: int) -> dict[str, int]:
        """The number of rows of each split. Given numbers are of each size; the default is a total, rounded up."""
        total, sizes = super().rows(dict.fromkeys(counts), seed), len(self.parts)
        return {k: sizes * (-(-total[k] // sizes) if count is None else count) for k, count in counts.items()}

    def sample_for_split(self, index: U64, split: str, seed: int) -> tuple[Source, int]:
        """See `Task.sample_for_split`. Each row is drawn by the task of its size."""
        if not self.sizes:
            return super().sample_for_split(index, split, seed)
        which = index % np.uint64(len(self.sizes))
        sources: list[Source] = []
        members, shared = [], 0
        for number, part in enumerate(self.parts):
            rows = np.flatnonzero(which == number)
            if rows.size:
                source, lent = part.sample_for_split(index[rows], split, seed)
                sources.append(source)
                members.append(rows)
                shared += lent
        return join(sources).take(np.argsort(np.concatenate(members))), shared


def check_normal(name: str, mean: float, std: float, minimum: int, maximum: int, why: str = "") -> None:
    """Check the mean and the deviation of numbers from `minimum` to `maximum`. `why` explains the largest one.

    Raises `UsageError` if the mean is too small, the deviation is negative, or the distribution reaches too far.
    """
    if not (minimum <= mean <= mean + 6 * std <= maximum and std >= 0):
        allowed = f"a mean from {minimum}, a deviation from 0, and mean + 6 std of at most {maximum}{why}"
        raise UsageError(f"bad {name}", got=f"mean {mean:g}, std {std:g}", allowed=allowed, fix="choose others")


def check_amount(what: str, amount: float, maximum: int) -> None:
    """Check the expected amount at mean + 4 std of the sizes. Raises `UsageError` if it is greater than `maximum`."""
    if amount > maximum:
        allowed = f"{maximum:,} at mean + 4 std"
        raise UsageError(f"too many {what}", got=f"{amount:,.0f}", allowed=allowed, fix="choose smaller sizes")

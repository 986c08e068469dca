"""Tasks: what a sample is. One file per task, found by its name; the file's stem is the task's name.

A task draws a source from a row's own random stream (`draw`) and answers it (`answer`); what is
common to all stands here: the order of a tree's nodes, and the split a source belongs to. The shared
halves of the word, tree and grid tasks are `_words.py`, `_trees.py` and `_grids.py`; `_sized.py` has their sizes.

A row is a function of (task, parameters, seed, split, row) alone. A hash of the source, which
knows no seed, says which split it may stand in, so that no source of one split is ever in another,
not even in another dataset of the task; a draw that belongs elsewhere is drawn again from the same
stream, size and all, so sizes that have few sources are rarer where a split may have few of them. A
size that is listed (`_sized.py`) is kept. Where the space is too small to be shared out (tiny words),
a row keeps its 512th draw, and is counted.

    >>> from ape_cli import tasks
    >>> task = tasks.make("reverse", length_mean=3, length_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> row["source_ids"], row["target_ids"]
    ([18, 18, 14], [14, 18, 18])
"""

from __future__ import annotations

import dataclasses
import pkgutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ape_cli.core import plugins, ragged, rng
from ape_cli.core.errors import UsageError, pick, unknown
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import SPECIAL, SPLITS
from ape_cli.storage import sequence_rows
from ape_cli.storage.image_rows import Moments
from ape_cli.structure import Structure, Tree, linearisation, parse_structure
from ape_cli.structure.linearisation import Order
from ape_cli.structure.trees import in_level_order, linearise
from ape_cli.tasks._rows import Rows, Source, Tokens, join

__all__ = ["LATE", "Rows", "Source", "Task", "Tokens", "check_whole", "join", "letters", "load", "make", "names"]

__path__ = pkgutil.extend_path(__path__, __name__)  # a folder ape_cli/tasks elsewhere on the path adds to these

_TRIES = 512
_AT_ONCE = 128  # draws that cost little more than a few
_SIXTEENTHS = {"train": 14, "validation": 1, "test": 1}  # of the hashes; each split's share
_ROWS = {"train": 10_000, "validation": 1_000, "test": 1_000}
LATE = {"late": True}  # metadata of options that manifests leave out at their default: older ones know none


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """Base of all tasks; the fields of a subclass are its options."""

    name: ClassVar[str]
    ordered: ClassVar[bool] = False  # whether there are linearisations to choose from: trees
    summary: ClassVar[str]  # a line for `ape tasks`
    source: ClassVar[str] = "Algebraic Positional Encodings, section 4.1"
    ops: ClassVar[list[str]] = []  # names for the `op` column
    image: ClassVar[None] = None  # its rows are no images
    origin: ClassVar[dict[str, str]] = {}  # its splits come from nowhere else
    why_shared: ClassVar[str] = "there are too few sources like theirs for each split to have its own"

    order: Order | None = None  # linearisation of the target, and of the source unless `source_order` is given
    source_order: Order | None = None  # linearisation of the source where it is another one than the target's

    # What a task says -------------------------------------------------------------------------

    @property
    @abstractmethod
    def structure(self) -> str:
        """Of the positions; an expression, as `structure.parse_structure` takes it."""

    @abstractmethod
    def draw(self, key: U64) -> Source:
        """One source for each key."""

    @abstractmethod
    def answer(self, source: Source) -> Tokens:
        """The target of each source."""

    @abstractmethod
    def symbols(self) -> list[str]:
        """Readable names of the ids from 3 on."""

    @property
    @abstractmethod
    def mean_size(self) -> float:
        """Mean of the distribution of sizes: what bounded schemes are sized at."""

    @property
    @abstractmethod
    def mean_tokens(self) -> float:
        """Tokens of a source of mean size."""

    @property
    def mean_answer_tokens(self) -> float:
        """Tokens of a target of mean size, at most; what generating costs is measured by it."""
        return self.mean_tokens

    def store(self, rows: Rows) -> Rows:
        """The rows as a dataset holds them: as they are, unless a task draws and answers in another form."""
        return rows

    # What follows -----------------------------------------------------------------------------

    @classmethod
    def refuse(cls, options: Mapping[str, Any]) -> None:
        """A `UsageError` for given options that contradict each other, or that this kind of task cannot have."""
        if "sizes" in options:
            raise UsageError(
                f"{cls.name} has no sizes to choose from",
                got=f"sizes {options['sizes']!r}",
                allowed="--sizes for tasks on words, trees and grids",
                fix="leave --sizes out",
            )

    @property
    def _algebra(self) -> Structure:
        return parse_structure(self.structure)

    @property
    def id_names(self) -> list[str]:
        return [*SPECIAL, *self.symbols()]

    @property
    def options(self) -> dict[str, Any]:
        """Every option, with its value."""
        return {f.name: getattr(self, f.name) for f in fields_of(type(self))}

    @property
    def parameters(self) -> dict[str, Any]:
        """The options, as the manifest keeps them: without late ones at their default."""
        late = {f.name: f.default for f in fields_of(type(self)) if f.metadata.get("late")}
        return {k: v for k, v in self.options.items() if k not in late or v != late[k]}

    @property
    def given(self) -> dict[str, Any]:
        """The options that make it again."""
        return self.parameters

    @property
    def title(self) -> str:
        """A name for its dataset's folder."""
        order = linearisation.name(self.order, self.source_order)
        return f"{self.name}-{order}" if order else self.name

    def rows(self, wanted: Mapping[str, int | None], seed: int) -> dict[str, int]:
        """Numbers of rows, with the usual ones where None is wanted."""
        return {split: _ROWS[split] if count is None else count for split, count in wanted.items()}

    def portion(self, rows: range, split: str, seed: int) -> Task:
        """What is sent to another process to write these rows."""
        return self

    @property
    def columns(self) -> pa.Schema:
        """Of its shards."""
        return sequence_rows.schema(self._algebra.width)

    def content(self, part: pa.Table) -> tuple[int, int]:
        """Of rows, for a fingerprint."""
        return sequence_rows.content(part)

    def moments(self, rows: int, seed: int) -> Moments | None:
        """Of pixels: symbols have none."""
        return None

    def sample(self, *, rows: range, split: str, seed: int) -> pa.Table:
        """These rows of a split, as a table of a shard's schema; `rows` may be any range of row numbers."""
        return self.sample_counted(rows=rows, split=split, seed=seed)[0]

    def sample_counted(self, *, rows: range, split: str, seed: int) -> tuple[pa.Table, int]:
        """`sample`, and how many of the rows have a source that may stand in another split as well."""
        pick("split", split, SPLITS)
        index = np.arange(rows.start, rows.stop, rows.step, dtype=np.uint64)
        source, shared = self.settle(index, split, seed)
        target = self._linear(self.store(self.answer(source)), self.order)
        source = self.store(source)
        line = self._linear(source, self.source_order or self.order)
        made = sequence_rows.table(
            row=index, source=line, target=target, size=source.size, op=source.op, op_names=self.ops
        )
        return made, shared

    def _linear(self, tokens: Tokens, order: Order | None) -> tuple[I64, I64, I64]:
        """The rows of one side in an order: starts [R+1], positions [T] or [T, C], symbols [T]."""
        if order is None or (order == "breadth" and in_level_order(tokens.starts, tokens.position)):
            return tokens.starts, tokens.position, tokens.symbol
        tree = self._algebra
        assert isinstance(tree, Tree)
        place = linearise(ragged.rows_of(tokens.starts), tokens.position, order, tree.branching)
        return tokens.starts, tokens.position[place], tokens.symbol[place]

    def settle(self, index: U64, split: str, seed: int) -> tuple[Source, int]:
        """The first draw of each row's stream whose hash belongs to the split; and how many found none."""
        key = rng.rows(seed, split, index)
        stream = rng.child(key, "draws")
        parts: list[Source] = []
        chosen = np.zeros(key.size, dtype=np.int64)
        pending, drawn, attempt = np.arange(key.size), 0, 0
        least = max(1, 4 // _SIXTEENTHS[split])  # a quarter of what it takes on average
        while pending.size and attempt < _TRIES:
            at_once = min(_TRIES - attempt, max(least, _AT_ONCE // pending.size))
            part = self.draw(rng.bits(stream[pending, None], np.arange(attempt, attempt + at_once)).ravel())
            mine = (_split_of(part) == split).reshape(pending.size, at_once)
            settled = mine.any(axis=1)
            first = np.where(settled, mine.argmax(axis=1), at_once - 1)
            chosen[pending] = drawn + np.arange(pending.size) * at_once + first
            parts.append(part)
            drawn += part.size.size
            pending = pending[~settled]
            attempt += at_once
        return join(parts).take(chosen), pending.size


def _split_of(tokens: Tokens) -> np.ndarray:
    """The split that each source may stand in, by its hash. [R] of names"""
    home = rng.content(tokens.starts, tokens.position, tokens.symbol) >> np.uint64(60)
    names = np.repeat(list(_SIXTEENTHS), list(_SIXTEENTHS.values()))
    return names[home.astype(np.int64)]


# What several kinds of tasks share ---------------------------------------------------------------


def letters(count: int) -> list[str]:
    """Readable names of a small vocabulary's symbols."""
    return [chr(ord("a") + i) for i in range(count)] if count <= 26 else [f"w{i}" for i in range(count)]


def check_whole(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise UsageError(
            f"bad {name}", got=value, allowed=f"a whole number in {low}..{high}", fix="choose one of those"
        )


# Discovery ---------------------------------------------------------------------------------------


_KINDS: dict[str, tuple[Any, str]] = {"bool": (bool, "true or false"), "int": (int, "a whole number")}


def names() -> list[str]:
    """Every task, by the files in this folder."""
    return plugins.names(sys.modules[__name__])


def load(name: str) -> type[Task]:
    """The class of a task."""
    found = plugins.load(sys.modules[__name__], "task", name, Task)  # type: ignore[type-abstract]
    found.name = name
    return found


def fields_of(task: type[Task]) -> list[dataclasses.Field[Any]]:
    """The fields of a task that are its options: all but its orders."""
    return [f for f in dataclasses.fields(task) if f.name not in ("order", "source_order")]


def make(name: str, order: str | None = None, source_order: str | None = None, **options: Any) -> Task:
    """A task with its options.

    `order` and `source_order` are for tasks on trees, and each is `breadth` or `depth`. `order` is the linearisation of
    the target (default `breadth`), and of the source unless `source_order` is given.

    Raises `UsageError` for an unknown task, order or option, and for values that make no sense.
    """
    found = load(name)
    orders: tuple[Order | None, Order | None] = (None, None)
    if found.ordered:
        orders = linearisation.checked(order, source_order)
    elif given := f"order {order!r}" if order else f"source_order {source_order!r}" if source_order else "":
        raise UsageError(f"{name} is no tree task: it has no order", got=given, allowed="none", fix="leave it out")
    known = {f.name: f for f in fields_of(found)}
    found.refuse(options)
    for key, value in options.items():
        if key not in known:
            raise unknown(f"option of {name}", key, known)
        if key == "sizes":  # `Sized` checks them
            continue
        kind = getattr(known[key].type, "__name__", known[key].type)
        right, allowed = _KINDS.get(str(kind), ((int, float), "a number"))
        if not isinstance(value, right) or isinstance(value, bool) != (right is bool):
            raise UsageError(f"bad {key}", got=repr(value), allowed=allowed, fix="give it as such")
    return found(order=orders[0], source_order=orders[1], **options)

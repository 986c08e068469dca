"""The base class of tasks whose rows are drawn: a source from the row's own random stream, and its target.

A row is a function of (task, parameters, seed, split, row) alone. A hash of the source, which does not depend on the
seed, decides which split the source belongs to. So no source of one split is ever in another one, not even in a
dataset of the task at other sizes. A draw that belongs to another split is drawn again from the same stream, with a new
size. Sizes that have few sources are therefore rarer if a split may have few of them; sizes that are listed
(`_sized.py`) are kept.
If a space of sources is too small to be divided (tiny words), a row keeps its 512th draw, and is counted as shared.

Shapes: R rows, T tokens in all, C coordinates of a position.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from ape_cli.core import ragged, renamed, rng, user_parts
from ape_cli.core.errors import pick
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL, SPECIAL, SPLITS
from ape_cli.storage import sequence_rows
from ape_cli.structure import Tree, parse_structure
from ape_cli.structure.linearisation import Order
from ape_cli.structure.trees import in_level_order, linearise
from ape_cli.tasks._base import BaseTask

Rows = TypeVar("Rows", bound="Tokens")
_TRIES = 512
_AT_ONCE = 128  # a call of `draw` for so many draws costs little more than one for a few
_TOKENS_AT_ONCE = 2**20  # unless they are this large
_SIXTEENTHS = {"train": 14, "validation": 1, "test": 1}  # each split's share of the hashes


def _accepts_starts(cls: type[Rows]) -> type[Rows]:
    """Let `offsets` be given as `starts`, its name of the last version, with a `DeprecationWarning`."""
    make: Any = cls.__init__

    @wraps(make)
    def init(self: Rows, *values: Any, **fields: Any) -> None:
        if "starts" in fields:
            renamed.warn_about("the argument starts", "offsets")
            fields["offsets"] = fields.pop("starts")
        make(self, *values, **fields)

    cls.__init__ = init  # type: ignore[method-assign, assignment]
    return cls


@_accepts_starts
@dataclass(frozen=True)
class Tokens:
    """R rows of (position, symbol) pairs, T in all, as flat int64 arrays.

    >>> import numpy as np
    >>> from ape_cli import tasks
    >>> rows = tasks.Tokens(offsets=np.array([0, 2, 3]), position=np.array([0, 1, 0]), symbol=np.array([3, 4, 3]))
    >>> rows.symbol[rows.offsets[0] : rows.offsets[1]]  # of the first row
    array([3, 4])
    """

    offsets: I64  # [R+1], the start of each row, and the end
    position: I64  # [T], or [T, C] for a structure with C > 1 factors
    symbol: I64  # [T], ids as models read them, from 3

    @property
    def starts(self) -> I64:
        """`offsets`, under its name of the last version."""
        renamed.warn_about("Tokens.starts", "offsets")
        return self.offsets


@_accepts_starts
@dataclass(frozen=True)
class Source(Tokens):
    """Sources before they are linearised, with what `Task.target` needs to know about each."""

    size: I64  # [R], length of a word, depth of a tree, longer side of a grid, number of places of a ring, …
    op: I64 | None = None  # [R], index of the operator, for tasks that set `ops`
    chosen: I64 | None = None  # [R], a number that the task stores for each row, such as a chosen node

    def take(self, rows: I64) -> Source:
        """Select rows, in the given order. `rows`: int64 [B], row numbers."""
        indices, offsets = ragged.take(self.offsets, rows)
        op, chosen = (None if column is None else column[rows] for column in (self.op, self.chosen))
        return Source(offsets, self.position[indices], self.symbol[indices], self.size[rows], op, chosen)


def join(parts: list[Source]) -> Source:
    """Concatenate the rows of all parts, which must have the same optional columns."""
    offsets = ragged.offsets_of(np.concatenate([np.diff(part.offsets) for part in parts]))
    columns: dict[str, Any] = {}
    for name in ("position", "symbol", "size", "op", "chosen"):
        values = [getattr(part, name) for part in parts]
        columns[name] = None if values[0] is None else np.concatenate(values)
    return Source(offsets, **columns)


def of_one_length(symbol: I64, size: int) -> Source:
    """Sources on a sequence that all have as many tokens, and the same size. `symbol`: int64 [R, N]"""
    rows, tokens = symbol.shape
    position = np.tile(np.arange(tokens), rows)
    return Source(np.arange(rows + 1) * tokens, position, FIRST_SYMBOL + symbol.ravel(), np.full(rows, size))


@dataclass(frozen=True, kw_only=True)
class Task(BaseTask):
    """Base class of tasks that draw sources and compute their targets. The fields of a subclass are its options.

    A task that draws a number of equal symbols and asks for one more:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from ape_cli.tasks import Source, Task, Tokens, option
    >>> def words(lengths):
    ...     offsets = np.concatenate([[0], lengths.cumsum()])
    ...     place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    ...     return {"offsets": offsets, "position": place, "symbol": np.full(offsets[-1], 3)}
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Successor(Task):
    ...     structure = "seq"
    ...     mean_size = mean_tokens = 5.0
    ...     most: int = option(9, "Largest number.", between=(1, 100))
    ...
    ...     def symbols(self):
    ...         return ["|"]
    ...
    ...     def draw(self, key):
    ...         size = (key % np.uint64(self.most)).astype(np.int64) + 1
    ...         return Source(**words(size), size=size)
    ...
    ...     def target(self, source):
    ...         return Tokens(**words(source.size + 1))
    >>> row = Successor(most=6).sample(rows=range(1), split="train", seed=3).to_pylist()[0]
    >>> row["source_ids"], row["target_ids"]
    ([3, 3, 3], [3, 3, 3, 3])
    """

    # A subclass defines these -----------------------------------------------------------------

    @abstractmethod
    def draw(self, key: U64) -> Source:
        """Draw a source for each key, from which all its random numbers follow. uint64 [R] -> `Source` of R rows"""

    @abstractmethod
    def target(self, source: Source) -> Tokens:
        """The target of each source. `Source` of R rows -> `Tokens` of R rows"""

    @abstractmethod
    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on."""

    def store(self, rows: Rows) -> Rows:
        """The rows as a dataset stores them. By default unchanged; a task may draw and compute in another form."""
        return rows

    def identity(self, source: Source) -> Tokens:
        """What determines the split of each source. Sources with equal identities are in the same split.

        The default is the source itself. Override it if the same question can be written in several ways.
        """
        return source

    # These follow from them -------------------------------------------------------------------

    @property
    def id_names(self) -> list[str]:
        """The readable name of each id."""
        return [*SPECIAL, *self.symbols()]

    @property
    def columns(self) -> pa.Schema:
        """The schema of the shards."""
        return sequence_rows.schema(parse_structure(self.structure).width)

    def sample_counted(self, *, rows: range, split: str, seed: int) -> tuple[pa.Table, int]:
        """`sample`, and how many of the rows have a source that may also be in another split.

        Raises `UsageError` for an unknown split.
        """
        pick("split", split, SPLITS)
        index = np.arange(rows.start, rows.stop, rows.step, dtype=np.uint64)
        with user_parts.explained(self):
            source, shared = self.sample_for_split(index, split, seed)
            target = self._checked(self.target(source), "target", index.size)
            answer = self._linear(self._checked(self.store(target), "store", index.size), self.order)
            source = self._checked(self.store(source), "store", index.size)
            line = self._linear(source, self.source_order or self.order)
            table = sequence_rows.table(
                row=index, source=line, target=answer, size=source.size, op=source.op, op_names=list(self.ops)
            )
        return table, shared

    def row_sizes(self, *, rows: range, split: str, seed: int) -> I64:
        """The `size` of the given rows of a split: int64 [R]. Their targets are not computed."""
        index = np.arange(rows.start, rows.stop, rows.step, dtype=np.uint64)
        with user_parts.explained(self):
            return self.store(self.sample_for_split(index, split, seed)[0]).size

    def _checked(self, made: Rows, method: str, rows: int) -> Rows:
        """What a method returned for so many rows. Raises `ApeError` if an array has another shape or dtype."""
        expected_type = Source if method == "draw" else Tokens
        if not isinstance(made, expected_type):
            raise user_parts.returns(self, method, made, f"`{expected_type.__name__}` of {rows} rows")
        is_stored = method == "store" or type(self).store is Task.store
        width, tokens = parse_structure(self.structure).width, int(made.offsets[-1])
        coordinates = ((width,) if width > 1 else ()) if is_stored else np.shape(made.position)[1:]
        shapes = {"offsets": (rows + 1,), "position": (tokens, *coordinates), "symbol": (tokens,)}
        for name, array in vars(made).items():
            shape = shapes.get(name, (rows,))
            if array is None and name in ("op", "chosen"):
                continue
            if getattr(array, "dtype", None) != np.int64 or array.shape != shape:
                got = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
                raise user_parts.returns(self, method, f"`{name}` is {got}", f"int64 {list(shape)}")
        if made.offsets[0] != 0 or (np.diff(made.offsets) < 0).any():
            got, allowed = f"`offsets` is {made.offsets[:8].tolist()}", "non-decreasing numbers from 0"
            raise user_parts.returns(self, method, got, allowed)
        return made

    def _linear(self, tokens: Tokens, order: Order | None) -> tuple[I64, I64, I64]:
        """The rows of one side in an order: offsets [R+1], positions [T] or [T, C], symbols [T]. All are int64."""
        if order is None or (order == "breadth" and in_level_order(tokens.offsets, tokens.position)):
            return tokens.offsets, tokens.position, tokens.symbol
        tree = parse_structure(self.structure)
        assert isinstance(tree, Tree)
        indices = linearise(ragged.rows_of(tokens.offsets), tokens.position, order, tree.branching)
        return tokens.offsets, tokens.position[indices], tokens.symbol[indices]

    def sample_for_split(self, index: U64, split: str, seed: int) -> tuple[Source, int]:
        """Draw the sources of rows: of each row's stream the first draw whose hash belongs to the split.

        `index`: uint64 [R], row numbers. Returns the sources, and the number of rows without such a draw.
        """
        key = rng.rows(seed, split, index)
        stream = rng.child(key, "draws")
        parts: list[Source] = []
        chosen = np.zeros(key.size, dtype=np.int64)
        pending, drawn, attempt = np.arange(key.size), 0, 0
        minimum = max(1, 4 // _SIXTEENTHS[split])  # a quarter of the draws that a row needs on average
        draws = min(_AT_ONCE, _TOKENS_AT_ONCE / max(1.0, self.mean_tokens))
        while pending.size and attempt < _TRIES:
            at_once = min(_TRIES - attempt, max(minimum, int(draws // pending.size)))
            keys = rng.bits(stream[pending, None], np.arange(attempt, attempt + at_once)).ravel()
            part = self._checked(self.draw(keys), "draw", keys.size)
            mine = (_split_of(self.identity(part)) == split).reshape(pending.size, at_once)
            settled = mine.any(axis=1)
            first = np.where(settled, mine.argmax(axis=1), at_once - 1)
            chosen[pending] = drawn + np.arange(pending.size) * at_once + first
            parts.append(part)
            drawn += part.size.size
            pending = pending[~settled]
            attempt += at_once
        return join(parts).take(chosen), pending.size


def _split_of(tokens: Tokens) -> np.ndarray:
    """The name of the split that each source belongs to, by its hash. str [R]"""
    home = rng.content(tokens.offsets, tokens.position, tokens.symbol) >> np.uint64(60)
    names = np.repeat(list(_SIXTEENTHS), list(_SIXTEENTHS.values()))
    return names[home.astype(np.int64)]


def letters(count: int) -> list[str]:
    """Readable names of `count` symbols: a to z, or w0, w1, … if there are more than 26.

    >>> letters(3), letters(30)[:2]
    (['a', 'b', 'c'], ['w0', 'w1'])
    """
    return [chr(ord("a") + i) for i in range(count)] if count <= 26 else [f"w{i}" for i in range(count)]

"""The rules of tasks, and a check of any rows against the vocabulary and the structure of their task.

They cannot tell whether an answer is the intended one. Sources that two splits share are counted in `data/overlap.py`.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ape_cli.core import ragged, rng, user_parts
from ape_cli.core.errors import ApeError, DataError, brief
from ape_cli.core.vocabulary import FIRST_SYMBOL, PAD, SPECIAL, SPLITS
from ape_cli.storage import sequence_rows
from ape_cli.structure import Cyclic, Seq, Structure, Tree, parse_structure
from ape_cli.tasks._base import BaseTask
from ape_cli.tasks._task import Task

_ROWS = 20
_SEED = 5
_STREAM = "draw all random numbers from the key of the row, with the functions of `ape_cli.core.rng`"


def check_rows(part: pa.Table, structure: Structure, ids: int, *, tagged: bool = False) -> None:
    """Check that every id is in the vocabulary, that every position exists, and that every tree is one.

    `structure` is that of the dataset, and `ids` the size of its vocabulary. If targets are `tagged`, they may have
    PAD, and are as long as their sources. Every target has something to predict, which may be its EOS. Raises
    `DataError` otherwise.
    """
    lengths = []
    for side in ("source", "target"):
        column = part[f"{side}_ids"].combine_chunks()
        offsets, symbols = column.offsets.to_numpy(), column.values.to_numpy()
        lengths.append(np.diff(offsets))
        if side == "target" and (tagged or structure != Seq()):
            labels = np.diff(np.concatenate(([0], np.cumsum(symbols != PAD)))[offsets])
            if not labels.all():
                raise DataError("a target has nothing to predict", fix="correct the task, or choose other sizes")
        if tagged and side == "target":
            symbols = symbols[symbols != PAD]
        _check_range(f"a {side} id is not in the vocabulary", symbols, FIRST_SYMBOL, ids - 1)
        column = part[f"{side}_positions"].combine_chunks()
        positions = sequence_rows.positions(column)
        for factor, coordinate in zip(structure.simple, positions.reshape(-1, structure.width).T, strict=True):
            deep = " (a path too deep for a heap index?)" if isinstance(factor, Tree) else ""
            _check_range(f"a {side} position is not one of {factor.expression}{deep}", coordinate, *_range(factor))
        offsets = column.offsets.to_numpy()
        if isinstance(structure, Tree):
            _check_trees(side, structure, offsets, positions.view(np.int64))
        if structure == Seq() and (positions != ragged.indices_of(offsets)).any():
            what = f"the positions of a {side} do not count its tokens from 0, as those of seq do"
            raise DataError(what, fix="correct the task")
    if tagged and (lengths[0] != lengths[1]).any():
        raise DataError("a target does not have one tag for each token of its source", fix="correct the task")


def _check_trees(side: str, tree: Tree, offsets: np.ndarray, positions: np.ndarray) -> None:
    """Check that each row is a tree. offsets: [R+1], positions: int64 [T]. Raises `DataError`."""
    row = rng.mix(ragged.rows_of(offsets).astype(np.uint64))
    node, above = (row + rng.unsigned(heap) for heap in (positions, tree.ancestor(positions, 1)))
    reason = ""
    if (np.diff(np.concatenate(([0], np.cumsum(positions == 1)))[offsets]) != 1).any():
        reason = "it does not have exactly one root"
    elif np.unique(node).size < node.size:
        reason = "two of its tokens have the same position"
    elif not np.isin(above[positions > 1], node).all():
        reason = "the parent of a node is missing"
    if reason:
        raise DataError(f"a {side} is not a tree: {reason}", fix="correct the task")


def _check_range(what: str, values: np.ndarray, low: int, high: int) -> None:
    """Check that all values, integers [T], are in low..high. Raises `DataError`."""
    if values.size and not low <= values.min() <= values.max() <= high:
        wrong = values[(values < low) | (values > high)][0]
        raise DataError(what, got=wrong, allowed=f"{low} to {high}", fix="correct the task")


def _range(factor: Structure) -> tuple[int, int]:
    """The smallest and the largest coordinate that a dataset may store for a factor of its structure."""
    if isinstance(factor, Tree):
        return 1, int(factor.level_start(factor.max_depth + 1)) - 1
    return 0, factor.order - 1 if isinstance(factor, Cyclic) else 2**63 - 2  # collation adds 1


def _rows(task: BaseTask) -> None:
    """Rows have the columns of a shard, ids of the vocabulary, and positions of the structure."""
    part, rows = _sample(task), _range_of(task)
    if not isinstance(part, pa.Table) or not part.schema.equals(task.columns) or part["row"].to_pylist() != [*rows]:
        raise _returns(task, part, f"a table of rows {rows.start} to {rows.stop - 1} with the schema `columns`")
    if task.image is None:
        check_rows(part, parse_structure(task.structure), len(task.id_names), tagged=task.tagged)
    sizes = task.row_sizes(rows=rows, split="train", seed=_SEED)
    if sizes.tolist() != part["size"].to_pylist():
        got, allowed = f"{sizes.tolist()[:8]}", f"those of its rows: {part['size'].to_pylist()[:8]}"
        raise user_parts.returns(task, "row_sizes", got, allowed)


def _declared(task: BaseTask) -> None:
    """Ids have names, each another one, and the means of sizes and tokens are positive numbers."""
    names = task.id_names
    special = [] if task.image else SPECIAL
    if not isinstance(names, list) or {*map(type, names)} != {str} or names[: len(special)] != special:
        raise user_parts.returns(task, "id_names", names, f"a list of texts that begins with {special}")
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise user_parts.returns(task, "id_names", f"{repeated[0]!r} more than once", "different names")
    for name in ("mean_size", "mean_tokens", "mean_target_tokens"):
        value = getattr(task, name)
        if not isinstance(value, int | float) or not 0 < value < math.inf:
            raise user_parts.returns(task, name, repr(value), "a number above 0")


def _repeatable(task: BaseTask) -> None:
    """A row is the same whenever it is drawn, also by a task that is made again."""
    first, _, later = _sample(task), _sample(task, split="test"), _sample(task)
    _compare(task, first, later, "when drawn again", _STREAM)
    again = _sample(dataclasses.replace(task))
    _compare(task, first, again, "when drawn by a second instance of the task", _STREAM)


def _independent(task: BaseTask) -> None:
    """A row does not depend on the rows that are drawn together with it."""
    whole, rows = _sample(task), _range_of(task)
    for part in filter(None, (rows[-1:], rows[5:12], rows[::3])):
        alike = whole.take(np.array(part))
        fix = "compute each row from its own key and its own tokens, at `offsets[r]:offsets[r + 1]`"
        when = f"when drawn {f'with {len(part) - 1} others' if len(part) > 1 else 'alone'}"
        _compare(task, alike, _sample(task, part), when, fix)


def _seeds(task: BaseTask) -> None:
    """Other seeds and other splits have other rows, unless the rows come from a source of data."""
    whole = _sample(task)
    if task.fixed_rows or np.unique(task.sources(whole)).size < _ROWS // 2:  # too few that differ to compare
        return
    columns = [name for name in whole.column_names if name != "row"]
    for what, other in (("seed", _sample(task, seed=_SEED + 1)), ("split", _sample(task, split="test"))):
        if other.select(columns).equals(whole.select(columns)):
            raise _returns(task, f"the same rows for another {what}", "other rows", fix=_STREAM)


RULES: dict[str, Callable[[BaseTask], None]] = {
    "declared": _declared,
    "rows": _rows,
    "repeatable": _repeatable,
    "independent": _independent,
    "seeds": _seeds,
}


def _range_of(task: BaseTask, split: str = "train") -> range:
    """The first rows of a split; a source of data may have few."""
    return range(min(_ROWS, task.rows(dict.fromkeys(SPLITS), _SEED)[split]))


def _sample(task: BaseTask, rows: range | None = None, split: str = "train", seed: int = _SEED) -> pa.Table:
    """Some rows of a split; by default its first ones."""
    return task.sample(rows=_range_of(task, split) if rows is None else rows, split=split, seed=seed)


def _returns(task: BaseTask, got: Any, allowed: str, column: str = "", fix: str = "correct the file") -> ApeError:
    """The error for rows, and for the method that a user's own task has written for them."""
    method = "sample_counted"
    if isinstance(task, Task):
        method = "target" if column.startswith("target") else "draw"
    return user_parts.returns(task, method, got, allowed, fix)


def _compare(task: BaseTask, table: pa.Table, other: pa.Table, when: str, fix: str) -> None:
    """Compare tables of the same rows. Raises `ApeError` if they differ."""
    for here, there in zip(table.to_pylist(), other.to_pylist(), strict=True):
        for column, value in here.items():
            if value != there[column]:
                got = f"row {here['row']} has {column} {brief(value)}, but {brief(there[column])} {when}"
                raise _returns(task, got, "equal rows", column, fix)

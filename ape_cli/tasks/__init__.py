"""Tasks define the samples of a dataset. There is one file per task; the stem of the file is the task's name.

A task draws a source from a row's own random stream (`draw`) and answers it (`answer`). The base classes do the rest:

| base class | file | for |
|---|---|---|
| `Words`, `PlainTrees`, `Trees`, `Grids` | `_words.py`, `_trees.py`, `_grids.py` | sources that are drawn already |
| `Sized` | `_sized.py` | tasks whose sources differ in size |
| `Task` | `_task.py` | all tasks that draw their rows |
| `BaseTask` | `_base.py` | everything that can be generated as a dataset, images too |

    >>> from ape_cli import tasks
    >>> task = tasks.make("reverse", length_mean=3, length_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> row["source_ids"], row["target_ids"]
    ([18, 18, 14], [14, 18, 18])
"""

from __future__ import annotations

import pkgutil
import sys
from functools import cache
from typing import Any

from ape_cli.core import plugins
from ape_cli.core.errors import ApeError, UsageError, unknown
from ape_cli.structure import linearisation
from ape_cli.structure.linearisation import Order
from ape_cli.tasks._base import BaseTask, RowWriter, TaskOption, check_whole, option, options_of
from ape_cli.tasks._task import Rows, Source, Task, Tokens, join, letters

__all__ = [
    "BaseTask",
    "RowWriter",
    "Rows",
    "Source",
    "Task",
    "TaskOption",
    "Tokens",
    "check_whole",
    "join",
    "kind_of",
    "letters",
    "load",
    "make",
    "names",
    "option",
    "options_of",
]

__path__ = pkgutil.extend_path(__path__, __name__)  # folders ape_cli/tasks elsewhere on the path add files


def names() -> list[str]:
    """The names of all tasks, by the files in this folder and by entry points."""
    return plugins.names(sys.modules[__name__])


@cache
def load(name: str) -> type[BaseTask]:
    """The class of a task. Raises `UsageError` if there is no such task, `ApeError` if its file cannot be imported."""
    found = plugins.load(sys.modules[__name__], "task", name, BaseTask)  # type: ignore[type-abstract]
    found.name = name
    plugins.remember(found)
    return found


def kind_of(name: str) -> str | None:
    """The kind of a task's data, `sequence` or `image`; None if the task is not installed or cannot be imported."""
    try:
        return load(name).kind
    except ApeError:
        return None


def make(name: str, order: str | None = None, source_order: str | None = None, **options: Any) -> BaseTask:
    """Make a task with its options.

    `order` and `source_order` are for tasks on trees, and each is `breadth` or `depth`. `order` is the linearisation of
    the target (default `breadth`), and of the source unless `source_order` is given.

    Raises `UsageError` for an unknown task, order or option, and for values that make no sense.
    """
    found = load(name)
    orders: tuple[Order | None, Order | None] = (None, None)
    if found.ordered:
        orders = linearisation.checked(order, source_order)
    elif given := f"order {order!r}" if order else f"source_order {source_order!r}" if source_order else "":
        raise UsageError(
            f"{name} is not a task on trees, so it has no order", got=given, allowed="none", fix="leave it out"
        )
    known = options_of(found)
    found.refuse({**options, **{k: v for k, v in (("order", order), ("source_order", source_order)) if v is not None}})
    for key, value in options.items():
        if key not in known:
            raise unknown(f"option of {name}", key, known)
        known[key].check(value)
    with plugins.explained("task", found):
        return found(order=orders[0], source_order=orders[1], **{known[k].field: v for k, v in options.items()})

"""Tasks define the samples of a dataset. Each is a single file, and its name is that of the file.

A task draws a source from the random stream of a row (`draw`) and computes its `target`. Base classes do the rest:

| base class | for tasks |
|---|---|
| `Words`, `PlainTrees`, `Trees`, `Grids` | that only define the target |
| `Task` | that draw their rows |
| `BaseTask` | of any kind, including images |

    >>> from ape_cli import tasks
    >>> task = tasks.make("reverse", length_mean=3, length_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> row["source_ids"], row["target_ids"]
    ([18, 18, 14], [14, 18, 18])
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from ape_cli.core import part_options, plugins, renamed, user_parts
from ape_cli.core.errors import ApeError, UsageError, unknown
from ape_cli.structure import linearisation
from ape_cli.structure.linearisation import Order
from ape_cli.tasks._base import BaseTask, TaskOption, check_whole, option, options_of
from ape_cli.tasks._grids import Grids
from ape_cli.tasks._rules import RULES
from ape_cli.tasks._task import Rows, Source, Task, Tokens, join, letters
from ape_cli.tasks._trees import PlainTrees, Trees
from ape_cli.tasks._words import Words

__all__ = [
    "RULES",
    "BaseTask",
    "Grids",
    "PlainTrees",
    "Rows",
    "Source",
    "Task",
    "TaskOption",
    "Tokens",
    "Trees",
    "Words",
    "check_whole",
    "join",
    "letters",
    "load",
    "make",
    "modality_of",
    "names",
    "option",
    "options_of",
    "recorded",
    "size_words",
]

_SIZE_WORDS = {  # for each structure, the meaning of a size and the label of its axis
    "seq": ("length", "length of the source, symbols"),
    "tree": ("depth", "depth of the source, steps from the root"),
    "grid": ("longer side", "longer side of the source, cells"),
    "cyclic": ("ring", "places of the ring"),
}

__path__ = pkgutil.extend_path(__path__, __name__)  # folders ape_cli/tasks elsewhere on the path add files


def names() -> list[str]:
    """The names of all tasks: of the files in `ape_cli/tasks/`, here and in folders on the Python path."""
    return plugins.names(sys.modules[__name__])


@cache
def load(name: str) -> type[BaseTask]:
    """The class of a task. Raises `UsageError` for an unknown name, and `ApeError` if its file cannot be imported."""
    task = plugins.load(sys.modules[__name__], name, BaseTask)  # type: ignore[type-abstract]
    task.name = name
    return task


def modality_of(name: str) -> str | None:
    """What a task's data is, `sequence` or `image`; None if the task is not installed or cannot be imported."""
    try:
        return load(name).modality
    except ApeError:
        return None


def size_words(name: str, structure: str) -> tuple[str, str]:
    """The meaning of a size for a task, or for a structure if the task names none, and the label of its axis."""
    with suppress(ApeError):  # the task may not be installed here
        if words := load(name).size_words:
            return words
    return _SIZE_WORDS.get(structure.partition("(")[0], ("size", "size of the source"))


def kind_of(name: str) -> str | None:
    """`modality_of`, under its name of the last version."""
    renamed.warn_about("tasks.kind_of", "modality_of")
    return modality_of(name)


def make(name: str, order: str | None = None, source_order: str | None = None, **options: Any) -> BaseTask:
    """Create a task by name.

    - `order`: for trees, the node order of the target, `breadth` (default) or `depth`.
    - `source_order`: for trees, the node order of the source, if it differs.
    - `options`: the options of the task.

    Raises `UsageError` for an unknown task, order or option, and for invalid values.
    """
    task = load(name)
    orders: tuple[Order | None, Order | None] = (None, None)
    if task.ordered:
        orders = linearisation.checked(order, source_order)
    elif order or source_order:
        what = f"{name} is not a task on trees, so it has no order"
        raise UsageError(what, got=repr(order or source_order), allowed="none", fix="leave it out")
    task_options = options_of(task)
    task.refuse({**options, **{k: v for k, v in (("order", order), ("source_order", source_order)) if v is not None}})
    for key in options:
        if key not in task_options:
            raise unknown(f"option of {name}", key, task_options)
    of = part_options.options(task)
    values = {task_options[key].field: _checked(task_options[key], value, of) for key, value in options.items()}
    with user_parts.explained(task):
        return task(order=orders[0], source_order=orders[1], **values)


def recorded(name: str, linearised: str | None, parameters: Mapping[str, Any]) -> BaseTask:
    """Create the task of a dataset again, from what a manifest or a run recorded about it.

    `linearised` is the name of its linearisation, None for data without an order.

    Raises the errors of `make`. Some tasks cannot be created again, for example those on a user's own files.
    """
    return make(name, *linearisation.parse(linearised), **load(name).recorded(parameters))


def _checked(option: TaskOption, value: Any, options: part_options.PartOptions) -> Any:
    """The value of an option of a task. Raises `UsageError` if it is of another type.

    Whole numbers stay as they are, so that older manifests keep their bytes. `Sized` reads the text of `sizes`.
    """
    if option.name == "sizes":
        part_options.check_whole(option.name, value)
        return value
    options[option.name], options.kinds[option.name] = option.default, options.kinds[option.field]
    checked = part_options.checked(option.name, value, options)
    return value if type(value) is int and isinstance(checked, float) else part_options.unsigned(checked)

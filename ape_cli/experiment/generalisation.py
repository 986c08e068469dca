"""Tests of a trained run at sizes that differ from its training data: longer words, deeper trees.

The test rows are a dataset of their own: the same task with the same parameters, order and seed, but with listed sizes,
`ROWS` test rows of each, and no training or validation rows. A hash of the source says which split it may stand in, and
the seed is that of the training data, so no test row is a training row, unless there are too few sources of its size;
such rows are counted, and a message says how many there are. The name of the dataset's folder follows from
its plan, and all runs on the same data share it.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ape_cli import tasks
from ape_cli.core import plugins
from ape_cli.core.errors import ApeError, UsageError
from ape_cli.data import overlap
from ape_cli.data.generation import titled_folder
from ape_cli.data.loader import Dataset, Split
from ape_cli.data.manifest import plan_of
from ape_cli.experiment.choice import generated, planned_dataset
from ape_cli.experiment.reading import row_positions
from ape_cli.runs.config import Config
from ape_cli.storage.parquet import ROW_GROUP
from ape_cli.storage.paths import StoragePath
from ape_cli.tasks import BaseTask
from ape_cli.tasks._trees import has_open_positions, unfolds

logger = logging.getLogger(__name__)

MULTIPLES = (1, 1.25, 1.5, 2, 3, 5)
ROWS = 1000  # test rows of each size
_MOST_TOKENS = 2000  # mean tokens of a row; sizes with more are left out, because attention is quadratic


def check_decoding(data: Dataset, decode: str) -> None:
    """Check that the data can be decoded in this way.

    Raises `UsageError` for images, and for trees `RunError` if their task is missing here, and `DataError` if it does
    not define how they unfold.
    """
    if decode != "greedy":
        return
    if data.image is not None:
        what = "images have a single label, so greedy decoding does not apply"
        raise UsageError(what, got="`decode=greedy`", allowed="teacher", fix="leave `decode` out")
    if has_open_positions(data.structure, data.plan.tagged):
        plugins.check_installed(tasks, "task", data.task)
        unfolds(tasks.load(data.task), data.structure, data.plan.tagged)


def multiples(largest: int) -> list[int]:
    """The `MULTIPLES` of the largest training size, rounded half up, without repetition.

    >>> multiples(10), multiples(2)
    ([10, 13, 15, 20, 30, 50], [2, 3, 4, 6, 10])
    """
    return list(dict.fromkeys(math.floor(factor * largest + 0.5) for factor in MULTIPLES))


class LengthGeneralisation:
    """Finds and generates the test rows at other sizes. What belongs to the same data is looked at once.

    `root` is the folder of datasets.
    """

    def __init__(self, root: StoragePath) -> None:
        """Nothing is looked at yet."""
        self.root = root
        self._datasets: dict[Any, tuple[Dataset | None, str]] = {}  # and what is left out

    def of(self, data: Dataset, generalise: bool | tuple[int, ...]) -> tuple[Dataset | None, str]:
        """The test rows for runs on `data`, None if no size can be drawn; and a message about what is left out.

        Nothing is generated.
        """
        key = (data.fingerprint, generalise)
        if key not in self._datasets:
            self._datasets[key] = self._find(data, generalise)
        return self._datasets[key]

    def opened(self, data: Dataset, generalise: bool | tuple[int, ...], config: Config) -> list[Dataset]:
        """The dataset of `of` for a run of a configuration; empty without one. It is generated if it is missing.

        What cannot be drawn is left out, with a message. Raises `DataError` if it cannot be generated or is damaged,
        and `UsageError` if the map of positions has none for a token.
        """
        if not generalise:
            return []
        other, left = self.of(data, generalise)
        if left:
            logger.warning(left)
        if other is None:
            return []
        positions, split = row_positions(config), generated(other).split("test")
        if positions is not None and isinstance(split, Split):
            split.check_positions(positions)
        if line := overlap.between(data, other, "test").words(other.plan):
            logger.warning(f"overlap of {other.name} with {data.name}: {line}")
        return [other]

    def _find(self, data: Dataset, generalise: bool | tuple[int, ...]) -> tuple[Dataset | None, str]:
        try:
            task = _task(data)
        except ApeError as error:
            return None, f"{data.name}: not evaluated at other sizes, because {error.what}"
        drawn, reasons = _drawn(task, generalise, data.largest_size)
        left = "; ".join(f"{size}: {reason}" for size, reason in reasons.items())
        left = left and f"{data.name}: not evaluated at sizes that cannot be drawn or are too large: {left}"
        if not drawn:
            return None, left
        sized, rows = _sized(task, drawn), {"train": 0, "validation": 0, "test": ROWS}
        plan = plan_of(sized, seed=data.plan.seed, rows=rows, shard_rows=ROW_GROUP)
        return planned_dataset(sized, plan, titled_folder(self.root, sized, plan, f"-test-{plan.digest[:8]}")), left


@lru_cache(maxsize=64)  # the trials of a sweep share their data
def sizes_for(data: Dataset, generalise: bool | tuple[int, ...]) -> frozenset[int]:
    """The sizes of the other test rows of data that may be missing. Empty if there are none, or they are not known."""
    largest = max(data.parameters.get("sizes", (0,)))
    if not generalise or (generalise is True and not largest):
        return frozenset()  # of True, the data would have to be generated to tell
    try:
        return frozenset(_drawn(_task(data), generalise, largest)[0])
    except ApeError:
        return frozenset()


def _drawn(task: BaseTask, generalise: bool | tuple[int, ...], largest: int) -> tuple[tuple[int, ...], dict[int, str]]:
    """The sizes that can be drawn, and why the others cannot, given the largest size in training."""
    sizes = multiples(largest) if isinstance(generalise, bool) else generalise
    reasons = {size: reason for size in sizes if (reason := _obstacle(task, size))}
    return tuple(size for size in sizes if size not in reasons), reasons


def _task(data: Dataset) -> BaseTask:
    """The task of a dataset. Raises `ApeError` if it has no sizes, is not known here, or its own code has changed."""
    task_class = tasks.load(data.task)
    if "sizes" not in tasks.options_of(task_class):
        raise UsageError(f"{data.task} has no sizes to choose from")
    if data.parameters.get("binarise"):
        raise UsageError("the depth of a binarised tree is not the depth that is drawn")
    if plugins.has_changed(task_class, data.plan.code):
        raise UsageError(f"the code of the task {data.task} has changed since")
    return tasks.recorded(data.task, data.order, data.parameters)


def _sized(task: BaseTask, sizes: tuple[int, ...]) -> BaseTask:
    """The same task with these sizes. Raises `UsageError` if one of them cannot be drawn."""
    changed: dict[str, Any] = {"sizes": sizes}
    return replace(task, **changed)


def _obstacle(task: BaseTask, size: int) -> str:
    """Why rows of a size cannot be drawn or are too long. Empty if there is no reason."""
    try:
        sized = _sized(task, (size,))
    except UsageError as error:
        return error.summary + (f", allowed: {error.allowed}" if error.allowed else "")
    tokens = max(sized.mean_tokens, sized.mean_target_tokens)
    return f"about {tokens:,.0f} tokens in a row, more than {_MOST_TOKENS:,}" if tokens > _MOST_TOKENS else ""

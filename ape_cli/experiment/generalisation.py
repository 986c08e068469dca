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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ape_cli import tasks
from ape_cli.core import plugins
from ape_cli.core.errors import ApeError, UsageError, brief, pick
from ape_cli.core.ranges import whole_numbers
from ape_cli.data import generation, overlap
from ape_cli.data.loader import Dataset, Split
from ape_cli.data.manifest import manifest_path, missing_shards, read_manifest
from ape_cli.data.plan import DatasetInfo
from ape_cli.experiment.datasets import ChosenDataset, generated
from ape_cli.experiment.mapping import row_positions
from ape_cli.runs.config import Config
from ape_cli.runs.record import DECODINGS
from ape_cli.storage.parquet import ROW_GROUP
from ape_cli.storage.paths import StoragePath
from ape_cli.tasks import BaseTask
from ape_cli.tasks._trees import has_open_places, unfolds

logger = logging.getLogger(__name__)

AUTO = "auto"  # the word for `MULTIPLES` of the largest training size
MULTIPLES = (1, 1.25, 1.5, 2, 3, 5)
ROWS = 1000  # test rows of each size
_MOST_TOKENS = 2000  # mean tokens of a row; sizes with more are left out, because attention is quadratic


@dataclass(frozen=True)
class FurtherTests:
    """What a run is evaluated on once it is trained, in addition to its test split with teacher forcing.

    generalise: the sizes of other test rows. True stands for `MULTIPLES` of the largest training size, False for none.
    decode: with `greedy`, all test rows are also decoded greedily.

    Raises `UsageError` for an unknown decoding.
    """

    generalise: bool | tuple[int, ...] = False
    decode: str = DECODINGS[0]

    def __post_init__(self) -> None:
        """Check the decoding."""
        pick("decoding", self.decode, DECODINGS, field="decode")

    def decodings(self, data: DatasetInfo) -> tuple[str, ...]:
        """The decodings in which a run on the data is evaluated. Images have no greedy decoding."""
        both = self.decode != DECODINGS[0] and data.image is None
        return DECODINGS if both else DECODINGS[:1]


NO_FURTHER_TESTS = FurtherTests()  # only the test split, with teacher forcing


def check_decoding(data: DatasetInfo, decode: str) -> None:
    """Check that the data can be decoded in this way.

    Raises `UsageError` for images, and for trees `RunError` if their task is missing here, and `DataError` if it does
    not define how they unfold.
    """
    if decode != "greedy":
        return
    if data.image is not None:
        what = "images have a single label, so greedy decoding does not apply"
        raise UsageError(what, got="`decode=greedy`", allowed="teacher", fix="leave `decode` out")
    if has_open_places(data.plan.structure, data.plan.tagged):
        plugins.check_installed(tasks, "task", data.task)
        unfolds(tasks.load(data.task), data.plan.structure, data.plan.tagged)


def parse(sizes: bool | str | Sequence[int] | None) -> bool | tuple[int, ...]:
    """The sizes of `FurtherTests` from an option or a file: `30,50-60`, a list, `auto` or true. None: no sizes.

    Raises `UsageError` if they are not valid.

    >>> parse("30,50-52"), parse([2, 1]), parse("auto"), parse(None)
    ((30, 50, 51, 52), (1, 2), True, False)
    """
    if sizes is None or isinstance(sizes, bool) or sizes == AUTO:
        return bool(sizes)
    found = whole_numbers("generalise", sizes) if isinstance(sizes, str) else sizes
    if not found or not all(type(size) is int and 0 <= size < 2**16 for size in found):
        allowed = f"sizes such as 30,50-60 (whole numbers), or {AUTO} for multiples of the largest training size"
        raise UsageError(
            "bad `generalise`",
            got=brief(sizes),
            allowed=allowed,
            fix="for example `generalise=30,50,100`",
            field="generalise",
        )
    return tuple(sorted(set(found)))


def multiples(largest: int) -> list[int]:
    """The `MULTIPLES` of the largest training size, rounded half up, without repetition.

    >>> multiples(10), multiples(2)
    ([10, 13, 15, 20, 30, 50], [2, 3, 4, 6, 10])
    """
    return list(dict.fromkeys(math.floor(factor * largest + 0.5) for factor in MULTIPLES))


class OtherSizes:
    """Finds and generates the test rows at other sizes. What belongs to the same data is looked at once.

    `root` is the folder of datasets.
    """

    def __init__(self, root: StoragePath) -> None:
        """Nothing is looked at yet."""
        self.root = root
        self._chosen: dict[Any, tuple[ChosenDataset | None, str]] = {}
        self._told: set[Any] = set()  # the keys of datasets whose overlap was counted

    def of(self, data: Dataset, generalise: bool | tuple[int, ...]) -> ChosenDataset | None:
        """The dataset of other sizes for runs on `data`; None if no size can be drawn. Nothing is generated."""
        return self._found(data, generalise)[0]

    def opened(self, data: Dataset, generalise: bool | tuple[int, ...], config: Config) -> list[Dataset]:
        """The dataset of `of`, open, for a run of a configuration; empty without one. It is generated if it is missing.

        What cannot be drawn is left out, with a message. Raises `DataError` if it cannot be generated or is damaged,
        and `UsageError` if the map of positions has none for a token.
        """
        if not generalise:
            return []
        key = (data.fingerprint, generalise)
        chosen, left = self._found(data, generalise)
        if left:
            logger.warning(left)
            self._chosen[key] = chosen, ""
        if chosen is None:
            return []
        other = generated(chosen)
        drawn, split = row_positions(config), other.split("test")
        if drawn is not None and isinstance(split, Split):
            split.check_positions(drawn)
        if key not in self._told:
            self._told.add(key)
            if line := overlap.between(data, other, "test").words(other.plan):
                logger.warning(f"overlap of {other.name} with {data.name}: {line}")
        return [other]

    def _found(self, data: Dataset, generalise: bool | tuple[int, ...]) -> tuple[ChosenDataset | None, str]:
        """The dataset, or None, and a message about what is left out."""
        key = (data.fingerprint, generalise)
        if key not in self._chosen:
            self._chosen[key] = self._choose(data, generalise)
        return self._chosen[key]

    def _choose(self, data: Dataset, generalise: bool | tuple[int, ...]) -> tuple[ChosenDataset | None, str]:
        try:
            task = _task(data)
        except ApeError as error:
            return None, f"{data.name}: not evaluated at other sizes, because {error.what}"
        drawn, reasons = _drawn(task, generalise, data.largest_size)
        left = "; ".join(f"{size}: {reason}" for size, reason in reasons.items())
        left = left and f"{data.name}: not evaluated at sizes that cannot be drawn or are too large: {left}"
        return (_test_rows(_sized(task, drawn), data.plan.seed, self.root) if drawn else None), left


def sizes_for(data: DatasetInfo, generalise: bool | tuple[int, ...]) -> set[int]:
    """The sizes of the other test rows of data that may be missing. Empty if there are none, or they are not known."""
    largest = max(data.parameters.get("sizes", (0,)))
    if isinstance(generalise, bool) and not largest:
        return set()  # the data would have to be generated to tell
    try:
        return set(_drawn(_task(data), generalise, largest)[0])
    except ApeError:
        return set()


def _drawn(task: BaseTask, generalise: bool | tuple[int, ...], largest: int) -> tuple[tuple[int, ...], dict[int, str]]:
    """The sizes that can be drawn, and why the others cannot, given the largest size in training."""
    sizes = multiples(largest) if isinstance(generalise, bool) else generalise
    reasons = {size: reason for size in sizes if (reason := _obstacle(task, size))}
    return tuple(size for size in sizes if size not in reasons), reasons


def _task(data: DatasetInfo) -> BaseTask:
    """The task of a dataset. Raises `ApeError` if it has no sizes, or is not known here."""
    if "sizes" not in tasks.options_of(tasks.load(data.task)):
        raise UsageError(f"{data.task} has no sizes to choose from")
    if data.parameters.get("binarise"):
        raise UsageError("the depth of a binarised tree is not the depth that is drawn")
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
    tokens = max(sized.mean_tokens, sized.mean_answer_tokens)
    return f"about {tokens:,.0f} tokens in a row, more than {_MOST_TOKENS:,}" if tokens > _MOST_TOKENS else ""


def _test_rows(task: BaseTask, seed: int, root: StoragePath) -> ChosenDataset:
    """The dataset of test rows of a task with sizes."""
    plan = generation.plan(task, seed=seed, rows={"train": 0, "validation": 0, "test": ROWS}, shard_rows=ROW_GROUP)
    folder = root / f"{task.title}-test-{plan.digest[:8]}"
    manifest = read_manifest(folder) if manifest_path(folder).exists() else None
    return ChosenDataset(
        folder=folder,
        plan=plan,
        mean_size=task.mean_size,
        mean_tokens=task.mean_tokens,
        fingerprint=manifest.fingerprint if manifest else "",
        missing=manifest is None or bool(missing_shards(folder, manifest)),
        made_by=task,
    )

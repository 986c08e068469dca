"""The base classes of everything that can write a dataset, drawn or read from a source, and the options of tasks."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from pydantic_core import to_jsonable_python

from ape_cli.core import renamed
from ape_cli.core.errors import UsageError, pick
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import SPLITS
from ape_cli.storage import sequence_rows
from ape_cli.storage.image_rows import Size
from ape_cli.structure import linearisation
from ape_cli.structure.linearisation import Order

_ROWS = {"train": 10_000, "validation": 1_000, "test": 1_000}


def option(
    default: Any,
    help: str,
    *,
    name: str | None = None,
    late: bool = False,
    between: tuple[float, float] | None = None,
    among: tuple[str, ...] = (),
) -> Any:
    """Declare an option of a task: a dataclass field with a line of help for `ape gen TASK --help`.

    - `name`: the name of the option, if it differs from that of the field.
    - `late`: leave the option out of manifests at its default, so that older manifests keep their bytes.
    - `between`: the smallest and the largest number.
    - `among`: the allowed texts.

    >>> from dataclasses import dataclass
    >>> from ape_cli import tasks
    >>> from ape_cli.tasks.copy import Copy
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Stutter(Copy):
    ...     times: int = tasks.option(2, "How often each symbol is written.", between=(1, 9))
    >>> tasks.options_of(Stutter)["times"].default
    2
    """
    metadata = {"help": help, "option": name, "late": late, "between": between, "among": among}
    return field(default=default, metadata=metadata)


class TaskOption(NamedTuple):
    """An option of a task, as its dataclass field declares it."""

    name: str
    field: str
    kind: str  # bool, int, float, str, or the annotation of another type
    default: Any
    help: str
    late: bool


def check_whole(name: str, value: float, low: float, high: float) -> None:
    """Check that the option `name` is in a range. Raises `UsageError` if it is not."""
    if not low <= value <= high:
        noun = "number" if isinstance(value, float) else "whole number"
        raise UsageError(f"bad {name}", got=value, allowed=f"a {noun} in {low}..{high}", fix="choose one of those")


_OLD_NAMES = {
    "answer": "target",
    "settle": "sample_for_split",
    "kind": "modality",
    "places_given": "positions_given",
    "mean_answer_tokens": "mean_target_tokens",
    "expected_answer_tokens": "expected_target_tokens",
}


@dataclass(frozen=True, kw_only=True)
class BaseTask(ABC):
    """Base class of everything that can be generated as a dataset. The dataclass fields of a subclass are its options.

    >>> from ape_cli import tasks
    >>> task = tasks.make("tree-copy", order="depth", depth_mean=2)
    >>> task.structure, task.mean_size
    ('tree(2)', 2.0)
    >>> task.sample(rows=range(3), split="test", seed=42).num_rows
    3
    """

    part_kind: ClassVar[str] = "task"  # for messages
    name: ClassVar[str]  # set by `load`
    summary: ClassVar[str] = ""  # a line for `ape tasks`
    source: ClassVar[str] = "Algebraic Positional Encodings, section 4.1"  # the publication
    modality: ClassVar[str] = "sequence"  # of the data, and thus of the model: `sequence` or `image`
    fixed_rows: ClassVar[bool] = False  # whether the rows come from a source of data and are the same at every preset
    ordered: ClassVar[bool] = False  # whether the data has a choice of node orders, as trees do
    ops: ClassVar[tuple[str, ...]] = ()  # names of the values of the `op` column
    default_for: ClassVar[str | None] = None  # structure for which this task is used if no dataset is named
    form_options: ClassVar[tuple[str, ...]] = ()  # options that columns of tables name if not at their default
    answer_options: ClassVar[tuple[str, ...]] = ()  # options that change the answer to, or the form of, a source
    positions_given: ClassVar[bool] = False  # for trees as targets: whether the source alone determines their nodes
    size_words: ClassVar[tuple[str, str] | None] = None  # for reports: what a size is, and the label of its axis
    preset_options: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # by preset: options beside those of the preset

    def __init_subclass__(cls) -> None:
        """Let users' own tasks define and use attributes under their names of the last version."""
        super().__init_subclass__()
        renamed.members(cls, _OLD_NAMES)

    order: Order | None = None  # node order of the target, and of the source unless `source_order` is given
    source_order: Order | None = None  # node order of the source, if it differs

    def __post_init__(self) -> None:
        """Check the options that declare their values. Raises `UsageError` if one is out of range."""
        for item in dataclasses.fields(self):
            value, name = getattr(self, item.name), item.metadata.get("option") or item.name
            if item.metadata.get("among"):
                pick(name, value, item.metadata["among"])
            if item.metadata.get("between") and value is not None:
                check_whole(name, value, *item.metadata["between"])

    @property
    @abstractmethod
    def structure(self) -> str:
        """The expression of the structure of the positions, such as `tree(2)`."""

    @property
    @abstractmethod
    def id_names(self) -> list[str]:
        """The readable name of each id, or of each label of images."""

    @property
    @abstractmethod
    def mean_size(self) -> float:
        """The mean of the distribution of sizes."""

    @property
    @abstractmethod
    def mean_tokens(self) -> float:
        """The mean number of tokens of a source; for the paper's tasks, that of a source of mean size."""

    @property
    def mean_target_tokens(self) -> float:
        """The number of tokens of a target of mean size, at most. It measures the cost of generation."""
        return self.mean_tokens

    @property
    def columns(self) -> pa.Schema:
        """The schema of the shards. The default is for positions of one coordinate."""
        return sequence_rows.schema(1)

    @property
    def image(self) -> Size | None:
        """Height, width and channels of the images; None if the rows are no images."""
        return None

    @property
    def tagged(self) -> bool:
        """Whether the target has one tag for each token of the source; PAD means that there is nothing to predict."""
        return False

    @property
    def causal(self) -> bool:
        """Whether models predict each tag from the tokens up to it, because later tokens may give it away."""
        return False

    def notes(self, seed: int) -> list[str]:
        """Lines of text about what a dataset has, for the user and the dataset card."""
        return []

    @property
    def title(self) -> str:
        """The name of the dataset's folder."""
        order = linearisation.name(self.order, self.source_order)
        return f"{self.name}-{order}" if order else self.name

    @property
    def former_title(self) -> str:
        """The name that earlier versions gave to the folder."""
        return self.title

    @property
    def options(self) -> dict[str, Any]:
        """All options with their values."""
        return {name: getattr(self, item.field) for name, item in options_of(type(self)).items()}

    @property
    def parameters(self) -> dict[str, Any]:
        """The options, as the manifest keeps them, in JSON: late options that have their default are left out."""
        declared = options_of(type(self))
        kept = {k: v for k, v in self.options.items() if not declared[k].late or v != declared[k].default}
        return to_jsonable_python(kept)

    @property
    def command_options(self) -> dict[str, Any]:
        """The options of the command that generates the dataset again."""
        return self.recorded(self.parameters)

    @classmethod
    def _of_form(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The `form_options` that are not at their default, by the parameters of a dataset."""
        options, values = options_of(cls), cls.recorded(parameters)
        chosen = {name: values.get(name, options[name].default) for name in cls.form_options}
        return {name: value for name, value in chosen.items() if value != options[name].default}

    @classmethod
    def form(cls, parameters: Mapping[str, Any]) -> str:
        """The form of a dataset by its parameters, as tables name it: `branching 3, binarise`; empty by default."""
        chosen = cls._of_form(parameters).items()
        return ", ".join(name.replace("_", " ") + ("" if value is True else f" {value}") for name, value in chosen)

    @classmethod
    def text(cls, parameters: Mapping[str, Any]) -> str:
        """The task of a dataset by its parameters, as requests name it: `modular kind=parity`."""
        values = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in cls._of_form(parameters).items()
        }
        return " ".join([cls.name, *(f"{name}={value}" for name, value in values.items())])

    @classmethod
    def options_at(cls, preset: str, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """The options of the task at a preset: those of its `sizes` that the task has, and its own for this preset."""
        declared = options_of(cls)
        return {k: v for k, v in sizes.items() if k in declared} | dict(cls.preset_options.get(preset, {}))

    @classmethod
    def recorded(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The options among the parameters that a manifest has. Some tasks record more than their options."""
        return dict(parameters)

    @classmethod
    def replaced_by_sizes(cls) -> tuple[str, ...]:
        """The options that an option `sizes` replaces; none for a task without that option."""
        return ()

    @classmethod
    def refuse(cls, options: Mapping[str, Any]) -> None:
        """Check given options and orders. Raises `UsageError` if the task cannot have them, or not together."""
        if "sizes" in options:
            got = f"sizes {options['sizes']!r}"
            raise UsageError(f"{cls.name} has no sizes to choose from", got=got, fix="leave `sizes` out")

    def rows(self, counts: Mapping[str, int | None], seed: int) -> dict[str, int]:
        """The number of rows of each split. None stands for the default: 10,000, 1,000 and 1,000."""
        return {split: _ROWS[split] if count is None else count for split, count in counts.items()}

    def manifest_fields(self, rows: int, seed: int) -> dict[str, Any]:
        """Further fields of the manifest of a dataset with so many training rows."""
        return {}

    @abstractmethod
    def sample_counted(self, *, rows: range, split: str, seed: int) -> tuple[pa.Table, int]:
        """These rows of a split as a table with the schema of a shard, and the number of shared rows.

        The source of a shared row may also be in another split. `rows` may be any range.
        """

    def content(self, part: pa.Table) -> tuple[int, int]:
        """Two 64-bit sums over the rows of a table, for the fingerprint."""
        return sequence_rows.content(part)

    def sources(self, part: pa.Table) -> U64:
        """A hash of the source of each row of a table, which finds sources that two splits share. uint64 [R]"""
        return sequence_rows.sources(part)

    def sample(self, *, rows: range, split: str, seed: int) -> pa.Table:
        """The given rows of a split, as an Arrow table with the columns of a shard. Any range of rows is allowed."""
        return self.sample_counted(rows=rows, split=split, seed=seed)[0]

    def row_sizes(self, *, rows: range, split: str, seed: int) -> I64:
        """The `size` of the given rows of a split: int64 [R]. A task may know it without making the rows."""
        return self.sample(rows=rows, split=split, seed=seed)["size"].to_numpy()


_Rows = TypeVar("_Rows", bound=Sized)


@dataclass(frozen=True, kw_only=True)
class FixedRows(BaseTask, Generic[_Rows]):
    """Base of the tasks whose rows are those of a source. Reading it may raise `DataError` or `UsageError`."""

    fixed_rows = True
    things: ClassVar[str]  # what the rows are, in the plural: `images`

    @classmethod
    def recorded(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The options among the parameters that a manifest has."""
        return {k: v for k, v in parameters.items() if k in options_of(cls)}

    @property
    def command_options(self) -> dict[str, Any]:
        """The options of the command that generates the dataset again. The path of the source is left out."""
        default = {name: item.default for name, item in options_of(type(self)).items()}
        changed = {k: "PATH" if k == "source" else v for k, v in self.options.items() if v != default[k]}
        return {"source": default["source"] or "PATH"} | changed

    @abstractmethod
    def _split(self, seed: int) -> dict[str, _Rows]:
        """All rows of each split, in the order that the seed gives them."""

    @abstractmethod
    def _table(self, row: I64, rows: _Rows, seed: int) -> tuple[pa.Table, int]:
        """The rows with these numbers of all rows of a split, and how many of them are shared. `row`: int64 [R]"""

    @cached_property
    def _by_seed(self) -> dict[int, dict[str, _Rows]]:
        return {}

    def splits(self, seed: int) -> dict[str, _Rows]:
        """All rows of each split, in the order that the seed gives them."""
        if seed not in self._by_seed:
            self._by_seed[seed] = self._split(seed)
        return self._by_seed[seed]

    def available(self, seed: int) -> dict[str, int]:
        """The number of rows that each split has."""
        return {split: len(part) for split, part in self.splits(seed).items()}

    def rows(self, counts: Mapping[str, int | None], seed: int) -> dict[str, int]:
        """The number of rows of each split; None stands for all. Raises `UsageError` if the source has fewer."""
        available = self.available(seed)
        rows = {split: available[split] if count is None else count for split, count in counts.items()}
        for split, count in rows.items():
            if count > available[split]:
                what, maximum = f"the source does not have that many {self.things} for {split}", available[split]
                raise UsageError(what, got=count, allowed=f"at most {maximum}", fix="leave it out for all")
        return rows

    def sample_counted(self, *, rows: range, split: str, seed: int) -> tuple[pa.Table, int]:
        """These rows of a split, and how many of them are shared. Raises `UsageError` for an unknown split."""
        return self._table(np.array(rows, dtype=np.int64), self.splits(seed)[pick("split", split, SPLITS)], seed)


def options_of(task: type[BaseTask]) -> dict[str, TaskOption]:
    """The options of a task by name: its dataclass fields, except the two node orders."""
    options = {}
    for item in dataclasses.fields(task):
        if item.name not in ("order", "source_order"):
            name = item.metadata.get("option") or item.name
            type_name = str(getattr(item.type, "__name__", item.type)).removesuffix(" | None")
            text, late = item.metadata.get("help", ""), item.metadata.get("late", False)
            options[name] = TaskOption(name, item.name, type_name, item.default, text, late)
    return options

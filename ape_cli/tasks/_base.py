"""The base classes of everything that can write a dataset, and the options of tasks.

Shapes: R rows.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from ape_cli.core import plugins
from ape_cli.core.errors import UsageError, pick
from ape_cli.storage.image_rows import Size
from ape_cli.structure import linearisation
from ape_cli.structure.linearisation import Order

_ROWS = {"train": 10_000, "validation": 1_000, "test": 1_000}
_KINDS: dict[str, tuple[Any, str]] = {
    "bool": (bool, "true or false"),
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "str": (str, "text"),
}


def option(
    default: Any,
    help: str,
    *,
    name: str | None = None,
    late: bool = False,
    between: tuple[float, float] | None = None,
    among: tuple[str, ...] = (),
) -> Any:
    """Declare an option of a task: a dataclass field with a line of help for `ape gen --help`.

    `name` is the name of the option if it differs from the name of the field. A `late` option was added after datasets
    had been written: manifests leave it out if it has its default, so that older manifests keep their bytes. `between`
    has the smallest and the largest value, and `among` lists the values of an option that is a text.
    """
    about = {"help": help, "option": name, "late": late, "between": between, "among": among}
    return field(default=default, metadata=about)


class TaskOption(NamedTuple):
    """An option of a task, as its dataclass field declares it."""

    name: str
    field: str
    kind: str  # bool, int, float, str, or the annotation of another type
    default: Any
    help: str
    late: bool

    def check(self, value: Any) -> None:
        """Check the type of a value. Raises `UsageError` if it is wrong. Other types are left to the task to check."""
        plugins.check_whole(self.name, value)
        right, allowed = _KINDS.get(self.kind, (object, ""))
        if not isinstance(value, right) or (right is not object and isinstance(value, bool) != (right is bool)):
            raise UsageError(f"bad {self.name}", got=repr(value), allowed=allowed, fix="give such a value")


def check_whole(name: str, value: float, low: float, high: float) -> None:
    """Check that an option lies in a range. Raises `UsageError` if it does not."""
    if not low <= value <= high:
        kind = "number" if isinstance(value, float) else "whole number"
        raise UsageError(f"bad {name}", got=value, allowed=f"a {kind} in {low}..{high}", fix="choose one of those")


class RowWriter(ABC):
    """The part of a task that is needed to write some of its rows, in another process too."""

    @property
    @abstractmethod
    def mean_tokens(self) -> float:
        """The mean number of tokens of a source; for the paper's tasks, that of a source of mean size."""

    @property
    @abstractmethod
    def mean_answer_tokens(self) -> float:
        """The number of tokens of a target of mean size, at most. It measures the cost of generation."""

    @property
    @abstractmethod
    def columns(self) -> pa.Schema:
        """The schema of the shards."""

    @abstractmethod
    def sample_counted(self, *, rows: range, split: str, seed: int) -> tuple[pa.Table, int]:
        """These rows of a split as a table with the schema of a shard, and how many of them are shared.

        A shared row has a source that may also be in another split. `rows` may be any range of row numbers.
        """

    @abstractmethod
    def content(self, part: pa.Table) -> tuple[int, int]:
        """Two 64-bit sums over the rows of a table, for the dataset's fingerprint."""


@dataclass(frozen=True, kw_only=True)
class BaseTask(RowWriter):
    """Everything that can be generated as a dataset. The dataclass fields of a subclass are its options."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `ape tasks`
    source: ClassVar[str] = "Algebraic Positional Encodings, section 4.1"
    kind: ClassVar[str] = "sequence"  # of the data, and so of the model: `sequence` or `image`
    fixed_rows: ClassVar[bool] = False  # whether the rows are those of a source of data, the same at every preset
    ordered: ClassVar[bool] = False  # whether the data has linearisations to choose from, as trees have
    ops: ClassVar[list[str]] = []  # the names of the values of the `op` column
    default_for: ClassVar[str | None] = None  # the structure whose data is this task's if no dataset is named
    form_options: ClassVar[tuple[str, ...]] = ()  # options that columns of tables name if they are not the default
    answer_options: ClassVar[tuple[str, ...]] = ()  # options by which the same source has another answer or form
    places_given: ClassVar[bool] = False  # of targets that are trees: whether the source alone shows where nodes are
    size_words: ClassVar[tuple[str, str] | None] = None  # for reports: what a size is, and the label of its axis
    preset_options: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # by preset: options beside those of the preset

    order: Order | None = None  # linearisation of the target, and of the source unless `source_order` is given
    source_order: Order | None = None  # linearisation of the source if it differs from the target's

    def __post_init__(self) -> None:
        """Check the options that declare their values. Raises `UsageError` if one is out of range."""
        for own in dataclasses.fields(self):
            value, name = getattr(self, own.name), own.metadata.get("option") or own.name
            if own.metadata.get("among"):
                pick(name, value, own.metadata["among"])
            if own.metadata.get("between"):
                check_whole(name, value, *own.metadata["between"])

    @property
    @abstractmethod
    def structure(self) -> str:
        """The expression of the structure of the positions, as `structure.parse_structure` takes it."""

    @property
    @abstractmethod
    def id_names(self) -> list[str]:
        """The readable name of each id, or of each label of images."""

    @property
    @abstractmethod
    def mean_size(self) -> float:
        """The mean of the distribution of sizes."""

    @property
    def image(self) -> Size | None:
        """Height, width and channels of the images; None if the rows are no images."""
        return None

    @property
    def tagged(self) -> bool:
        """Whether the target has one tag for each token of the source, which a model gives without earlier answers.

        PAD as a tag means that there is nothing to predict.
        """
        return False

    @property
    def origin(self) -> dict[str, str]:
        """Where each split comes from, in words, if the task has a source of data; else empty."""
        return {}

    def notes(self, seed: int) -> list[str]:
        """Lines of text about what a dataset has, for the user and the dataset card."""
        return []

    @property
    def title(self) -> str:
        """The name of the dataset's folder."""
        order = linearisation.name(self.order, self.source_order)
        return f"{self.name}-{order}" if order else self.name

    @property
    def options(self) -> dict[str, Any]:
        """Every option with its value."""
        return {own.name: getattr(self, own.field) for own in options_of(type(self)).values()}

    @property
    def parameters(self) -> dict[str, Any]:
        """The options, as the manifest keeps them: late options that have their default are left out."""
        late = {own.name: own.default for own in options_of(type(self)).values() if own.late}
        return {k: v for k, v in self.options.items() if k not in late or v != late[k]}

    @property
    def command_options(self) -> dict[str, Any]:
        """The options of the command that generates the dataset again."""
        return self.parameters

    @classmethod
    def form(cls, parameters: Mapping[str, Any]) -> str:
        """The form of a dataset, as columns of tables name it: `branching 3, binarise`; empty for the task's own form.

        `parameters` are those of the dataset's manifest.
        """
        own, parts = options_of(cls), []
        for name in cls.form_options:
            value = parameters.get(name, own[name].default)
            if value != own[name].default:
                parts.append(name.replace("_", " ") + ("" if value is True else f" {value}"))
        return ", ".join(parts)

    @classmethod
    def recorded(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The options among the parameters that a manifest has. Some tasks record more than their options."""
        return dict(parameters)

    @classmethod
    def refuse(cls, options: Mapping[str, Any]) -> None:
        """Check given options, and given orders under their names.

        Raises `UsageError` if they contradict each other or if the task cannot have them.
        """
        if "sizes" in options:
            raise UsageError(
                f"{cls.name} has no sizes to choose from",
                got=f"sizes {options['sizes']!r}",
                allowed="--sizes for tasks whose sources are drawn in different sizes",
                fix="leave --sizes out",
            )

    def rows(self, wanted: Mapping[str, int | None], seed: int) -> dict[str, int]:
        """The number of rows of each split. None in `wanted` stands for the default: 10,000, 1,000 and 1,000."""
        return {split: _ROWS[split] if count is None else count for split, count in wanted.items()}

    def portion(self, rows: range, split: str, seed: int) -> RowWriter:
        """The object that is sent to another process to write these rows."""
        return self

    def manifest_fields(self, rows: int, seed: int) -> dict[str, Any]:
        """Further fields of the manifest of a dataset with so many training rows."""
        return {}

    def sample(self, *, rows: range, split: str, seed: int) -> pa.Table:
        """These rows of a split, as a table with the schema of a shard. `rows` may be any range of row numbers."""
        return self.sample_counted(rows=rows, split=split, seed=seed)[0]


def options_of(task: type[BaseTask]) -> dict[str, TaskOption]:
    """The options of a task by name: its fields, except the two linearisations."""
    found = {}
    for own in dataclasses.fields(task):
        if own.name not in ("order", "source_order"):
            about = own.metadata
            name = about.get("option") or own.name
            kind = str(getattr(own.type, "__name__", own.type)).removesuffix(" | None")
            found[name] = TaskOption(name, own.name, kind, own.default, about.get("help", ""), about.get("late", False))
    return found

"""The plan of a dataset, which decides its content, and what a run needs to know of a dataset."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import pyarrow as pa
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from ape_cli.core.validation import HEX, checked_name
from ape_cli.core.vocabulary import SPLITS
from ape_cli.storage import image_rows, sequence_rows
from ape_cli.storage.image_rows import Size
from ape_cli.structure import Structure, StructureField, linearisation
from ape_cli.structure.linearisation import Order

_MOST_SHARDS = 20_000


class Frozen(BaseModel):
    """Base class of the parts of a manifest (`manifest.py`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def omitted_if_none(*names: str) -> Any:
    """A serialiser that leaves out these fields if they are None."""

    def compact(self: BaseModel, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return {k: v for k, v in fields.items() if k not in names or v is not None}

    return model_serializer(mode="wrap")(compact)


class DatasetPlan(Frozen):
    """Everything that a `gen` command decides. Equal plans make equal datasets."""

    task: Annotated[str, AfterValidator(partial(checked_name, "task"))]  # becomes a part of the names of runs
    structure: StructureField
    order: Order | None  # linearisation of the target, and of the source unless `source_order` is given
    parameters: dict[str, Any]
    seed: int = Field(ge=0, lt=2**63)
    rows: dict[str, Annotated[int, Field(ge=0, le=10**12)]]  # number of rows of each split
    shard_rows: int = Field(gt=0, le=10**9)
    image: Size | None = None  # height, width and channels; None for sequences
    source_order: Order | None = None  # linearisation of the source, if it differs from the target's
    tagged: bool | None = None  # True if the target has a tag for each token of the source
    code: str | None = Field(None, pattern=HEX)  # digest of the code of a user's own task (`core/plugins.py`)

    _compact = omitted_if_none("image", "source_order", "tagged", "code")

    @property
    def digest(self) -> str:
        """The SHA-256 of the plan. Each shard carries it, so that an interrupted dataset can be completed."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def differences(self, other: DatasetPlan) -> list[str]:
        """The fields in which another plan differs, in words. `other` is the plan of the present command."""

        def flat(plan: DatasetPlan) -> dict[str, object]:
            fields = plan.model_dump()
            nested = {f"{k}.{kk}": vv for k, v in fields.items() if isinstance(v, dict) for kk, vv in v.items()}
            return {k: v for k, v in fields.items() if k != "code" and not isinstance(v, dict)} | nested

        old, new = flat(self), flat(other)
        code = [] if self.code == other.code else [f"the code of the task {self.task} has changed since"]
        changed = (name for name in new | old if old.get(name) != new.get(name))
        return [*code, *(f"{name} {old.get(name)!r} there, {new.get(name)!r} now" for name in changed)]

    @property
    def linearisation(self) -> str | None:
        """The name of the linearisation in tables, folders and runs; None for data without an order."""
        return linearisation.name(self.order, self.source_order)

    @property
    def shard(self) -> pa.Schema:
        """The schema of the Parquet files."""
        return sequence_rows.schema(self.width) if self.image is None else image_rows.schema()

    @property
    def width(self) -> int:
        """The number of coordinates of a position."""
        return self.structure.width

    @property
    def kind(self) -> str:
        """The kind of the data, and so of its models: `sequence` or `image`."""
        return "sequence" if self.image is None else "image"

    @property
    def version(self) -> int:
        """The schema version of such a dataset."""
        if self.image is not None:
            return 3
        return 1 if self.width == 1 else 2

    @field_validator("structure", mode="wrap")
    @classmethod
    def _check_structure(cls, expression: Any, parse: ValidatorFunctionWrapHandler) -> Structure:
        """Parse the expression of a structure. Raises `ValueError` if it is not valid."""
        try:
            structure: Structure = parse(expression)
        except (ValidationError, RecursionError):
            raise ValueError(f"not a structure: {str(expression)[:80]!r}") from None
        if structure != structure.algebra:
            raise ValueError("line is a way of reading data, so it is not the structure of a dataset")
        return structure

    @model_validator(mode="after")
    def _check_rows(self) -> DatasetPlan:
        """Check the splits and the number of shards, before anything lists them. Raises `ValueError`."""
        if set(self.rows) != set(SPLITS):
            raise ValueError(f"not a number of rows for each of {', '.join(SPLITS)}")
        if not any(self.rows.values()):
            raise ValueError("rows: at least one row is needed")
        shards = sum(-(-rows // self.shard_rows) for rows in self.rows.values())
        if shards > _MOST_SHARDS:
            raise ValueError(f"{shards:,} shards of {self.shard_rows:,} rows; at most {_MOST_SHARDS:,} are possible")
        return self


@dataclass(frozen=True)
class Piece:
    """The place of one shard in a plan."""

    split: str
    file: str  # path in the dataset's folder
    rows: range


def pieces_of(plan: DatasetPlan) -> dict[str, list[Piece]]:
    """The planned shards of each split."""
    pieces: dict[str, list[Piece]] = {}
    for split in SPLITS:
        count = plan.rows[split]
        of = max(1, -(-count // plan.shard_rows))
        ranges = (range(i * plan.shard_rows, min(count, (i + 1) * plan.shard_rows)) for i in range(of))
        pieces[split] = [Piece(split, f"data/{split}-{i:05d}-of-{of:05d}.parquet", r) for i, r in enumerate(ranges)]
    return pieces


@dataclass(eq=False)
class DatasetInfo(ABC):
    """What is known of a dataset that is open, or of one that a sweep is going to generate.

    `plan` is everything that was chosen for the dataset. `mean_size` is the mean of the distribution of sizes, in the
    task's unit: symbols, levels of a tree, cells along a side, places of a ring or pixels. `mean_tokens` is the number
    of tokens of a source of this size. `fingerprint` is the hash of the content, 64 hexadecimal digits; it is empty
    for a dataset that was never generated.
    """

    plan: DatasetPlan
    mean_size: float
    mean_tokens: float
    fingerprint: str

    task: str = field(init=False)  # name of the task
    order: str | None = field(init=False)  # linearisation, for example `breadth` or `breadth-to-depth`; None: without
    structure: Structure = field(init=False)  # structure of the positions
    image: Size | None = field(init=False)  # height, width and number of channels of images; None for sequences
    kind: str = field(init=False)  # kind of the data, and so of its models: `sequence` or `image`
    parameters: dict[str, Any] = field(init=False)  # parameters of the task

    def __post_init__(self) -> None:
        """Take over from the plan what decides a run."""
        plan = self.plan
        self.task, self.order, self.structure = plan.task, plan.linearisation, plan.structure
        self.image, self.kind, self.parameters = plan.image, plan.kind, plan.parameters

    @abstractmethod
    def largest(self, read: Structure, *, joined: bool = False) -> int | None:
        """The `extent` of the positions of the training split, sources and targets, read as `read`.

        For sequences this is the place of the EOS of the longest one, and for trees the greatest depth. `joined`: as a
        decoder-only model reads them, where targets continue the sequences of their sources. None if the training split
        is not there.
        """


def size_key(read: Structure, *, joined: bool) -> str:
    """The key of a result of `DatasetInfo.largest` in records."""
    return f"{read.expression}, joined" if joined else read.expression

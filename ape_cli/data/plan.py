"""The plan of a dataset: everything that decides its content."""

from __future__ import annotations

from dataclasses import dataclass
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

from ape_cli.core import budget
from ape_cli.core.names import checked_name
from ape_cli.core.validation import HEX, Few, Options
from ape_cli.core.vocabulary import SPLITS
from ape_cli.storage import image_rows, sequence_rows
from ape_cli.storage.image_rows import Size
from ape_cli.structure import Structure, StructureField, linearisation
from ape_cli.structure.linearisation import Order


class Frozen(BaseModel):
    """Base class of the parts of a manifest (`manifest.py`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def late(*names: str) -> Any:
    """A serialiser that leaves out these fields if they are None.

    Older manifests do not have these fields, and their bytes must stay the same.
    """

    def compact(self: BaseModel, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = handler(self)
        return {k: v for k, v in found.items() if k not in names or v is not None}

    return model_serializer(mode="wrap")(compact)


class DatasetPlan(Frozen):
    """Everything that a `gen` command decides. Equal plans make equal datasets."""

    task: Annotated[str, AfterValidator(partial(checked_name, "task"))]  # becomes a part of the names of runs
    structure: StructureField
    order: Order | None  # linearisation of the target, and of the source unless `source_order` is given
    parameters: Options
    seed: int = Field(ge=0, lt=2**63)
    rows: Few[int]  # number of rows of each split
    shard_rows: int = Field(gt=0)
    image: Size | None = None  # height, width and channels; None for sequences
    source_order: Order | None = None  # linearisation of the source, if it differs from the target's
    tagged: bool | None = None  # True if the target has a tag for each token of the source
    code: str | None = Field(None, pattern=HEX)  # digest of the code of a user's own task (`core/own_code.py`)

    _compact = late("image", "source_order", "tagged", "code")

    def is_that_of(self, wanted: DatasetPlan) -> bool:
        """Whether a dataset with this plan is the wanted one. Early versions did not record the code of own tasks."""
        return self in (wanted, wanted.model_copy(update={"code": None}))

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
    def _of_the_language(cls, given: Any, parse: ValidatorFunctionWrapHandler) -> Structure:
        """Parse the expression of a structure. Raises `ValueError` if it is not valid."""
        try:
            found: Structure = parse(given)
        except (ValidationError, RecursionError):
            raise ValueError(f"not a structure: {str(given)[:80]!r}") from None
        if found != found.algebra:
            raise ValueError("line is a way of reading data, so it is not the structure of a dataset")
        return found

    @field_validator("image")
    @classmethod
    def _of_pixels(cls, image: Size | None) -> Size | None:
        """Check the size of images. Raises `ValueError` if it is not valid."""
        if image is not None and (not 1 <= min(image[:2]) <= max(image[:2]) < 2**16 or image[2] not in (1, 3)):
            raise ValueError("not a height and a width below 65,536 with 1 or 3 channels")
        return image

    @model_validator(mode="after")
    def _of_two_different_orders(self) -> DatasetPlan:
        """Check the orders. Raises `ValueError` if they are not valid together."""
        if self.source_order is not None and self.source_order == self.order:
            raise ValueError("source_order is given although it is the same as order")
        if self.source_order is not None and self.order is None:
            raise ValueError("data without an order has no source_order")
        return self

    @field_validator("rows")
    @classmethod
    def _of_the_three_splits(cls, rows: dict[str, int]) -> dict[str, int]:
        """Check the numbers of rows. Raises `ValueError` if a split is missing or a number is negative."""
        if set(rows) != set(SPLITS) or min(rows.values()) < 0:
            raise ValueError(f"not a number of rows for each of {', '.join(SPLITS)}")
        return rows

    @model_validator(mode="after")
    def _of_not_too_many_shards(self) -> DatasetPlan:
        """Check the number of shards before anything lists them. Raises `ValueError` if there are too many."""
        shards = sum(-(-rows // self.shard_rows) for rows in self.rows.values())
        if shards > budget.SHARDS:
            raise ValueError(f"{shards:,} shards of {self.shard_rows:,} rows; at most {budget.SHARDS:,} are possible")
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

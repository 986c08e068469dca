"""The plan of a dataset, which decides its content, and its manifest: plan, shards, and fingerprint of the content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from ape_cli.core import plugins
from ape_cli.core.errors import DataError, UsageError
from ape_cli.core.numbers import spans
from ape_cli.core.validation import HEX, Many, first_error
from ape_cli.core.vocabulary import SPLITS
from ape_cli.storage import files, image_rows, parquet, sequence_rows
from ape_cli.storage.image_rows import Moments, Size
from ape_cli.storage.paths import StoragePath, checked_name
from ape_cli.structure import StructureField, linearisation, parse_structure
from ape_cli.structure.linearisation import Order
from ape_cli.tasks import BaseTask

_MOST_SHARDS = 20_000
SHARD = re.compile(r"\.?(train|validation|test)-\d{5,}-of-\d{5,}\.parquet(\.[0-9a-f]{16})?(\.tmp(\.lock)?)?")
_MOST_BYTES = 32 * 2**20  # of a manifest
_OLD_DIGEST = "sha256"  # the digest of the file itself, in manifests of earlier versions


class Frozen(BaseModel):
    """Base class of the parts of a manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _compact(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The fields without those that are None by default."""
        fields: dict[str, Any] = handler(self)
        return {k: v for k, v in fields.items() if v is not None or type(self).model_fields[k].is_required()}


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
    causal: bool | None = None  # True if each tag is predicted from the tokens up to it
    code: str | None = Field(None, pattern=HEX)  # digest of the code of a user's own task (`core/plugins.py`)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the plan. Each shard carries it, so that an interrupted dataset can be completed."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def differences(self, other: DatasetPlan) -> list[str]:
        """The fields in which another plan differs, in words. `other` is the plan of the present command."""
        old, new = self.model_dump(), other.model_dump()
        changed = [name for name in new | old if old.get(name) != new.get(name)]
        return [
            f"the code of the task {self.task} has changed since"
            if name == "code"
            else f"{name} {old.get(name)!r} there, {new.get(name)!r} now"
            for name in changed
        ]

    @cached_property
    def linearisation(self) -> str | None:
        """The name of the linearisation in tables, folders and runs; None for data without an order."""
        return linearisation.name(self.order, self.source_order)

    @cached_property
    def shard(self) -> pa.Schema:
        """The schema of the Parquet files."""
        return sequence_rows.schema(self.structure.width) if self.image is None else image_rows.schema()

    @property
    def modality(self) -> str:
        """The modality of the data, and so of its models: `sequence` or `image`."""
        return "sequence" if self.image is None else "image"

    @property
    def version(self) -> int:
        """The schema version of such a dataset."""
        if self.image is not None:
            return 3
        return 1 if self.structure.width == 1 else 2

    @model_validator(mode="after")
    def _check_rows(self) -> DatasetPlan:
        """Check the splits and the number of shards, before anything lists them. Raises `ValueError`."""
        if self.structure != self.structure.algebra:
            raise ValueError("line is a way of reading data, so it is not the structure of a dataset")
        if set(self.rows) != set(SPLITS):
            raise ValueError(f"not a number of rows for each of {', '.join(SPLITS)}")
        if not any(self.rows.values()):
            raise ValueError("rows: at least one row is needed")
        shards = sum(-(-rows // self.shard_rows) for rows in self.rows.values())
        if shards > _MOST_SHARDS:
            raise ValueError(f"{shards:,} shards of {self.shard_rows:,} rows; at most {_MOST_SHARDS:,} are possible")
        return self


def plan_of(task: BaseTask, *, seed: int, rows: Mapping[str, int | None], shard_rows: int) -> DatasetPlan:
    """Check the options of a command and make its plan.

    In `rows`, None stands for the default number of rows of the task. Raises `UsageError` if an option is out of range.
    """
    if task.tagged and task.source_order is not None:
        got = f"a source in {task.source_order} order with a target in {task.order} order"
        raise UsageError("tags are in the order of the source", got=got, fix="leave `source_order` out")
    try:
        return DatasetPlan(
            task=task.name,
            structure=parse_structure(task.structure),
            order=task.order,
            source_order=task.source_order,
            parameters=task.parameters,
            seed=seed,
            rows=task.rows(rows, seed),
            shard_rows=shard_rows,
            image=task.image,
            tagged=task.tagged or None,
            causal=task.causal or None,
            code=plugins.digest(type(task)),
        )
    except ValidationError as error:
        raise UsageError("these rows cannot be generated", got=first_error(error), fix="choose other numbers") from None


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


def fingerprint(plan: DatasetPlan, vocabulary: list[str], shards: dict[str, list[Shard]]) -> str:
    """The fingerprint of a dataset's content, 64 hexadecimal digits. It does not depend on the division into shards."""
    totals = {}
    for split, parts in shards.items():
        sums = (sum(s.content[i] for s in parts) % 2**64 for i in (0, 1))
        totals[split] = [plan.rows[split], *sums]
    identity = json.dumps([plan.version, plan.structure.expression, vocabulary, totals], sort_keys=True)
    return hashlib.sha256(identity.encode()).hexdigest()


class Shard(Frozen):
    """One Parquet file of a dataset."""

    file: str  # path in the dataset's folder
    rows: int
    sha256: str = Field(pattern=HEX)
    content: tuple[int, int]  # two sums of hashes of the rows, each modulo 2^64
    shared: int = Field(ge=0)  # rows whose source may occur in another split too


class Manifest(Frozen):
    """The content of `manifest.json`."""

    schema_version: int = Field(ge=1, le=3)
    plan: DatasetPlan
    vocabulary: Many[str] = Field(min_length=1)  # readable name of each id; for images, class of each label
    mean_size: float = Field(ge=0, le=1e6)  # mean of lengths, depths, longer sides, or places of a ring
    mean_tokens: float = Field(gt=0, le=1e9)  # tokens of a source of mean size
    shards: dict[str, Many[Shard]]
    fingerprint: str = Field(pattern=HEX)  # does not depend on the division into shards
    versions: dict[str, str]
    moments: Moments | None = None  # mean and deviation of pixels; only for images
    sources: dict[str, Annotated[str, Field(pattern=HEX)]] | None = (
        None  # SHA-256 of each file that the rows come from, by its path below the source
    )
    overlap: dict[str, Annotated[int, Field(ge=0)]] | None = (
        None  # rows whose source is also in training; None in manifests of earlier versions
    )
    overlap_sizes: list[int] | None = None  # sizes at which they are more than 5% of the validation or the test rows

    @property
    def stored_overlap(self) -> Overlap | None:
        """How many rows are also in training; None in manifests of earlier versions."""
        return None if self.overlap is None else Overlap(self.overlap, self.overlap_sizes or [])

    @model_validator(mode="after")
    def _check_shards(self) -> Manifest:
        """Compare the shards with the plan and the fingerprint. Raises `ValueError` if they differ."""
        listed = {split: [(shard.file, shard.rows) for shard in shards] for split, shards in self.shards.items()}
        if listed != {split: [(p.file, len(p.rows)) for p in pieces] for split, pieces in pieces_of(self.plan).items()}:
            raise ValueError("the shards are not those of the plan")
        if self.schema_version != self.plan.version:
            raise ValueError(f"schema_version: not {self.plan.version}, which such data has")
        if (self.moments is None) != (self.plan.image is None):
            raise ValueError("images have moments, and other data has none")
        if self.fingerprint != fingerprint(self.plan, self.vocabulary, self.shards):
            raise ValueError("the fingerprint is not that of the structure, the vocabulary and the shards")
        return self


class Overlap(NamedTuple):
    """How many rows of other splits have a source that is also in training."""

    rows: dict[str, int]  # by split
    sizes: list[int]  # those at which these are more than 5% of the rows of a split; none for images

    def words(self, plan: DatasetPlan) -> str:
        """The overlap of the dataset of a plan, for readers. Empty if there is none."""
        what = "a source" if plan.image is None else "an image"
        counts = [
            f"{count:,} of {plan.rows[split]:,} {split} rows ({count / plan.rows[split]:.1%})"
            for split, count in self.rows.items()
            if count
        ]
        sizes = f"; above 5% at size{'s'[: len(self.sizes) - 1]} {spans(self.sizes)}" if self.sizes else ""
        return f"{' and '.join(counts)} have {what} that is also in training{sizes}" if counts else ""


def manifest_path(folder: StoragePath) -> StoragePath:
    """The path of the manifest of a dataset."""
    return folder / "manifest.json"


def open_shard(folder: StoragePath, plan: DatasetPlan, shard: Shard, *, verify: bool = True) -> pq.ParquetFile:
    """Open a shard of a dataset. With `verify`, its digest is compared with the manifest.

    Raises `DataError` if it is missing or was altered, or if it was generated by another plan than the manifest's.
    """
    file = parquet.read_shard(folder / shard.file, plan.shard, shard.sha256 if verify else None)
    if parquet.note_of(file).get("plan", digest := plan.digest) != digest:
        what = f"the manifest of {folder} was altered: {shard.file} was generated by another plan"
        raise DataError(what, fix=parquet.AGAIN)
    return file


def shard_files(folder: StoragePath) -> list[StoragePath]:
    """The files of shards in the folder of a dataset, which may be incomplete. Temporary files are included."""
    data = folder / "data"
    return [path for path in data.iterdir() if SHARD.fullmatch(path.name)] if data.is_dir() else []


def missing_shards(folder: StoragePath, manifest: Manifest) -> list[str]:
    """The shards of a manifest whose files are not in the folder, each as its path in the folder."""
    present = {f"data/{path.name}" for path in shard_files(folder)}
    return [shard.file for shards in manifest.shards.values() for shard in shards if shard.file not in present]


def read_manifest(folder: StoragePath) -> Manifest:
    """Read and check the manifest of a dataset. Raises `DataError` if the folder has no valid manifest."""
    path = manifest_path(folder)
    how = "generate one with `ape gen TASK --out DIR`"
    try:
        fields = files.read_json(path, _MOST_BYTES)
        if isinstance(fields, dict):
            fields.pop(_OLD_DIGEST, None)
        return Manifest.model_validate(fields)
    except FileNotFoundError:
        if shard_files(folder):
            what = "the dataset is not complete: generation was interrupted"
            how = "run the same `ape gen` command again"
        else:
            what = "no such dataset" if not folder.is_dir() else "the folder is not a dataset: it has no manifest.json"
        raise DataError(what, got=str(folder), fix=how) from None
    except OSError as error:
        raise DataError(f"cannot read {path}", got=error.strerror, fix=files.how_to_read(error, how)) from error
    except ValueError as error:
        what = f"{path} was altered, or was written by another version of ape"
        got = first_error(error) if isinstance(error, ValidationError) else str(error)
        raise DataError(what, got=got, fix=parquet.AGAIN) from error


def complete_manifest(folder: StoragePath) -> Manifest:
    """The manifest of a complete dataset. Raises `DataError` if the folder has none, or if a shard is missing."""
    manifest = read_manifest(folder)
    if missing := missing_shards(folder, manifest):
        again = "run the same `ape gen` command again"
        raise DataError("a shard is missing", got=str(folder / missing[0]), fix=again)
    return manifest

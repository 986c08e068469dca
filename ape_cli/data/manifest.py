"""The manifest of a dataset: its plan, its shards, and a fingerprint of their content."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated

from pydantic import (
    Field,
    ValidationError,
    model_validator,
)

from ape_cli import tasks
from ape_cli.core import budget
from ape_cli.core.errors import DataError
from ape_cli.core.validation import HEX, Few, Many, first_error
from ape_cli.core.vocabulary import FIRST_SYMBOL, SPECIAL, SPLITS
from ape_cli.data.plan import DatasetPlan, Frozen, late, pieces_of
from ape_cli.storage import digests, files
from ape_cli.storage.image_rows import Moments
from ape_cli.storage.json_files import read_json
from ape_cli.storage.paths import StoragePath

VERSIONS = (1, 2, 3)
_SHARD_BYTES = 400  # the most that a shard needs in a manifest
_SHARD_VALUES = 10  # and how many values it has
_PLAN_BYTES = 2**16  # the plan and what is left
Sources = Annotated[dict[str, Annotated[str, Field(pattern=HEX)]], Field(max_length=budget.TREE_FILES)]


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

    file: str = Field(
        pattern=r"^data/(train|validation|test)-\d{5,}-of-\d{5,}\.parquet$"
    )  # path in the dataset's folder
    rows: int = Field(ge=0)
    sha256: str = Field(pattern=HEX)
    content: tuple[int, int]  # two sums of hashes of the rows, each modulo 2^64
    shared: int = Field(ge=0)  # rows whose source may occur in another split too


class Manifest(Frozen):
    """The content of `manifest.json`."""

    schema_version: int
    plan: DatasetPlan
    vocabulary: Many[str] = Field(min_length=1)  # readable name of each id; for images, class of each label
    mean_size: float = Field(ge=0, le=1e6)  # mean of lengths, depths, longer sides, or places of a ring
    mean_tokens: float = Field(gt=0, le=1e9)  # tokens of a source of mean size
    shards: Few[Many[Shard]]
    fingerprint: str = Field(pattern=HEX)  # does not depend on the division into shards
    versions: Few[str]
    moments: Moments | None = None  # mean and deviation of pixels; only for images
    sources: Sources | None = None  # SHA-256 of each file that the rows come from, by its path below the source

    _compact = late("moments", "sources")

    @model_validator(mode="after")
    def _agrees_with_its_plan(self) -> Manifest:
        """Check that the fields agree with the plan. Raises `ValueError` if they do not."""
        if tasks.kind_of(self.plan.task) not in (self.plan.kind, None):
            what = "needs a" if self.plan.image is None else "has no"
            raise ValueError(f"task {self.plan.task} {what} size of images")
        if self.plan.image and self.plan.order:
            raise ValueError("images have no order")
        if self.plan.image is None and (
            self.vocabulary[:FIRST_SYMBOL] != SPECIAL or len(self.vocabulary) == FIRST_SYMBOL
        ):
            raise ValueError(f"the vocabulary does not begin with {' '.join(SPECIAL)}, or has no other symbols")
        if self.schema_version != self.plan.version:
            what = f"structure {self.plan.structure}" if self.plan.image is None else "images"
            raise ValueError(f"schema version {self.schema_version} cannot hold {what}")
        channels = [self.plan.image[2]] * 2 if self.plan.image else None
        if channels != (self.moments and [len(self.moments.mean), len(self.moments.std)]):
            raise ValueError("only images have moments, one pair for each channel")
        if set(self.shards) != set(SPLITS):
            raise ValueError(f"the splits of the shards are not those of the plan: {', '.join(SPLITS)}")
        for split, pieces in pieces_of(self.plan).items():
            listed = [(s.file, s.rows) for s in self.shards[split]]
            if listed != [(p.file, len(p.rows)) for p in pieces]:
                raise ValueError(f"the shards of {split} are not those of the plan")
        if self.fingerprint != fingerprint(self.plan, self.vocabulary, self.shards):
            raise ValueError("the fingerprint is not that of the structure, the vocabulary and the shards")
        return self


def manifest_path(folder: StoragePath) -> StoragePath:
    """The path of the manifest of a dataset."""
    return folder / "manifest.json"


def write_manifest(folder: StoragePath, manifest: Manifest) -> None:
    """Write the manifest of a dataset with its digest. Raises `ApeError` if it cannot be written."""
    files.write_text(manifest_path(folder), digests.sealed(manifest.model_dump_json(indent=2)))


def check_size(shards: int, vocabulary: list[str], sources: dict[str, str]) -> None:
    """Check that the manifest of a dataset can be read again, before the dataset is made. Raises `DataError`.

    `sources` has the digest of each file that the rows come from.
    """
    listed = json.dumps([vocabulary, sources], ensure_ascii=False, indent=2).encode()  # as they are in the manifest
    size = len(listed) + _SHARD_BYTES * shards + _PLAN_BYTES
    values = sum(map(listed.count, (b",", b"[", b"{"))) + _SHARD_VALUES * (shards + 100)  # as `parse_json` counts them
    if size > budget.JSON_BYTES or values > budget.JSON_VALUES:
        raise DataError(
            "the manifest of the dataset would be too large",
            got=f"{size:,} bytes with {len(sources):,} files of the source and {len(vocabulary):,} symbols",
            allowed=f"{budget.JSON_BYTES:,} bytes, and {budget.JSON_VALUES:,} values",
            fix="take fewer files, or put their texts into a column of one Parquet file"
            if sources
            else "choose a smaller vocabulary",
        )


def read_manifest(folder: StoragePath) -> Manifest:
    """Read and check the manifest of a dataset. Raises `DataError` if the folder has no valid manifest."""
    return read_sealed_manifest(folder)[0]


def read_sealed_manifest(folder: StoragePath) -> tuple[Manifest, bool]:
    """Read and check the manifest of a dataset. Also returns whether it has a digest, which older manifests lack.

    Raises `DataError` if the folder has no valid manifest.
    """
    path = manifest_path(folder)
    how = "generate one with `ape gen TASK --out DIR`"
    try:
        content, raw = read_json(path)
    except FileNotFoundError:
        if not folder.is_dir():
            raise DataError("no such dataset", got=str(folder), fix=how) from None
        half = (folder / ".plan.json").exists()
        raise DataError(
            "the dataset is not complete: generation was interrupted"
            if half
            else "the folder is not a dataset: it has no manifest.json",
            got=str(folder),
            fix="run the same `ape gen` command again to continue" if half else how,
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {path}", got=error.strerror, fix=files.how_to_read(error, how)) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"cannot read {path}", got=str(error), fix=how) from error
    if not isinstance(raw, dict) or "schema_version" not in raw:
        raise DataError(f"{path} is damaged", got="no schema_version in it", fix="generate it again")
    again = "generate the dataset again with --overwrite"
    version = raw["schema_version"]
    if version not in VERSIONS or isinstance(version, bool):
        allowed = " or ".join(map(str, VERSIONS))
        raise DataError(f"{path} has another schema version", got=version, allowed=allowed, fix="generate it again")
    try:
        sealed = digests.is_sealed(content, raw)
        raw.pop(digests.FIELD, None)
        return Manifest.model_validate(raw), sealed
    except digests.AlteredError as error:
        raise DataError(f"{path} was altered", got=str(error), fix=f"restore it, or {again}") from error
    except ValidationError as error:
        raise DataError(f"{path} is damaged", got=first_error(error), fix=again) from error

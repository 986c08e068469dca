"""The manifest of a dataset: its plan, its shards, and a fingerprint of their content."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated

from pydantic import Field, ValidationError, model_validator

from ape_cli.core import budget
from ape_cli.core.errors import DataError
from ape_cli.core.validation import HEX, Few, Many, first_error
from ape_cli.data.plan import DatasetPlan, Frozen, omitted_if_none, pieces_of
from ape_cli.storage import digests, files
from ape_cli.storage.image_rows import Moments
from ape_cli.storage.json_files import read_json
from ape_cli.storage.paths import StoragePath

SHARD = re.compile(r"\.?(train|validation|test)-\d{5,}-of-\d{5,}\.parquet(\.[0-9a-f]{16})?(\.tmp(\.lock)?)?")
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
    shards: Few[Many[Shard]]
    fingerprint: str = Field(pattern=HEX)  # does not depend on the division into shards
    versions: Few[str]
    moments: Moments | None = None  # mean and deviation of pixels; only for images
    sources: Sources | None = None  # SHA-256 of each file that the rows come from, by its path below the source

    _compact = omitted_if_none("moments", "sources")

    @model_validator(mode="after")
    def _check_shards(self) -> Manifest:
        """Compare the shards with the plan and the fingerprint. Raises `ValueError` if they differ."""
        listed = {split: [(shard.file, shard.rows) for shard in shards] for split, shards in self.shards.items()}
        if listed != {split: [(p.file, len(p.rows)) for p in pieces] for split, pieces in pieces_of(self.plan).items()}:
            raise ValueError("the shards are not those of the plan")
        if (self.moments is None) != (self.plan.image is None):
            raise ValueError("images have moments, and other data has none")
        if self.fingerprint != fingerprint(self.plan, self.vocabulary, self.shards):
            raise ValueError("the fingerprint is not that of the structure, the vocabulary and the shards")
        return self


def manifest_path(folder: StoragePath) -> StoragePath:
    """The path of the manifest of a dataset."""
    return folder / "manifest.json"


def write_manifest(folder: StoragePath, manifest: Manifest) -> None:
    """Write the manifest of a dataset with its digest. Raises `ApeError` if it cannot be written."""
    files.write_text(manifest_path(folder), digests.sealed(manifest.model_dump_json(indent=2)))


def shard_files(folder: StoragePath) -> list[StoragePath]:
    """The files of shards in the folder of a dataset, which may be incomplete. Temporary files are included."""
    data = folder / "data"
    return [path for path in data.iterdir() if SHARD.fullmatch(path.name)] if data.is_dir() else []


def read_manifest(folder: StoragePath) -> Manifest:
    """Read and check the manifest of a dataset. Raises `DataError` if the folder has no valid manifest."""
    path = manifest_path(folder)
    how = "generate one with `ape gen TASK --out DIR`"
    again = "generate the dataset again with --overwrite"
    try:
        content, fields = read_json(path, budget.MANIFEST_BYTES)
        digests.is_sealed(content, fields)
        if isinstance(fields, dict):
            fields.pop(digests.FIELD, None)
        return Manifest.model_validate(fields)
    except FileNotFoundError:
        if shard_files(folder):
            what, how = (
                "the dataset is not complete: generation was interrupted",
                "run the same `ape gen` command again",
            )
        elif folder.is_dir():
            what = "the folder is not a dataset: it has no manifest.json"
        else:
            what = "no such dataset"
        raise DataError(what, got=str(folder), fix=how) from None
    except OSError as error:
        raise DataError(f"cannot read {path}", got=error.strerror, fix=files.how_to_read(error, how)) from error
    except digests.AlteredError as error:
        raise DataError(f"{path} was altered", got=str(error), fix=f"restore it, or {again}") from error
    except ValidationError as error:
        what = f"{path} is damaged, or was written by another version of ape"
        raise DataError(what, got=first_error(error), fix=again) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"cannot read {path}", got=str(error), fix=how) from error

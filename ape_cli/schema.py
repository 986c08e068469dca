"""The dataset on disk: the Arrow schema of a shard, and the manifest that vouches for it.

Version 1: a position is one number, as in every structure with one simple factor. Version 2: it has C > 1
coordinates, one for each simple factor, and is stored as a list of C; all else is as in version 1.

`DIR/data/{train,validation,test}-00000-of-00004.parquet`, `DIR/manifest.json`, `DIR/README.md` (a
dataset card). Ids are model ids: 0 PAD, 1 SOS, 2 EOS, symbols from 3 on. The manifest is written
last, so that its existence says that the shards are whole; it carries the SHA-256 of each.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ape_cli import files, streams, structure
from ape_cli.errors import DataError, UsageError
from ape_cli.streams import I64, U64
from ape_cli.structure import Cyclic, Structure, Tree

VERSIONS = (1, 2)
PAD, SOS, EOS, FIRST_SYMBOL = 0, 1, 2, 3
SPECIAL = ["<pad>", "<sos>", "<eos>"]
SPLITS = ("train", "validation", "test")
ROW_GROUP = 32_768  # rows

_LISTS = {
    "source_ids": "uint16",
    "source_positions": "uint64",
    "target_ids": "uint16",
    "target_positions": "uint64",
}


def shard(width: int = 1) -> pa.Schema:
    """The schema of a shard whose positions have `width` coordinates."""
    fields = [pa.field("row", pa.uint64(), nullable=False)]
    for name, kind in _LISTS.items():
        element = pa.field("element", getattr(pa, kind)(), nullable=False)
        if width > 1 and name.endswith("positions"):
            element = pa.field("element", pa.list_(element, width), nullable=False)
        fields.append(pa.field(name, pa.list_(element), nullable=False))
    fields += [pa.field("size", pa.uint16(), nullable=False), pa.field("op", pa.dictionary(pa.int32(), pa.string()))]
    return pa.schema(fields)


SHARD = shard()  # of version 1


def table(
    row: U64,
    source: tuple[I64, I64, I64],
    target: tuple[I64, I64, I64],
    size: I64,
    op: I64 | None,
    op_names: list[str],
) -> pa.Table:
    """A table of a shard's schema from whole arrays; `source` and `target` are (starts, positions, ids).

    Positions are [T], or [T, C] where they have several coordinates.
    """

    def lists(starts: I64, values: I64, kind: str) -> pa.ListArray:
        flat = pa.array(values.astype(kind, copy=False).ravel())
        if values.ndim == 2:
            flat = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
        return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32, copy=False)), flat)

    ops = pa.nulls(row.size, pa.int32()) if op is None else pa.array(op.astype(np.int32, copy=False))
    columns = [
        pa.array(row.astype(np.uint64, copy=False)),
        lists(source[0], source[2], "uint16"),
        lists(source[0], source[1], "uint64"),
        lists(target[0], target[2], "uint16"),
        lists(target[0], target[1], "uint64"),
        pa.array(size.astype(np.uint16)),
        pa.DictionaryArray.from_arrays(ops, pa.array(op_names, pa.string())),
    ]
    wanted = shard(1 if source[1].ndim == 1 else source[1].shape[1])
    # the list type is spelled out, so that its inner field is "element" as the Parquet standard says
    return pa.table([c.cast(f.type) for c, f in zip(columns, wanted, strict=True)], schema=wanted)


def positions(column: pa.ListArray) -> U64:
    """The positions of all rows, flat. [T], or [T, C] where they have several coordinates."""
    flat = column.values
    if pa.types.is_fixed_size_list(flat.type):
        return flat.flatten().to_numpy().reshape(-1, flat.type.list_size)
    return flat.to_numpy()


def writer(path: Path, width: int = 1) -> pq.ParquetWriter:
    """BYTE_STREAM_SPLIT and zstd without dictionaries: smaller and faster on such data."""
    deep = {name: ".list.element" if width > 1 and name.endswith("positions") else "" for name in _LISTS}
    numbers = ["row", "size", *(f"{name}.list.element{more}" for name, more in deep.items())]
    encoding = dict.fromkeys(numbers, "BYTE_STREAM_SPLIT")
    return pq.ParquetWriter(
        path,
        shard(width),
        compression="zstd",
        use_dictionary=["op"],
        column_encoding=encoding,
        write_statistics=["row"],
    )


def content(part: pa.Table) -> tuple[int, int]:
    """Two 64-bit sums over the rows' hashes; sums of parts add up, whatever the parts are."""
    word = part["row"].to_numpy().astype(np.uint64)
    for name in ("source", "target"):
        ids, places = (part[f"{name}_{what}"].combine_chunks() for what in ("ids", "positions"))
        starts = ids.offsets.to_numpy().astype(np.int64)
        at, symbol = streams.fold(positions(places)), ids.values.to_numpy()
        place = np.arange(at.size, dtype=np.uint64) - np.repeat(starts[:-1], np.diff(starts)).astype(np.uint64)
        word = streams.mix(word + streams.content(starts, streams.mix(at + (place << np.uint64(40))), symbol))
    op = part["op"].combine_chunks().indices.fill_null(99).to_numpy().astype(np.uint64)
    word = streams.mix(word + part["size"].to_numpy().astype(np.uint64) * np.uint64(256) + op)
    return int(word.sum(dtype=np.uint64)), int(streams.child(word, "second").sum(dtype=np.uint64))


def check_rows(part: pa.Table, own: Structure, ids: int) -> None:
    """Every id is in the vocabulary, and every position one that the structure has; else a `DataError`."""
    for side in ("source", "target"):
        symbol = part[f"{side}_ids"].combine_chunks().values.to_numpy()
        if symbol.size and not FIRST_SYMBOL <= symbol.min() <= symbol.max() < ids:
            wrong = symbol[(symbol < FIRST_SYMBOL) | (symbol >= ids)][0]
            raise DataError(
                f"a {side} id is not in the vocabulary", got=wrong, allowed=f"{FIRST_SYMBOL} to {ids - 1}", fix=_AGAIN
            )
        at = positions(part[f"{side}_positions"].combine_chunks())
        for factor, coordinate in zip(own.simple, at.reshape(-1, own.width).T, strict=True):
            low, high = _range(factor)
            least, greatest = (int(coordinate.min()), int(coordinate.max())) if coordinate.size else (low, low)
            if least < low or greatest > high:
                deep = " (a path too deep for a heap index?)" if isinstance(factor, Tree) else ""
                raise DataError(
                    f"a {side} position is not one of {factor.expression}{deep}",
                    got=greatest if greatest > high else least,
                    allowed=f"{low} to {high}",
                    fix=_AGAIN,
                )


_AGAIN = "generate it again"


def _range(factor: Structure) -> tuple[int, int]:
    """The least and the greatest coordinate that a dataset may store."""
    if isinstance(factor, Tree):
        return 1, int(factor.level_start(factor.max_depth + 1)) - 1
    return 0, factor.order - 1 if isinstance(factor, Cyclic) else 2**63 - 2  # 1 is added to it


def fingerprint(plan: Plan, vocabulary: list[str], shards: dict[str, list[Shard]]) -> str:
    """Of a dataset's content, however it is cut into shards."""
    totals = {}
    for split, parts in shards.items():
        sums = (sum(s.content[i] for s in parts) % 2**64 for i in (0, 1))
        totals[split] = [plan.rows[split], *sums]
    identity = json.dumps([plan.version, plan.structure, vocabulary, totals], sort_keys=True)
    return hashlib.sha256(identity.encode()).hexdigest()


_HEX = r"^[0-9a-f]{64}$"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Shard(_Frozen):
    file: str = Field(pattern=r"^data/(train|validation|test)-\d{5,}-of-\d{5,}\.parquet$")  # in the dataset's folder
    rows: int = Field(ge=0)
    sha256: str = Field(pattern=_HEX)
    content: tuple[int, int]
    shared: int = Field(ge=0)  # rows whose source may stand in another split too


class Plan(_Frozen):
    """Everything that a `gen` command decides: equal plans make equal datasets."""

    task: str
    structure: str
    order: Literal["breadth", "depth"] | None
    parameters: dict[str, Any]
    seed: int
    rows: dict[str, int]  # of each split
    shard_rows: int = Field(gt=0)

    @property
    def width(self) -> int:
        """Coordinates of a position."""
        return structure.parse(self.structure).width

    @property
    def version(self) -> int:
        """The schema version of such a dataset."""
        return 1 if self.width == 1 else 2

    @field_validator("structure")
    @classmethod
    def _of_the_language(cls, expression: str) -> str:
        try:
            return structure.parse(expression).expression
        except (UsageError, RecursionError):
            raise ValueError(f"not a structure: {expression[:80]!r}") from None

    @field_validator("rows")
    @classmethod
    def _of_the_three_splits(cls, rows: dict[str, int]) -> dict[str, int]:
        if set(rows) != set(SPLITS) or min(rows.values()) < 0:
            raise ValueError(f"not a number of rows for each of {', '.join(SPLITS)}")
        return rows


@dataclass(frozen=True)
class Piece:
    """One shard of a plan."""

    split: str
    file: str  # in the dataset's folder
    rows: range


def pieces_of(plan: Plan) -> dict[str, list[Piece]]:
    """The shards of each split."""
    pieces: dict[str, list[Piece]] = {}
    for split in SPLITS:
        count = plan.rows[split]
        of = max(1, -(-count // plan.shard_rows))
        ranges = (range(i * plan.shard_rows, min(count, (i + 1) * plan.shard_rows)) for i in range(of))
        pieces[split] = [Piece(split, f"data/{split}-{i:05d}-of-{of:05d}.parquet", r) for i, r in enumerate(ranges)]
    return pieces


class Manifest(_Frozen):
    schema_version: int
    plan: Plan
    vocabulary: list[str] = Field(min_length=FIRST_SYMBOL + 1)  # id -> readable name
    mean_size: float = Field(ge=0)  # of the distribution: length, depth, longer side, places of a ring
    mean_tokens: float = Field(gt=0)  # of a source, as the distribution's mean size gives it
    shards: dict[str, list[Shard]]
    fingerprint: str = Field(pattern=_HEX)  # of the content, however it is cut into shards
    versions: dict[str, str]

    @model_validator(mode="after")
    def _agrees_with_its_plan(self) -> Manifest:
        if self.vocabulary[:FIRST_SYMBOL] != SPECIAL:
            raise ValueError(f"the vocabulary does not begin with {' '.join(SPECIAL)}")
        if self.schema_version != self.plan.version:
            raise ValueError(f"schema version {self.schema_version} cannot hold structure {self.plan.structure}")
        for split, pieces in pieces_of(self.plan).items():
            listed = [(s.file, s.rows) for s in self.shards.get(split, [])]
            if listed != [(p.file, len(p.rows)) for p in pieces]:
                raise ValueError(f"the shards of {split} are not those of the plan")
        if self.fingerprint != fingerprint(self.plan, self.vocabulary, self.shards):
            raise ValueError("the fingerprint is not that of the structure, the vocabulary and the shards")
        return self


def manifest_path(folder: Path) -> Path:
    return folder / "manifest.json"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a dataset; a `DataError` says why a folder is not one."""
    path = manifest_path(folder)
    how = "generate one with `ape gen TASK --out DIR`"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if not folder.is_dir():
            raise DataError("no such dataset", got=str(folder), fix=how) from None
        half = (folder / ".plan.json").exists()
        raise DataError(
            "the dataset is not complete: generation was interrupted"
            if half
            else "the folder is not a dataset: it has no manifest.json",
            got=str(folder),
            fix="run the same `ape gen` command again to go on" if half else how,
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read {path}", got=str(error), fix=how) from error
    if not isinstance(raw, dict) or "schema_version" not in raw:
        raise DataError(f"{path} is damaged", got="no schema_version in it", fix="generate the dataset again")
    version = raw["schema_version"]
    if version not in VERSIONS or isinstance(version, bool):
        allowed = " or ".join(map(str, VERSIONS))
        raise DataError(f"{path} has another schema version", got=version, allowed=allowed, fix="generate it again")
    try:
        return Manifest.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(f"{path} is damaged", got=f"{where}: {first['msg']}", fix="generate it again") from error


def check_shards(folder: Path, manifest: Manifest) -> None:
    """Every shard is there, byte for byte as generated; else a `DataError` names the first that is not."""
    for shards in manifest.shards.values():
        for shard in shards:
            check_shard(folder, shard)


def check_shard(folder: Path, shard: Shard) -> None:
    path = folder / shard.file
    if not path.is_file():
        raise DataError("a shard is missing", got=str(path), fix="run the same `ape gen` command again")
    try:
        digest = files.sha256(path)
    except OSError as error:
        raise DataError(f"cannot read {path}", got=error.strerror, fix="make it readable") from error
    if digest != shard.sha256:
        raise DataError(
            f"a shard was altered or cut short: {path}",
            got=f"sha256 {digest[:16]}…",
            allowed=f"sha256 {shard.sha256[:16]}… (manifest.json)",
            fix="run the same `ape gen` command with --overwrite, or restore the file",
        )


def read_shard(path: Path, width: int = 1) -> pq.ParquetFile:
    """An open shard, if it is a Parquet file of the schema for positions of `width` coordinates."""
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot read {path}", got=str(error).splitlines()[0], fix="generate it again") from error
    wanted = shard(width)
    if not file.schema_arrow.equals(wanted):
        raise DataError(
            f"{path} is a Parquet file of another schema",
            got=", ".join(file.schema_arrow.names),
            allowed=f"{', '.join(wanted.names)}; positions are {wanted.field('source_positions').type}",
            fix="point to a folder that `ape gen` wrote",
        )
    return file

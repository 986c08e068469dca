"""A dataset's folder while it is being made: what stands there, what of it can be kept, what may go.

`.plan.json` says which command began the folder; `data/.NAME.json` vouches for each shard that this
command finished. Both are gone once the manifest is there. A file that is not of a dataset is never
touched.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from ape_cli.core.errors import ApeError, DataError, PlaceError
from ape_cli.data import verification
from ape_cli.data.manifest import DatasetPlan, Manifest, Piece, Shard, manifest_path, pieces_of, read_manifest
from ape_cli.storage import files
from ape_cli.storage.image_rows import Moments, Size
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import StoragePath

LOCK = ".lock"
_PLAN = ".plan.json"
_SHARD = re.compile(r"\.{0,2}(train|validation|test)-\d{5,}-of-\d{5,}\.parquet(\.json)?(\.tmp)?")


class RowWriter(Protocol):
    """What is asked of a task to write some of its rows."""

    @property
    def mean_tokens(self) -> float: ...
    @property
    def mean_answer_tokens(self) -> float: ...
    @property
    def columns(self) -> pa.Schema: ...
    def sample_counted(self, *, rows: range, split: str, seed: int) -> tuple[pa.Table, int]: ...
    def content(self, part: pa.Table) -> tuple[int, int]: ...


class DatasetTask(RowWriter, Protocol):
    """What is asked of a task to write its dataset."""

    @property
    def name(self) -> str: ...
    @property
    def order(self) -> str | None: ...
    @property
    def source_order(self) -> str | None: ...
    @property
    def structure(self) -> str: ...
    @property
    def parameters(self) -> dict[str, Any]: ...
    @property
    def title(self) -> str: ...
    @property
    def image(self) -> Size | None: ...
    @property
    def id_names(self) -> list[str]: ...
    @property
    def mean_size(self) -> float: ...
    @property
    def given(self) -> dict[str, Any]: ...  # options of the command that makes it again
    @property
    def origin(self) -> dict[str, str]: ...  # of splits that a source has, in words
    def rows(self, wanted: Mapping[str, int | None], seed: int) -> dict[str, int]: ...
    def portion(self, rows: range, split: str, seed: int) -> RowWriter: ...
    def moments(self, rows: int, seed: int) -> Moments | None: ...


def standing(out: StoragePath, wanted: DatasetPlan, overwrite: bool) -> Manifest | None:
    """The manifest, if the folder holds just this dataset; None if it is to be written, or finished.

    Raises `DataError` where it holds something else.
    """
    manifest_there = manifest_path(out).exists()
    begun_there = (out / _PLAN).exists()
    shards_there = bool(_shards(out))
    foreign = sorted(p.name for p in out.iterdir() if not _own(p))
    if not (manifest_there or begun_there or shards_there):
        if foreign:
            raise DataError(
                "the folder is not empty and holds no dataset",
                got=f"{out} with {', '.join(foreign[:5])}",
                allowed="a new or an empty folder, or one that `ape gen` wrote",
                fix="choose another --out",
            )
        return None
    if overwrite:
        return None
    if manifest_there:
        manifest = read_manifest(out)
        if manifest.plan != wanted:
            raise _different(out, manifest.plan, wanted)
        for shards in manifest.shards.values():
            for shard in shards:
                if (out / shard.file).exists():
                    verification.check_shard(out, shard)
        return manifest
    begun = _read_plan(out / _PLAN)
    if begun is None:
        raise DataError(
            "the folder holds shards, and nothing that says of which dataset",
            got=str(out),
            fix="choose another --out, or --overwrite to replace them",
        )
    if begun != wanted:
        raise _different(out, begun, wanted)
    return None


def begin(out: StoragePath, task: DatasetTask, wanted: DatasetPlan) -> dict[str, Shard]:
    """Make the folder ready for this plan; the shards of it that are whole already.

    Nothing is removed before it is known that there is room for what replaces it.
    """
    same = not manifest_path(out).exists() and _read_plan(out / _PLAN) == wanted
    found: dict[str, Shard] = {}
    for pieces in pieces_of(wanted).values() if same else ():
        found |= {piece.file: shard for piece in pieces if (shard := _adopt(out, piece))}
    _check_space(out, task, wanted, found)
    if not same:
        _drop_vouchers(out)  # first: no shard of another plan may be taken for ours
    files.write_text(out / _PLAN, wanted.model_dump_json(indent=2) + "\n")
    manifest_path(out).unlink(missing_ok=True)
    kept = {(out / file).name for file in found}
    for path in _shards(out):
        if path.name.lstrip(".").removesuffix(".json") not in kept:
            path.unlink()
    return found


def record(out: StoragePath, shard: Shard) -> None:
    """Vouch for a shard that is done."""
    path = out / shard.file
    files.write_text(path.with_name(f".{path.name}.json"), shard.model_dump_json())


def finish(out: StoragePath) -> None:
    """The manifest is there: what led to it goes."""
    _drop_vouchers(out)
    (out / _PLAN).unlink(missing_ok=True)


def _drop_vouchers(out: StoragePath) -> None:
    for path in _shards(out):
        if path.name.endswith(".json"):
            path.unlink()


def _own(path: StoragePath) -> bool:
    """Whether an entry of the folder can only be ours, or holds nothing."""
    if path.name == "data" and path.is_dir():
        return all(_SHARD.fullmatch(p.name) for p in path.iterdir())
    lease = path.name.startswith(f"{LOCK}.")
    return lease or path.name in {LOCK, _PLAN, "manifest.json"} or path.name.endswith(".tmp")


def _shards(out: StoragePath) -> list[StoragePath]:
    """Shards, and what stands beside them."""
    data = out / "data"
    return [p for p in data.iterdir() if p.is_file() and _SHARD.fullmatch(p.name)] if data.is_dir() else []


def _adopt(out: StoragePath, piece: Piece) -> Shard | None:
    """A shard that was finished before an interruption and is still as it was."""
    path = out / piece.file
    try:
        shard = Shard.model_validate_json(path.with_name(f".{path.name}.json").read_text(encoding="utf-8"))
        return shard if shard.rows == len(piece.rows) and files.sha256(path) == shard.sha256 else None
    except PlaceError:
        raise
    except (OSError, ValueError):
        return None


def _read_plan(path: StoragePath) -> DatasetPlan | None:
    try:
        return DatasetPlan.model_validate_json(path.read_text(encoding="utf-8"))
    except PlaceError:
        raise
    except (OSError, ValueError):
        return None


def _different(out: StoragePath, there: DatasetPlan, wanted: DatasetPlan) -> DataError:
    def flat(plan: DatasetPlan) -> dict[str, object]:
        fields = plan.model_dump()
        nested = {f"{k}.{kk}": vv for k, v in fields.items() if isinstance(v, dict) for kk, vv in v.items()}
        return {k: v for k, v in fields.items() if not isinstance(v, dict)} | nested

    old, new = flat(there), flat(wanted)
    differing = [f"{k} {old.get(k)!r} there, {new.get(k)!r} now" for k in new | old if old.get(k) != new.get(k)]
    return DataError(
        f"{out} holds another dataset",
        got="; ".join(differing[:6]),
        allowed="the same command, or an empty folder",
        fix="choose another --out, or --overwrite to replace it",
    )


def _check_space(out: StoragePath, task: DatasetTask, wanted: DatasetPlan, found: dict[str, Shard]) -> None:
    """A byte a token is less than was ever seen. An object store has no end."""
    if isinstance(out, RemotePath):
        return
    rows = sum(wanted.rows.values()) - sum(s.rows for s in found.values())
    need = rows * (task.mean_tokens + task.mean_answer_tokens) / 2
    freed = sum(p.stat().st_size for p in _shards(out)) - sum((out / f).stat().st_size for f in found)
    free = shutil.disk_usage(out).free + freed
    if need > free:
        raise ApeError(
            "the dataset would not fit on the disk",
            got=f"at least {need / 1e6:,.1f} MB for {out}",
            allowed=f"{free / 1e6:,.1f} MB",
            fix="choose a smaller --n or another --out",
        )

"""The folder of a dataset while it is being generated: its state, the shards that can be kept and the files to remove.

Two kinds of files record the progress. `.plan.json` holds the plan of the command that began the folder.
`data/.NAME.json` describes a shard that this command finished, with its SHA-256; it is called the shard's record. Both
are removed after the manifest has been written. Files that do not belong to a dataset are never touched.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from typing import Any

from pyarrow import ArrowException

from ape_cli.core.errors import ApeError, DataError
from ape_cli.core.vocabulary import SPECIAL
from ape_cli.data import verification
from ape_cli.data.manifest import Manifest, Shard, check_size, manifest_path, read_manifest
from ape_cli.data.plan import DatasetPlan, Piece, pieces_of
from ape_cli.storage import digests, files, folders
from ape_cli.storage.json_files import read_json
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.parquet import check_length
from ape_cli.storage.paths import StoragePath
from ape_cli.tasks import BaseTask

LOCK = ".lock"
_PLAN = ".plan.json"
_SHARD = re.compile(
    r"\.{0,2}(train|validation|test)-\d{5,}-of-\d{5,}\.parquet(\.json)?(\.[0-9a-f]{16})?(\.tmp)?(\.lock)?"
)


def is_begun(folder: StoragePath) -> bool:
    """Whether a command has begun to generate a dataset in a folder, and has not finished it."""
    return (folder / _PLAN).exists()


def standing(out: StoragePath, wanted: DatasetPlan, overwrite: bool) -> Manifest | None:
    """The manifest if the folder already holds the wanted dataset; None if the dataset is to be written or completed.

    With `overwrite`, the result is None for every folder that holds files of a dataset.

    Raises `DataError` if the folder holds something else or leads elsewhere, or if a shard is damaged.
    """
    if folders.is_link(out / "data"):
        got, fix = "data is a symbolic link", "remove the link, or choose another --out"
        raise DataError(f"{out} cannot be written", got=got, allowed="a folder of its own", fix=fix)
    manifest_there = manifest_path(out).exists()
    begun_there = (out / _PLAN).exists()
    shards_there = bool(_shards(out))
    foreign = sorted(p.name for p in out.iterdir() if not _own(p))
    if not (manifest_there or begun_there or shards_there):
        if foreign:
            raise DataError(
                "the folder is not empty, and it does not hold a dataset",
                got=f"{out} with {', '.join(foreign[:5])}",
                allowed="a new or an empty folder, or one that `ape gen` wrote",
                fix="choose another --out",
            )
        return None
    if overwrite:
        return None
    if manifest_there:
        manifest = read_manifest(out)
        if not manifest.plan.is_that_of(wanted):
            raise _different(out, manifest.plan, wanted)
        for shards in manifest.shards.values():
            for shard in shards:
                if (out / shard.file).exists():
                    verification.check_shard(out, shard)
        return manifest
    begun = _read_plan(out / _PLAN)
    if begun is None:
        raise DataError(
            "the folder holds shards, but no plan says to which dataset they belong",
            got=str(out),
            fix="choose another --out, or --overwrite to replace them",
        )
    if not begun.is_that_of(wanted):
        raise _different(out, begun, wanted)
    return None


def begin(out: StoragePath, task: BaseTask, wanted: DatasetPlan) -> dict[str, Shard]:
    """Prepare the folder for a plan. Returns the shards of the plan that are complete already, by file name.

    Nothing is removed before the free disk space and the size of the manifest have been checked. Raises `ApeError` if
    the dataset would not fit, or if its manifest would be too large to be read again.
    """
    same = not manifest_path(out).exists() and _read_plan(out / _PLAN) == wanted
    found: dict[str, Shard] = {}
    for pieces in pieces_of(wanted).values() if same else ():
        found |= {piece.file: shard for piece in pieces if (shard := _adopt(out, piece, wanted))}
    check_size(sum(map(len, pieces_of(wanted).values())), task.id_names, task.files)
    _check_space(out, task, wanted, found)
    if not same:
        _drop_records(out)  # first, so that no shard of another plan is taken for one of this plan
    files.write_text(out / _PLAN, digests.sealed(wanted.model_dump_json(indent=2)))
    manifest_path(out).unlink(missing_ok=True)
    kept = {(out / file).name for file in found}
    for path in _shards(out):
        if path.name.lstrip(".").removesuffix(".json") not in kept:
            path.unlink()
    return found


def record(out: StoragePath, shard: Shard) -> None:
    """Write the record of a finished shard."""
    path = out / shard.file
    described = json.dumps({"shard": shard.model_dump()}, indent=2)
    files.write_text(path.with_name(f".{path.name}.json"), digests.sealed(described))


def finish(out: StoragePath) -> None:
    """Remove the plan and the records of shards. The manifest has been written and replaces them."""
    _drop_records(out)
    (out / _PLAN).unlink(missing_ok=True)


def _drop_records(out: StoragePath) -> None:
    """Remove the records of all shards."""
    for path in _shards(out):
        if path.name.endswith(".json"):
            path.unlink()


def _own(path: StoragePath) -> bool:
    """Whether an entry of the folder can only be ours. A folder `data` without foreign files counts as ours."""
    if path.name == "data" and path.is_dir():
        return all(_SHARD.fullmatch(p.name) for p in path.iterdir())
    lease = path.name.startswith(f"{LOCK}.")
    return lease or path.name in {LOCK, _PLAN, "manifest.json"} or path.name.endswith((".tmp", ".tmp.lock"))


def _shards(out: StoragePath) -> list[StoragePath]:
    """The files of shards, with their records and temporary files."""
    data = out / "data"
    return [p for p in data.iterdir() if p.is_file() and _SHARD.fullmatch(p.name)] if data.is_dir() else []


def _adopt(out: StoragePath, piece: Piece, plan: DatasetPlan) -> Shard | None:
    """The record of a shard that was finished before an interruption.

    None if the record is missing or does not match the file and its rows.
    """
    path = out / piece.file
    try:
        shard = Shard.model_validate(_sealed_json(path.with_name(f".{path.name}.json"))["shard"])
        check_length(path)
        if shard.rows != len(piece.rows) or files.sha256(path) != shard.sha256:
            return None
        return shard if verification.content_of(path, plan) == shard.content else None
    except (OSError, ValueError, KeyError, ArrowException):
        return None


def _read_plan(path: StoragePath) -> DatasetPlan | None:
    """The plan in a file; None if it cannot be read."""
    try:
        return DatasetPlan.model_validate(_sealed_json(path))
    except (OSError, ValueError):
        return None


def _sealed_json(path: StoragePath) -> dict[str, Any]:
    """The JSON object in a file with a digest, without the digest.

    Raises `OSError` or `ValueError` if it cannot be read, was altered or has no digest.
    """
    raw, found = read_json(path)
    if not digests.is_sealed(raw, found):
        raise ValueError("the file has no digest")
    return {key: value for key, value in found.items() if key != digests.FIELD}


def code_changed(out: StoragePath, there: DatasetPlan, wanted: DatasetPlan) -> DataError | None:
    """The error for a folder whose dataset differs from the wanted one in the code of its task only; None otherwise."""
    if there == wanted or there.model_copy(update={"code": wanted.code}) != wanted:
        return None
    return DataError(
        f"the code of the task {wanted.task} has changed since {out} was generated",
        got=f"sha256 {wanted.code[:16]}…" if wanted.code else "a task of ape, or one without a file",
        allowed=f"sha256 {(there.code or '')[:16]}…",
        fix="undo the change, or generate the dataset again: `ape gen … --overwrite`, or remove the folder",
    )


def _different(out: StoragePath, there: DatasetPlan, wanted: DatasetPlan) -> DataError:
    """The error for a folder that holds another dataset. It names the fields in which the plans differ."""

    def flat(plan: DatasetPlan) -> dict[str, object]:
        fields = plan.model_dump()
        nested = {f"{k}.{kk}": vv for k, v in fields.items() if isinstance(v, dict) for kk, vv in v.items()}
        return {k: v for k, v in fields.items() if not isinstance(v, dict)} | nested

    if (changed := code_changed(out, there, wanted)) is not None:
        return changed
    old, new = flat(there), flat(wanted)
    differing = [f"{k} {old.get(k)!r} there, {new.get(k)!r} now" for k in new | old if old.get(k) != new.get(k)]
    return DataError(
        f"{out} holds another dataset",
        got="; ".join(differing[:6]),
        allowed="the same command, or an empty folder",
        fix="choose another --out, or --overwrite to replace it",
    )


def _check_space(out: StoragePath, task: BaseTask, wanted: DatasetPlan, found: dict[str, Shard]) -> None:
    """Check the free disk space. Raises `ApeError` if the dataset would not fit.

    The estimate is the information in the tokens of sources and targets, at most half a byte each: a random token of a
    vocabulary of V symbols has log2(V) bits. Words over the default vocabulary need 0.6 bytes, and trees more. An
    object store is not checked, because it has no limit.
    """
    if isinstance(out, RemotePath):
        return
    rows = sum(wanted.rows.values()) - sum(s.rows for s in found.values())
    bits = min(4.0, math.log2(max(1, len(task.id_names) - len(SPECIAL))))
    need = rows * (task.mean_tokens + task.mean_answer_tokens) * bits / 8
    freed = sum(p.stat().st_size for p in _shards(out)) - sum((out / f).stat().st_size for f in found)
    free = shutil.disk_usage(out).free + freed
    if need > free:
        raise ApeError(
            "the dataset would not fit on the disk",
            got=f"at least {files.size_text(need)} for {out}",
            allowed=files.size_text(free),
            fix="choose a smaller --n or another --out",
        )

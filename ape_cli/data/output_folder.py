"""The folder that a dataset is generated into: what it holds already, and what is removed from it.

Each shard notes in its footer the digest of its plan and the content sums of its rows. So an interrupted dataset can be
completed without any other file. Files that do not belong to a dataset are never touched.
"""

from __future__ import annotations

from ape_cli.core.errors import DataError
from ape_cli.data.manifest import DatasetPlan, Manifest, Shard, manifest_path, pieces_of, read_manifest, shard_files
from ape_cli.storage import files
from ape_cli.storage.parquet import note_of, read_group, read_shard
from ape_cli.storage.paths import StoragePath
from ape_cli.tasks import BaseTask

LOCK = ".lock"


def existing(out: StoragePath, plan: DatasetPlan) -> Manifest | None:
    """The manifest if the folder holds the dataset of a plan; None if it is empty or the dataset was interrupted.

    Raises `DataError` if the folder holds another dataset.
    """
    if manifest_path(out).exists():
        manifest = read_manifest(out)
        if manifest.plan != plan:
            raise _another(out, manifest.plan.differences(plan))
        return manifest
    if any(_plan_of(path, plan) != plan.digest for path in _complete(out)):
        raise _another(out, ["shards of another command or version"])
    return None


def _plan_of(path: StoragePath, plan: DatasetPlan) -> str | None:
    """The digest of the plan of a shard; None if it cannot be read, or is not like those of `plan`."""
    try:
        with read_shard(path, plan.shard) as shard:
            return note_of(shard).get("plan")
    except DataError:
        return None


def check_ours(out: StoragePath) -> None:
    """Check that the folder holds a dataset, a part of one, or nothing. Raises `DataError` otherwise."""
    if (out / "data").is_symlink():
        got, fix = "data is a symbolic link", "remove the link, or choose another `out`"
        raise DataError(f"{out} cannot be written", got=got, allowed="a folder of its own", fix=fix)
    if manifest_path(out).exists() or shard_files(out):
        return
    foreign = sorted(path.name for path in out.iterdir() if path.name not in ("data", LOCK))
    foreign += [path.name for path in (out / "data").iterdir()] if (out / "data").is_dir() else []
    if foreign:
        what = "the folder is not empty and contains no dataset"
        raise DataError(what, got=f"{out} with {', '.join(foreign[:5])}", fix="choose another `out`")


def kept_shards(out: StoragePath, task: BaseTask, plan: DatasetPlan) -> dict[str, Shard]:
    """The complete shards of an interrupted dataset, by file. Its other shards and the manifest are removed."""
    complete = {path.name for path in _complete(out)} if not manifest_path(out).exists() else set()
    pieces = [p for split in pieces_of(plan).values() for p in split]
    manifest_path(out).unlink(missing_ok=True)
    kept = {
        p.file: s for p in pieces if p.file.removeprefix("data/") in complete and (s := _kept(out, task, plan, p.file))
    }
    for path in shard_files(out):
        if f"data/{path.name}" not in kept:
            path.unlink(missing_ok=True)
    return kept


def _kept(out: StoragePath, task: BaseTask, plan: DatasetPlan, file: str) -> Shard | None:
    """A shard of an interrupted dataset; None if its note is not that of the plan and of its rows."""
    path = out / file
    try:
        total = (0, 0)
        with read_shard(path, plan.shard) as shard:
            note, rows = note_of(shard), shard.metadata.num_rows
            for group in range(shard.num_row_groups):
                total = content_sum(total, task.content(read_group(shard, group, path)))
        if (note.get("plan"), note.get("file"), note.get("content")) != (plan.digest, file, list(total)):
            return None
        return Shard(file=file, rows=rows, sha256=files.sha256(path), content=total, shared=note["shared"])
    except DataError:
        return None


def content_sum(x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    """Add two content sums: pairs of numbers modulo 2^64."""
    return (x[0] + y[0]) % 2**64, (x[1] + y[1]) % 2**64


def _complete(out: StoragePath) -> list[StoragePath]:
    """The shards in a folder that are not temporary files."""
    return [path for path in shard_files(out) if path.suffix == ".parquet"]


def _another(out: StoragePath, differences: list[str]) -> DataError:
    """The error for a folder that holds another dataset."""
    return DataError(
        f"{out} holds another dataset",
        got="; ".join(differences),
        allowed="the same command, or an empty folder",
        fix="choose another `out`, or `overwrite` to replace it",
    )

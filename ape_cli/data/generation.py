"""Generation of datasets: a task and a seed become Parquet shards, a manifest and a dataset card.

Generation streams: a shard is made block by block and written row group by row group, so memory does not grow with the
number of rows. Shards are independent, so the workers of an executor share nothing. The files on disk are a function of
the plan alone. They do not depend on the number of workers or on interruptions.

Each shard notes in its footer the digest of its plan and the content sums of its rows. So an interrupted dataset can be
completed without any other file.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ape_cli.core import plugins, runtime, user_parts
from ape_cli.core.errors import BusyError, DataError
from ape_cli.core.executors import Executor, Job, JobContext
from ape_cli.core.runtime import version
from ape_cli.data import overlap
from ape_cli.data.card import card
from ape_cli.data.manifest import (
    DatasetPlan,
    Manifest,
    Piece,
    Shard,
    fingerprint,
    manifest_path,
    missing_shards,
    open_shard,
    pieces_of,
    read_manifest,
    shard_files,
)
from ape_cli.data.manifest import (
    plan_of as plan,
)
from ape_cli.data.overlap import Sources
from ape_cli.storage import files, parquet
from ape_cli.storage.parquet import note_of, read_group, read_shard
from ape_cli.storage.paths import StoragePath
from ape_cli.structure import parse_structure
from ape_cli.tasks import RULES, BaseTask
from ape_cli.tasks._rules import check_rows

__all__ = ["GenerationResult", "Tick", "generate", "plan", "write_shard"]

_LOCK = ".lock"
_BLOCK_TOKENS = 400_000  # tokens of one call to `sample_counted`: few enough to stay near the caches
_GROUP_TOKENS = 40_000_000  # tokens of one row group: very large trees get smaller groups

Tick = Callable[[int], None]


@dataclass(frozen=True)
class GenerationResult:
    """The result of `generate`: the number of rows that it wrote, and the dataset that is in the folder now."""

    manifest: Manifest
    folder: StoragePath
    written: int


def generate(
    task: BaseTask,
    plan: DatasetPlan,
    out: StoragePath,
    *,
    engine: Executor | None = None,
    overwrite: bool = False,
    verify: bool = True,
    tick: Tick | None = None,
) -> GenerationResult:
    """Write the dataset of a plan to `out`. An interrupted dataset is completed; a complete one is left as it is.

    Arguments: `engine`, the executor that makes the shards (default: this process); `overwrite`, whether another
    dataset in the folder is replaced; `verify`, whether the digests of existing shards are checked; `tick`, which is
    called with the number of rows after each block that is written.

    Raises `DataError` if `out` holds something else or damaged files, `BusyError` if another process writes there, and
    `ApeError` if it cannot be written, or if a user's own task breaks a rule.
    """
    user_parts.check_once(task, RULES, task)
    busy = BusyError("another process is generating into this folder", got=str(out), fix="wait until it has finished")
    with files.locked(out / _LOCK, busy):
        _check_ours(out)
        manifest = None if overwrite else _existing(out, plan)
        plan = plan if manifest is None else manifest.plan  # equal, but with 6 instead of 6.0 its digest differs
        pieces = [p for split in pieces_of(plan).values() for p in split]
        if manifest is not None:
            missing = set(missing_shards(out, manifest))
            listed = (shard for split in manifest.shards.values() for shard in split)
            shards = {shard.file: shard for shard in listed if shard.file not in missing}
            if verify:  # compares their digests with the manifest
                for opened in files.map_ordered(lambda shard: open_shard(out, plan, shard), list(shards.values()), out):
                    opened.close()
        else:
            shards = _kept_shards(out, task, plan)
        todo = [p for p in pieces if p.file not in shards]
        if manifest is None or todo:
            made = _make(task, plan, out, todo, engine, tick)
            shards |= {file: shard for file, (shard, _) in made.items()}
            complete = _manifest(task, plan, out, shards, {file: sources for file, (_, sources) in made.items()})
            if manifest is not None and complete.fingerprint != manifest.fingerprint:
                what = f"a shard is missing, and {complete.versions} generate different rows from {manifest.versions}"
                raise DataError(what, fix="generate the dataset again with `ape gen … --overwrite`")
            manifest = complete
            files.write_text(out / "README.md", card(manifest, task))
            files.write_text(manifest_path(out), f"{manifest.model_dump_json(indent=2)}\n")
        return GenerationResult(manifest, out, sum(len(p.rows) for p in todo))


def _make(
    task: BaseTask, plan: DatasetPlan, out: StoragePath, todo: list[Piece], engine: Executor | None, tick: Tick | None
) -> dict[str, tuple[Shard, Sources]]:
    """Write the shards, in this process or by an executor. Returns them by file name."""
    tick = tick or (lambda rows: None)
    if engine is None or not todo or task.fixed_rows:  # a source of data is not sent to other processes
        return {piece.file: write_shard(task, plan.seed, out, piece, plan.digest, tick) for piece in todo}
    largest_first = sorted(todo, key=lambda piece: -len(piece.rows))  # so that no large shard is left for the end
    jobs = [Job(piece.file, _write_for, (task, plan.seed, out, piece, plan.digest)) for piece in largest_first]
    shards = {}
    with closing(engine.work(jobs)) as events:
        for event in events:
            if event.event_type == "progress":
                tick(event.value)
            elif event.event_type == "done":
                shards[event.key] = event.value
            elif event.event_type == "failed":
                raise event.value
    return shards


def _write_for(
    context: JobContext, task: BaseTask, seed: int, out: StoragePath, piece: Piece, plan_digest: str
) -> tuple[Shard, Sources]:
    """`write_shard` as a job of an executor. It can be stopped between two blocks."""

    def tick(rows: int) -> None:
        context.report(rows)
        if context.stopping():
            raise KeyboardInterrupt

    return write_shard(task, seed, out, piece, plan_digest, tick)


def write_shard(
    task: BaseTask, seed: int, out: StoragePath, piece: Piece, plan_digest: str, tick: Tick
) -> tuple[Shard, Sources]:
    """Write one shard. It is a function of `task`, `seed`, `piece` and the digest of the plan alone."""
    total, shared, sources = (0, 0), 0, list[Sources]()
    cost = task.mean_tokens + task.mean_target_tokens
    runtime.keep_memory()
    pa.set_memory_pool(pa.system_memory_pool())  # Arrow's own gives freed memory back, and asks for it again
    with files.replacing(out / piece.file) as temporary:
        with parquet.writer(temporary, task.columns) as writer:
            for group in _cut(piece.rows, int(np.clip(_GROUP_TOKENS / cost, 1, parquet.ROW_GROUP))):
                parts = []
                for block in _cut(group, int(np.clip(_BLOCK_TOKENS / cost, 1, 8192))):
                    part, part_shared = task.sample_counted(rows=block, split=piece.split, seed=seed)
                    if plugins.is_user_class(type(task)) and task.image is None:
                        structure = parse_structure(task.structure)
                        check_rows(part, structure, len(task.id_names), tagged=task.tagged)
                    parts.append(part)
                    shared += part_shared
                    total = _content_sum(total, task.content(part))
                    sources.append(Sources(task.sources(part), part["size"].to_numpy()))
                    tick(len(block))
                writer.write_table(pa.concat_tables(parts).combine_chunks(), row_group_size=parquet.ROW_GROUP)
            parquet.add_note(writer, {"plan": plan_digest, "file": piece.file, "content": total, "shared": shared})
        digest = files.sha256(temporary)
    shard = Shard(file=piece.file, rows=len(piece.rows), sha256=digest, content=total, shared=shared)
    return shard, overlap.joined(sources)


def _cut(rows: range, size: int) -> Iterator[range]:
    """Split a range of rows into ranges of at most `size` rows."""
    for first in range(rows.start, rows.stop, size):
        yield range(first, min(rows.stop, first + size))


def _manifest(
    task: BaseTask, plan: DatasetPlan, out: StoragePath, shards: dict[str, Shard], sources: dict[str, Sources]
) -> Manifest:
    """The manifest of a dataset whose shards are all written. `sources`: those of the shards that were written now."""
    by_split = {s: [shards[p.file] for p in pieces_of(plan)[s]] for s in plan.rows}
    shared = overlap.of_shards(out, plan, by_split, sources)
    return Manifest(
        schema_version=plan.version,
        plan=plan,
        vocabulary=task.id_names,
        mean_size=task.mean_size,
        mean_tokens=task.mean_tokens,
        shards=by_split,
        fingerprint=fingerprint(plan, task.id_names, by_split),
        overlap=shared.rows,
        overlap_sizes=shared.sizes,
        **task.manifest_fields(plan.rows["train"], plan.seed),
        versions={
            "ape": version(),
            "pyarrow": pa.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    )


# What the folder holds already, and what is removed from it. Files that do not belong to a dataset are never touched.


def titled_folder(root: StoragePath, task: BaseTask, plan: DatasetPlan, ending: str = "") -> StoragePath:
    """The folder of a dataset, `root`/TITLE with an ending. Data with its former title are used if they are there."""
    folder, former = (root / f"{title}{ending}" for title in (task.title, task.former_title))
    if folder != former and not manifest_path(folder).exists() and manifest_path(former).exists():
        with suppress(DataError):  # it is damaged
            return former if read_manifest(former).plan.digest == plan.digest else folder
    return folder


def _existing(out: StoragePath, plan: DatasetPlan) -> Manifest | None:
    """The manifest if the folder holds the dataset of a plan; None if it is empty or the dataset was interrupted.

    Raises `DataError` if the folder holds another dataset.
    """
    if manifest_path(out).exists():
        manifest = read_manifest(out)
        if manifest.plan != plan:
            raise _another(out, manifest.plan.differences(plan))
        return manifest
    shards = (path for path in shard_files(out) if path.suffix == ".parquet")
    if any(_plan_of(path, plan) != plan.digest for path in shards):
        raise _another(out, ["shards of another command or version"])
    return None


def _plan_of(path: StoragePath, plan: DatasetPlan) -> str | None:
    """The digest of the plan of a shard; None if it cannot be read, or is not like those of `plan`."""
    try:
        with read_shard(path, plan.shard) as shard:
            return note_of(shard).get("plan")
    except DataError:
        return None


def _check_ours(out: StoragePath) -> None:
    """Check that the folder holds a dataset, a part of one, or nothing. Raises `DataError` otherwise."""
    if (out / "data").is_symlink():
        got, fix = "data is a symbolic link", "remove the link, or choose another folder"
        raise DataError(f"{out} cannot be written", got=got, allowed="a folder of its own", fix=fix)
    if manifest_path(out).exists() or shard_files(out):
        return
    foreign = sorted(path.name for path in out.iterdir() if path.name not in ("data", _LOCK))
    foreign += [path.name for path in (out / "data").iterdir()] if (out / "data").is_dir() else []
    if foreign:
        what = "the folder is not empty and contains no dataset"
        raise DataError(what, got=f"{out} with {', '.join(foreign[:5])}", fix="choose another folder")


def _kept_shards(out: StoragePath, task: BaseTask, plan: DatasetPlan) -> dict[str, Shard]:
    """The complete shards of an interrupted dataset, by file. Its other shards and the manifest are removed."""
    is_interrupted = not manifest_path(out).exists()
    manifest_path(out).unlink(missing_ok=True)
    kept: dict[str, Shard] = {}
    for path in shard_files(out):
        file = f"data/{path.name}"
        if is_interrupted and path.suffix == ".parquet" and (shard := _kept(out, task, plan, file)):
            kept[file] = shard
        else:
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
                total = _content_sum(total, task.content(read_group(shard, group, path)))
        if (note.get("plan"), note.get("file"), note.get("content")) != (plan.digest, file, list(total)):
            return None
        return Shard(file=file, rows=rows, sha256=files.sha256(path), content=total, shared=note["shared"])
    except DataError:
        return None


def _content_sum(x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    """Add two content sums: pairs of numbers modulo 2^64."""
    return (x[0] + y[0]) % 2**64, (x[1] + y[1]) % 2**64


def _another(out: StoragePath, differences: list[str]) -> DataError:
    """The error for a folder that holds another dataset."""
    return DataError(
        f"{out} holds another dataset",
        got="; ".join(differences),
        allowed="the same command, or an empty folder",
        fix="choose another `out`, or `overwrite` to replace it",
    )

"""Generation of datasets: a task and a seed become Parquet shards, a manifest and a dataset card.

Generation streams: a shard is made block by block and written row group by row group, so memory does not grow with the
number of rows. Shards are independent, so the workers of an executor share nothing. The files on disk are a function of
the plan alone. They do not depend on the number of workers or on interruptions.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from ape_cli.core import plugins, runtime, user_parts
from ape_cli.core.errors import BusyError, DataError, UsageError
from ape_cli.core.executors import Executor, Job, JobContext
from ape_cli.core.runtime import version
from ape_cli.core.validation import first_error
from ape_cli.data import output_folder, overlap
from ape_cli.data.card import card
from ape_cli.data.manifest import (
    DatasetPlan,
    Manifest,
    Piece,
    Shard,
    fingerprint,
    missing_shards,
    open_shard,
    pieces_of,
    write_manifest,
)
from ape_cli.data.overlap import Sources
from ape_cli.storage import files, parquet
from ape_cli.storage.paths import StoragePath
from ape_cli.structure import parse_structure
from ape_cli.tasks import RULES, BaseTask
from ape_cli.tasks._rules import check_rows

_BLOCK_TOKENS = 400_000  # tokens of one call to `sample_counted`: few enough to stay near the caches
_GROUP_TOKENS = 40_000_000  # tokens of one row group: very large trees get smaller groups

Tick = Callable[[int], None]


@dataclass(frozen=True)
class GenerationResult:
    """The result of `generate`: the number of rows that it wrote, and the dataset that is in the folder now."""

    manifest: Manifest
    folder: StoragePath
    written: int


class WrittenShard(NamedTuple):
    """A shard that was written, and the sources of its rows."""

    shard: Shard
    sources: Sources


def plan(task: BaseTask, *, seed: int, rows: Mapping[str, int | None], shard_rows: int) -> DatasetPlan:
    """Check the options of a command and make its plan.

    In `rows`, None stands for the default number of rows of the task. Raises `UsageError` if an option is out of range.
    """
    if task.tagged and task.source_order is not None:
        got = f"a source in {task.source_order} order with a target in {task.order} order"
        raise UsageError("tags are in the order of the source", got=got, fix="leave `source_order` out")
    if not 0 <= seed < 2**63:
        raise UsageError("bad `seed`", got=seed, allowed="0 to 2^63 - 1", fix="choose one of those")
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
            code=plugins.digest(type(task)),
        )
    except ValidationError as error:
        raise UsageError("these rows cannot be generated", got=first_error(error), fix="choose other numbers") from None


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
    with _working_in(out):
        output_folder.check_ours(out)
        manifest = None if overwrite else output_folder.existing(out, plan)
        plan = plan if manifest is None else manifest.plan  # equal, but with 6 instead of 6.0 its digest differs
        pieces = [p for split in pieces_of(plan).values() for p in split]
        if manifest is not None:
            missing = set(missing_shards(out, manifest))
            listed = (shard for split in manifest.shards.values() for shard in split)
            shards = {shard.file: shard for shard in listed if shard.file not in missing}
            if verify:  # compares their digests with the manifest
                for opened in files.each(lambda shard: open_shard(out, plan, shard), list(shards.values()), out):
                    opened.close()
        else:
            output_folder.check_space(out, task, sum(plan.rows.values()))
            shards = output_folder.kept_shards(out, task, plan)
        todo = [p for p in pieces if p.file not in shards]
        if manifest is None or todo:
            made = _make(task, plan, out, todo, engine, tick)
            shards |= {file: written.shard for file, written in made.items()}
            complete = _manifest(task, plan, out, shards, {file: written.sources for file, written in made.items()})
            if manifest is not None and complete.fingerprint != manifest.fingerprint:
                what = f"a shard is missing, and {complete.versions} generate other rows than {manifest.versions}"
                raise DataError(what, fix="generate the whole dataset again with `overwrite`")
            manifest = complete
            files.write_text(out / "README.md", card(manifest, task))
            write_manifest(out, manifest)
        return GenerationResult(manifest, out, sum(len(p.rows) for p in todo))


@contextmanager
def _working_in(out: StoragePath) -> Iterator[None]:
    """Lock the folder for this process, and create it if needed. Raises `BusyError` if it is locked.

    A folder that was created here and is still empty at the end is removed.
    """
    busy = BusyError("another process is generating into this folder", got=str(out), fix="wait until it has finished")
    new = not out.exists()
    files.folder(out)
    try:
        with files.locked(out / output_folder.LOCK, busy):
            yield
    finally:
        if new:
            with suppress(OSError):  # the folder is not empty, so it is kept
                out.rmdir()


def _make(
    task: BaseTask, plan: DatasetPlan, out: StoragePath, todo: list[Piece], engine: Executor | None, tick: Tick | None
) -> dict[str, WrittenShard]:
    """Write the shards, in this process or by an executor. Returns them by file name."""
    tick = tick or (lambda rows: None)
    if engine is None or not todo or task.fixed_rows:  # a source of data is not sent to other processes
        return {piece.file: write_shard(task, plan.seed, out, piece, plan.digest, tick) for piece in todo}
    largest_first = sorted(todo, key=lambda piece: -len(piece.rows))  # so that no large shard is left for the end
    jobs = [Job(piece.file, _write_for, (task, plan.seed, out, piece, plan.digest)) for piece in largest_first]
    shards = {}
    with closing(engine.work(jobs)) as events:
        for event in events:
            if event.kind == "progress":
                tick(event.value)
            elif event.kind == "done":
                shards[event.key] = event.value
            elif event.kind == "failed":
                raise event.value
    return shards


def _write_for(
    context: JobContext, task: BaseTask, seed: int, out: StoragePath, piece: Piece, plan_digest: str
) -> WrittenShard:
    """`write_shard` as a job of an executor. It can be stopped between two blocks."""

    def tick(rows: int) -> None:
        context.report(rows)
        if context.stopping():
            raise KeyboardInterrupt

    return write_shard(task, seed, out, piece, plan_digest, tick)


def write_shard(
    task: BaseTask, seed: int, out: StoragePath, piece: Piece, plan_digest: str, tick: Tick
) -> WrittenShard:
    """Write one shard. It is a function of `task`, `seed`, `piece` and the digest of the plan alone."""
    total, shared, sources = (0, 0), 0, list[Sources]()
    cost = task.mean_tokens + task.mean_target_tokens
    with _reused_memory(), files.replacing(out / piece.file) as temporary:
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
                    total = output_folder.content_sum(total, task.content(part))
                    sources.append(Sources(task.sources(part), part["size"].to_numpy()))
                    tick(len(block))
                writer.write_table(pa.concat_tables(parts).combine_chunks(), row_group_size=parquet.ROW_GROUP)
            parquet.add_note(writer, {"plan": plan_digest, "file": piece.file, "content": total, "shared": shared})
        digest = files.sha256(temporary)
    shard = Shard(file=piece.file, rows=len(piece.rows), sha256=digest, content=total, shared=shared)
    return WrittenShard(shard, overlap.joined(sources))


@contextmanager
def _reused_memory() -> Iterator[None]:
    """Use the system allocator, so that freed Arrow memory is reused.

    Arrow's own pool gives hundreds of megabytes back to the operating system in a row group.
    """
    runtime.keep_memory()
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


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

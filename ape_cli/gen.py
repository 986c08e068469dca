"""Generation: a task and a seed become Parquet shards, a manifest and a dataset card.

Streaming: a shard is made block by block and written row group by row group, so memory does not grow
with the number of rows. Shards are independent, so workers (processes) share nothing. What is on disk
is a function of the plan alone: neither the workers nor an interruption can be told from the files.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import platform
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import ape_cli
from ape_cli import files, schema
from ape_cli.errors import ApeError, DataError, UsageError
from ape_cli.schema import Manifest, Plan, Shard
from ape_cli.tasks import Task

_BLOCK_TOKENS = 400_000  # of one call to `sample`: small enough to stay near the caches
_GROUP_TOKENS = 20_000_000  # of one row group: very large trees get smaller groups
_PLAN = ".plan.json"

Tick = Callable[[int], None]


@dataclass(frozen=True)
class Piece:
    """One shard to be made."""

    split: str
    file: str  # relative to the dataset's folder
    rows: range


@dataclass(frozen=True)
class Outcome:
    """What `generate` did: how many rows it wrote, out of how many the dataset holds."""

    manifest: Manifest
    folder: Path
    written: int


def plan(task: Task, *, seed: int, rows: dict[str, int], shard_rows: int) -> Plan:
    """The plan of a command, checked. Raises `UsageError` for sizes that make no sense."""
    for split, count in rows.items():
        least = 1 if split == "train" else 0
        if not least <= count <= 10**12:
            raise UsageError(
                f"bad number of {split} rows",
                got=count,
                allowed=f"{least} to 10^12",
                fix="choose one of those",
            )
    if not 1 <= shard_rows <= 10**9:
        raise UsageError("bad --shard-rows", got=shard_rows, allowed="1 to 10^9", fix=f"try {schema.ROW_GROUP}")
    if not 0 <= seed < 2**63:
        raise UsageError("bad --seed", got=seed, allowed="0 to 2^63 - 1", fix="choose one of those")
    return Plan(
        task=task.name,
        structure=task.structure,
        order=task.order,
        parameters=task.parameters,
        seed=seed,
        rows=rows,
        shard_rows=shard_rows,
    )


def generate(
    task: Task,
    wanted: Plan,
    out: Path,
    *,
    workers: int = 1,
    overwrite: bool = False,
    tick: Tick | None = None,
) -> Outcome:
    """Write the dataset of a plan to `out`, or complete it, or find that there is nothing to do.

    `tick` is called with numbers of rows as they are written. Raises `DataError` where `out` holds
    something else or something damaged, `ApeError` where it cannot be written.
    """
    if workers < 1:
        raise UsageError("bad --workers", got=workers, allowed="1 or more", fix="leave it out for one")
    busy = DataError("another process is generating into this folder", got=str(out), fix="wait for it to end")
    files.folder(out)
    with files.locked(out / ".lock", busy):
        known = _standing(out, wanted, overwrite)
        if known is None:
            _check_space(out, task, wanted)
            files.write_text(out / _PLAN, wanted.model_dump_json(indent=2) + "\n")
        pieces = [p for p in _pieces(wanted) if known is None or not (out / p.file).exists()]
        found = {} if known else {p.file: s for p in pieces if (s := _adopt(out, p))}
        todo = [p for p in pieces if p.file not in found]
        made = _make(task, wanted.seed, out, todo, workers, tick or (lambda rows: None))
        written = sum(len(p.rows) for p in todo)
        if known is not None:
            _check_remade(known, made)
            return Outcome(known, out, written)
        manifest = _manifest(task, wanted, found | made)
        files.write_text(out / "README.md", _card(manifest))
        files.write_text(schema.manifest_path(out), manifest.model_dump_json(indent=2) + "\n")
        (out / _PLAN).unlink(missing_ok=True)
        return Outcome(manifest, out, written)


def _standing(out: Path, wanted: Plan, overwrite: bool) -> Manifest | None:
    """The manifest if the folder holds just this dataset; None if it is to be written (or finished)."""
    there = sorted(p.name for p in out.iterdir() if p.name != ".lock")
    if not there:
        return None
    ours = schema.manifest_path(out).exists() or (out / _PLAN).exists()
    if not ours:
        raise DataError(
            "the folder is not empty and holds no dataset",
            got=f"{out} with {', '.join(there[:5])}",
            allowed="a new or an empty folder, or one that `ape gen` wrote",
            fix="choose another --out",
        )
    if overwrite:
        _clear(out)
        return None
    if not schema.manifest_path(out).exists():
        begun = _read_plan(out / _PLAN)
        if begun != wanted:
            raise _different(out, begun, wanted)
        return None
    manifest = schema.read_manifest(out)
    if manifest.plan != wanted:
        raise _different(out, manifest.plan, wanted)
    kept = {split: [s for s in shards if (out / s.file).exists()] for split, shards in manifest.shards.items()}
    schema.check_shards(out, manifest.model_copy(update={"shards": kept}))
    return manifest


def _different(out: Path, there: Plan | None, wanted: Plan) -> DataError:
    def flat(plan: Plan | None) -> dict[str, object]:
        fields = {} if plan is None else plan.model_dump()
        return {k: v for k, v in fields.items() if not isinstance(v, dict)} | {
            f"{k}.{kk}": vv for k, v in fields.items() if isinstance(v, dict) for kk, vv in v.items()
        }

    old, new = flat(there), flat(wanted)
    differing = [f"{k} {old.get(k)!r} there, {new.get(k)!r} now" for k in new | old if old.get(k) != new.get(k)]
    return DataError(
        f"{out} holds another dataset",
        got="; ".join(differing[:6]),
        allowed="the same command, or an empty folder",
        fix="choose another --out, or --overwrite to replace it",
    )


def _read_plan(path: Path) -> Plan | None:
    try:
        return Plan.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _clear(out: Path) -> None:
    """Remove a dataset's own files and nothing else, the manifest first."""
    for path in [
        schema.manifest_path(out),
        out / _PLAN,
        out / "README.md",
        *(out / "data").glob("*.parquet"),
    ]:
        path.unlink(missing_ok=True)


def _check_space(out: Path, task: Task, wanted: Plan) -> None:
    need = sum(wanted.rows.values()) * task.mean_tokens  # a byte a token is less than was ever seen
    free = shutil.disk_usage(out).free
    if need > free:
        raise ApeError(
            "the dataset would not fit on the disk",
            got=f"at least {need / 1e9:.1f} GB for {out}",
            allowed=f"{free / 1e9:.1f} GB are free",
            fix="choose a smaller --n or another --out",
        )


def _pieces(wanted: Plan) -> list[Piece]:
    pieces = []
    for split, count in wanted.rows.items():
        of = max(1, -(-count // wanted.shard_rows))
        for i in range(of):
            rows = range(i * wanted.shard_rows, min(count, (i + 1) * wanted.shard_rows))
            pieces.append(Piece(split, f"data/{split}-{i:05d}-of-{of:05d}.parquet", rows))
    return pieces


def _adopt(out: Path, piece: Piece) -> Shard | None:
    """A whole shard of an interrupted generation, read back; None if there is none."""
    path = out / piece.file
    if not path.exists():
        return None
    file = schema.read_shard(path)
    if file.metadata.num_rows != len(piece.rows):
        return None
    total = (0, 0)
    for i in range(file.num_row_groups):
        total = _add(total, schema.content(file.read_row_group(i)))
    return Shard(file=piece.file, rows=len(piece.rows), sha256=files.sha256(path), content=total)


def _make(task: Task, seed: int, out: Path, todo: list[Piece], workers: int, tick: Tick) -> dict[str, Shard]:
    """Write the shards, in this process or in several."""
    if workers == 1 or len(todo) < 2:
        return {piece.file: write_shard(task, seed, out, piece, tick) for piece in todo}
    made = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(todo)), context, _leave_interrupts_to_the_parent) as pool:
        try:
            futures = {pool.submit(write_shard, task, seed, out, piece): piece for piece in todo}
            for future in as_completed(futures):
                made[futures[future].file] = future.result()
                tick(len(futures[future].rows))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return made


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def write_shard(task: Task, seed: int, out: Path, piece: Piece, tick: Tick | None = None) -> Shard:
    """Make one shard; a pure function of its arguments, whoever calls it."""
    path = out / piece.file
    total, rows = (0, 0), 0
    with files.replacing(path) as temporary, schema.writer(temporary) as writer:
        for group in _cut(piece.rows, int(np.clip(_GROUP_TOKENS / task.mean_tokens, 1, schema.ROW_GROUP))):
            parts = []
            for block in _cut(group, int(np.clip(_BLOCK_TOKENS / task.mean_tokens, 1, 8192))):
                parts.append(task.sample(rows=block, split=piece.split, seed=seed))
                total = _add(total, schema.content(parts[-1]))
                rows += len(block)
                if tick:
                    tick(len(block))
            writer.write_table(pa.concat_tables(parts).combine_chunks(), row_group_size=schema.ROW_GROUP)
    return Shard(file=piece.file, rows=rows, sha256=files.sha256(path), content=total)


def _cut(rows: range, size: int) -> Iterator[range]:
    for first in range(rows.start, rows.stop, size):
        yield range(first, min(rows.stop, first + size))


def _add(x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    return (x[0] + y[0]) % 2**64, (x[1] + y[1]) % 2**64


def _check_remade(known: Manifest, made: dict[str, Shard]) -> None:
    for shards in known.shards.values():
        for old in shards:
            new = made.get(old.file)
            if new is not None and new != old:
                raise DataError(
                    f"a shard was missing, and these versions make another in its place: {old.file}",
                    got=f"made with pyarrow {pa.__version__} and ape {ape_cli.__version__}",
                    allowed=f"made with {known.versions}",
                    fix="--overwrite generates the whole dataset again",
                )


def _manifest(task: Task, wanted: Plan, shards: dict[str, Shard]) -> Manifest:
    by_split = {s: [shards[p.file] for p in _pieces(wanted) if p.split == s] for s in wanted.rows}
    totals = {}
    for split, parts in by_split.items():
        total = (0, 0)
        for part in parts:
            total = _add(total, part.content)
        totals[split] = [wanted.rows[split], *total]
    identity = json.dumps([schema.VERSION, task.structure, task.id_names, totals], sort_keys=True)
    return Manifest(
        schema_version=schema.VERSION,
        plan=wanted,
        vocabulary=task.id_names,
        mean_size=task.mean_size,
        mean_tokens=task.mean_tokens,
        shards=by_split,
        fingerprint=hashlib.sha256(identity.encode()).hexdigest(),
        versions={
            "ape": ape_cli.__version__,
            "pyarrow": pa.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    )


def _card(manifest: Manifest) -> str:
    """The dataset card; its front matter tells `datasets.load_dataset` the splits."""
    plan = manifest.plan
    order = f", {plan.order}-first order" if plan.order else ""
    options = " ".join(f"--{k.replace('_', '-')} {v}" for k, v in plan.parameters.items())
    order_flag = f" --order {plan.order}" if plan.order else ""
    rows = plan.rows
    command = (
        f"ape gen {plan.task}{order_flag} --n {rows['train']} --n-validation {rows['validation']} "
        f"--n-test {rows['test']} --seed {plan.seed} --shard-rows {plan.shard_rows} {options}"
    )
    lines = ["---", "configs:", "- config_name: default", "  data_files:"]
    for split in rows:
        lines += [f"  - split: {split}", f"    path: data/{split}-*.parquet"]
    names = ", ".join(f"{i} {name}" for i, name in enumerate(manifest.vocabulary[:24]))
    more = ", …" if len(manifest.vocabulary) > 24 else ""
    lines += [
        "---",
        f"# {plan.task}{order}",
        "",
        f"Synthetic structured data ({plan.structure}), generated by `ape`:",
        "",
        f"```\n{command}\n```",
        "",
        "| split | rows |",
        "|---|---|",
        *(f"| {split} | {count} |" for split, count in rows.items()),
        "",
        f"Columns: {', '.join(f'`{name}`' for name in schema.SHARD.names)}. Positions are steps",
        "from 0 for sequences and heap indices for trees (root 1, children 2i and 2i+1).",
        "",
        f"Ids: {names}{more} (all of them in `manifest.json`).",
        "",
        f"Fingerprint: `{manifest.fingerprint}`",
        "",
    ]
    return "\n".join(lines)

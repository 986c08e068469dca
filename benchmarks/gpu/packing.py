"""Finished runs packed into small files for transfer: without weights, in parts of at most 16 MiB."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from ape_cli.core.errors import DataError
from ape_cli.runs import record
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.storage import files

LIMIT = 15 * 2**20  # bytes of a file before compression
_NAME = re.compile(r"[\w.-]+/(run\.json|history\.parquet|eval/[\w.-]+\.json)")


def _files(run: Path) -> Iterator[Path]:
    """The files of a run that are packed."""
    yield from (run / "run.json", run / "history.parquet", *sorted((run / "eval").glob("*.json")))


def _portable(run: Run) -> bytes:
    """The content of run.json, with the path of the dataset replaced by that of the usual folder.

    Raises `RunError` if the file is damaged or was altered.
    """
    known = run.read()
    data = known.dataset.model_copy(update={"path": f"datasets/{Path(known.dataset.path).name}"})
    return record.text(known.model_copy(update={"dataset": data})).encode()


def pack(results: Path, out: Path) -> list[Path]:
    """Write the finished and evaluated runs of a registry to `out`/runs-1.tar.gz and so on. -> the files"""
    parts: list[list[Path]] = [[]]
    size = 0
    for folder in sorted((results / "runs").glob("*")):
        run = Registry(results).find(folder.name) if (folder / "run.json").exists() else None
        if run is None or run.status != "finished" or not any((folder / "eval").glob("*.json")):
            continue
        own = sum(path.stat().st_size for path in _files(folder))
        if size + own > LIMIT:
            parts.append([])
            size = 0
        parts[-1].append(folder)
        size += own
    written = []
    for number, folders in enumerate((part for part in parts if part), 1):
        memory = io.BytesIO()
        with tarfile.open(fileobj=memory, mode="w:gz") as file:
            for folder in folders:
                for path in _files(folder):
                    content = _portable(Run(folder)) if path.name == "run.json" else path.read_bytes()
                    member = tarfile.TarInfo(str(path.relative_to(results / "runs")))
                    member.size = len(content)
                    file.addfile(member, io.BytesIO(content))
        written.append(out / f"runs-{number}.tar.gz")
        with files.replacing(written[-1]) as temporary:
            temporary.write_bytes(memory.getvalue())
    return written


def add(file: Path, results: Path) -> list[str]:
    """Unpack runs into `results`/runs. -> the names of the new ones

    Existing runs are not changed. Raises `DataError` if the file contains anything that is not part of a run.
    """
    with tarfile.open(file) as packed:
        members = packed.getmembers()
        for member in members:
            if not member.isfile() or not _NAME.fullmatch(member.name) or ".." in member.name:
                raise DataError(f"{file} contains something else than runs", got=member.name, fix="pack the runs again")
        there = {path.name for path in (results / "runs").glob("*")}
        new = sorted({member.name.split("/")[0] for member in members} - there)
        for member in members:
            if member.name.split("/")[0] in new:
                content = packed.extractfile(member)
                assert content is not None
                target = results / "runs" / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
    return new

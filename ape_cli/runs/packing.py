"""Finished runs in one Parquet file, to store or to share them: `ape runs --pack` and `--unpack`.

The file has a row for each file of each run, sorted by path: run.json, the history and the evaluations, byte for byte,
but no weights. The columns are `path`, such as `runs/RUN/run.json`, and `content`. Similar files are compressed
together, so they take a tenth of their size. A registry reads such a file like a folder:
`open_registry("table1.parquet")`.

If a run is both in the file and in a folder, packing and unpacking add the evaluations that the other copy lacks. A
copy that is damaged or contradicts the other one is refused by name.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from ape_cli.core.errors import BusyError, DataError, PlaceError, RunError
from ape_cli.runs import record
from ape_cli.runs.record import RECORD, RunRecord
from ape_cli.runs.remote_run import run_in
from ape_cli.runs.run import WEIGHTS, Run
from ape_cli.storage import files
from ape_cli.storage.object_store import Bucket, RemotePath, Version
from ape_cli.storage.paths import StoragePath

SUFFIX = ".parquet"
_FILE = re.compile(rb"runs/\w[\w.-]*/(run\.json|history\.parquet|eval/[\w-]+\.json)")
_BYTES = 160 << 20  # the most that all files in a file of packed runs may have: about 10,000 runs
_ROW = 64  # the most bytes of a row beside its path and content
_PAGE = 32 << 20  # bytes; the content of one page is compressed together
_PATIENCE = 60.0  # seconds; writing takes much less

_NEVER = datetime.fromtimestamp(0, UTC)  # stands for the time of the last change

Contents = dict[str, bytes]  # of files, by their paths, such as `runs/RUN/run.json`
_Write = Callable[[str, bytes, Version | None], None]  # a file; the version is the one that it must have now


@dataclass(frozen=True)
class Packed(Bucket):
    """The runs in one or several files, in memory, as a bucket from which objects can only be read."""

    source: StoragePath = Path()  # the file, or the folder of several
    files: tuple[StoragePath, ...] = ()
    at_once: ClassVar[int] = 1

    def __str__(self) -> str:
        """The path of the file or of the folder."""
        return str(self.source)

    @cached_property
    def contents(self) -> Contents:
        """The files of all runs. They are not checked.

        Raises `DataError` if a file cannot be read, or if two files have different copies of a run.
        """
        contents: Contents = {}
        for path, content in (row for file in self.files for row in _read(file).items()):
            if contents.setdefault(path, content) != content:
                got, fix = f"{_run(path)} in {self}", "join the files: `ape runs --results FILE --pack OTHER`"
                raise DataError("two files have different copies of a run", got=got, fix=fix)
        return contents

    def head(self, key: str) -> dict[str, Any]:
        """The metadata of a file. Raises `DataError` as `contents`."""
        return {"path": key, "size": len(self.read(key)), "last_modified": _NEVER, "e_tag": None, "version": None}

    def read(self, key: str, limit: int | None = None) -> bytes:
        """The content of a file. Raises `DataError` as `contents`."""
        if key not in self.contents:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self}/{key}")
        return self.contents[key]

    def opened(self, key: str) -> Any:
        """A file for random access. Raises `DataError` as `contents`."""
        return io.BytesIO(self.read(key))

    @cached_property
    def listed(self) -> dict[str, dict[str, bool]]:
        """The paths in each folder, and whether each is a file. Raises `DataError` as `contents`."""
        listed: dict[str, dict[str, bool]] = {}
        for path in self.contents:
            inside, is_file = path, True
            while inside:
                folder = inside.rpartition("/")[0]
                listed.setdefault(folder, {})[inside] = is_file
                inside, is_file = folder, False
        return listed

    def list_folder(self, key: str) -> tuple[list[str], list[Any]]:
        """The folders in a folder, and its files. Raises `DataError` as `contents`."""
        inside = self.listed.get(key, {})
        folders = [path for path, is_file in inside.items() if not is_file]
        return folders, [self.head(path) for path, is_file in inside.items() if is_file]

    def is_folder(self, key: str) -> bool:
        """Whether there are files in a folder. Raises `DataError` as `contents`."""
        return key in self.listed

    @property
    def folder(self) -> RemotePath:
        """The folder of results."""
        return RemotePath(self, self.name)

    def put(self, *_: Any, **__: Any) -> None:
        """Raises `PlaceError`, as `copy` and `delete` do."""
        fix = "make a folder of them: `ape runs --unpack FILE --results DIR`"
        raise PlaceError("a file of packed runs is read-only", got=str(self), fix=fix)

    copy = delete = put


def packed(source: StoragePath, *paths: StoragePath) -> Packed:
    """The packed runs in some files. `source` is the file, or the folder of several. Nothing is read yet."""
    return Packed("packed", source.name, "", source, paths)


def _run(path: str) -> str:
    """The name of the run that has the file with this path."""
    return path.split("/")[1]


def pack(file: StoragePath, runs: Iterable[Run]) -> tuple[int, list[str]]:
    """Add finished runs to a file. Nothing that is whole in the file is lost.

    Returns the number of runs in the file, and a line of text about each run that was refused, because it is damaged or
    contradicts the record in the file.

    Raises `DataError` if the file cannot be read or would be too large, and `ApeError` if it cannot be written.
    """
    added = list(runs)

    def write(version: Version | None) -> tuple[int, list[str]]:
        old = packed(file, *([file] if file.exists() else []))
        contents = dict(old.contents)
        refused = _add(added, old.folder, lambda path, content, _: contents.update({path: content}))[1]
        if contents != old.contents:
            with files.replacing(file, version) as temporary:
                _write(temporary, contents)
        return len(set(map(_run, contents))), refused

    busy = BusyError("another process is writing this file", got=str(file), fix="run the same command again")
    with files.held(file.with_name(f".{file.name}.lock"), busy, _PATIENCE):
        return files.updated(file, write)


def unpack(file: StoragePath, results: StoragePath) -> tuple[int, int, list[str]]:
    """Add the runs in a file to a folder of results.

    A run that is in the folder already gets the evaluations that it lacks.

    Returns the number of runs that were written, the number of those that were complete already, and a line of text
    about each run that was refused, because it is damaged, contradicts the one in the folder, or that one is not
    finished.

    Raises `DataError` if the file cannot be read, and `ApeError` if a file cannot be written.
    """
    source = packed(file, file)
    runs = [run_in(source.folder / "runs" / name) for name in dict.fromkeys(map(_run, source.contents))]
    written, refused = _add(
        runs, results, lambda path, content, version: files.write_bytes(results / path, content, version)
    )
    return written, len(runs) - written - len(refused), refused


def _add(runs: Iterable[Run], to: StoragePath, write: _Write) -> tuple[int, list[str]]:
    """Write the files of finished runs that a folder of results lacks.

    Returns the number of runs with such files, and a line of text about each run that was refused.
    """
    written, refused = 0, list[str]()
    for run in runs:
        there = run_in(to / "runs" / run.name)
        try:
            with there.writing(_PATIENCE):
                written += files.updated(there.folder / RECORD, partial(_join, there, run, write))
        except (RunError, BusyError) as error:
            refused.append(f"{run.name}: {error.summary}")
    return written, refused


def _join(there: Run, run: Run, write: _Write, version: Version | None) -> bool:
    """Write the files that a copy of a run lacks. Returns whether it lacks any. `version` is that of its run.json."""
    lacking = _lacking(there, run)
    for name, content in lacking.items():
        write(f"runs/{run.name}/{name}", content, version if name == RECORD else None)
    return bool(lacking)


def _lacking(there: Run, run: Run) -> Contents:
    """The files that a copy of a finished run, which need not exist, lacks, by their names. run.json is the last one.

    Raises `RunError` if a copy is damaged, or if the copies contradict each other: their records differ in more than
    the files that they list, or a file differs; and `BusyError` if one of them is not finished.
    """
    run_record = _finished(run)
    contents = {name: run.content(name) for name in run_record.files.keys() - {WEIGHTS}}
    index = files.read_bytes(run.folder / RECORD)
    if not there.exists():
        return contents | {RECORD: index}
    stored = _finished(there)
    for name in stored.files.keys() - {WEIGHTS}:
        there.content(name)
    merged = stored.model_copy(update={"files": dict(sorted((stored.files | run_record.files).items()))})
    if merged != run_record.model_copy(update={"files": run_record.files | stored.files}):
        got, fix = f"{there.folder} and {run.folder}", "remove the wrong one, or keep them apart"
        raise RunError("the records of two copies of a run contradict each other", got=got, fix=fix)
    if merged == stored:
        return {}
    lacking = {name: content for name, content in contents.items() if name not in stored.files}
    return lacking | {RECORD: index if merged == run_record else record.text(merged).encode()}


def _finished(run: Run) -> RunRecord:
    """The run.json of a finished run. Raises `RunError` if it is missing or damaged, and `BusyError` otherwise."""
    run_record = run.read()
    if run_record.status != "finished":
        raise BusyError("the run is not finished", got=str(run.folder))
    return run_record


def _read(file: StoragePath) -> Contents:
    """The files of the runs in a file of packed runs. They are not checked.

    Raises `DataError` if the file is too large, cannot be read, or contains something else.
    """
    from ape_cli.storage import parquet

    contents, fix = Contents(), "name a folder, or a file of packed runs"
    try:
        for path, content in parquet.values(files.read_bytes(file, _BYTES), ["path", "content"], _BYTES):
            if content is None or path is None or not _FILE.fullmatch(path):
                raise DataError("it does not contain packed runs", got=path and ascii(path.decode(errors="replace")))
            contents[path.decode()] = b"" if path.decode() in contents else content  # neither of two is whole
    except (OSError, DataError) as error:
        got = error.summary if isinstance(error, DataError) else error.strerror
        raise DataError(f"cannot read {file}", got=got, fix=files.how_to_read(error, fix)) from error
    return contents


def _write(path: Path, contents: Contents) -> None:
    """Write the files of runs to a local file. Raises `DataError` if they are too large to be read again."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if (size := sum(len(name) + len(content) + _ROW for name, content in contents.items())) > _BYTES:
        what, fix = "the runs are too large for one file", "pack them into several files in one folder"
        raise DataError(what, got=f"{size:,} bytes", allowed=f"{_BYTES:,} bytes", fix=fix)
    rows = dict(sorted(contents.items()))
    columns = {"path": pa.array(rows, pa.string()), "content": pa.array(rows.values(), pa.binary())}
    options: dict[str, Any] = {"compression": "zstd", "compression_level": 19, "use_dictionary": False}
    pq.write_table(pa.table(columns), path.absolute(), data_page_size=_PAGE, **options)

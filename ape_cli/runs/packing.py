"""Finished runs in one Parquet file, to store or to share them: `ape runs --pack` and `--unpack`.

The file has a row for each file of each run, sorted by path: run.json, the history and the evaluations, byte for byte,
but no weights. The columns are `path`, such as `runs/RUN/run.json`, and `content`. Similar files are compressed
together, so they take a tenth of their size. A registry reads such a file like a folder:
`open_registry("table1.parquet")`.

If a run is both in the file and in a folder, packing and unpacking join what is whole of it. Two records that
contradict each other are not joined.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ape_cli.core.errors import BusyError, DataError, PlaceError, RunError
from ape_cli.runs import record
from ape_cli.runs.record import RECORD, RunRecord
from ape_cli.runs.run import Run
from ape_cli.runs.run_files import WEIGHTS
from ape_cli.storage import files, locks
from ape_cli.storage._bucket import Bucket
from ape_cli.storage.object_store import RemotePath, Version
from ape_cli.storage.paths import StoragePath

SUFFIX = ".parquet"
_FILE = re.compile(rb"runs/(?P<run>\w[\w.-]*)/(?P<name>run\.json|history\.parquet|eval/[\w-]+\.json)")
_BYTES = 160 << 20  # the most that all files in a file of packed runs may have: about 10,000 runs
_ROW = 64  # the most bytes of a row beside its path and content
_PAGE = 32 << 20  # bytes; the content of one page is compressed together
_PATIENCE = 60.0  # seconds; writing takes much less

Contents = dict[str, bytes]  # of the files of a run, by their names in its folder


@dataclass(frozen=True)
class Packed(Bucket):
    """The runs in one or several files, in memory, as a bucket from which objects can only be read."""

    source: StoragePath = Path()  # the file, or the folder of several
    files: tuple[StoragePath, ...] = ()

    def __str__(self) -> str:
        """The path of the file or of the folder."""
        return str(self.source)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the paths, so that another process reads the files itself."""
        return Packed, (self.kind, self.name, self.query, self.source, self.files)

    @cached_property
    def contents(self) -> dict[str, Contents]:
        """The files of each run, by its name. They are not checked.

        Raises `DataError` if a file cannot be read, or if two files have different copies of a run.
        """
        runs: dict[str, Contents] = {}
        for file in self.files:
            for name, contents in _read(file).items():
                if runs.setdefault(name, contents) != contents:
                    fix = "join the files: `ape runs --results FILE --pack OTHER`"
                    raise DataError("two files have different copies of a run", got=f"{name} in {self}", fix=fix)
        return runs

    @cached_property
    def store(self) -> Any:
        """The obstore store. Raises `DataError` as `contents`."""
        import obstore
        from obstore.store import MemoryStore

        store = MemoryStore()
        for path, content in _rows(self.contents).items():
            obstore.put(store, path, content)
        return store

    @property
    def folder(self) -> RemotePath:
        """The folder of results."""
        return RemotePath(self, self.name)

    def run(self, name: str) -> Run:
        """The run with this name."""
        return Run(self.folder / "runs" / name)

    def check_writable(self) -> None:
        """Raises `PlaceError`."""
        fix = "make a folder of them: `ape runs --unpack FILE --results DIR`"
        raise PlaceError("results in one file can only be read", got=str(self), fix=fix)


def packed(place: StoragePath) -> Packed | None:
    """The packed runs at `place`, which is a file or a local folder of such files. None for a folder of runs.

    Nothing is read yet.
    """
    if place.suffix == SUFFIX and not place.is_dir():
        return _of_files(place, place)
    if not isinstance(place, Path) or (place / "runs").exists():
        return None
    found = sorted(path for path in place.glob(f"*{SUFFIX}") if path.is_file())
    return _of_files(place, *found) if found else None


def _of_files(source: StoragePath, *found: StoragePath) -> Packed:
    """The packed runs in some files. `source` is the file, or the folder of several."""
    return Packed("packed", source.name, "", source, found)


def pack(file: StoragePath, runs: Iterable[Run]) -> tuple[int, list[str]]:
    """Add finished runs to a file. Nothing that is whole in the file is lost.

    Returns the number of runs in the file, and a line of text about each run that was refused, because it is damaged or
    contradicts the record in the file.

    Raises `DataError` if the file cannot be read or would be too large, and `ApeError` if it cannot be written.
    """
    added = list(runs)

    def write(version: Version | None) -> tuple[int, list[str]]:
        old, refused = _of_files(file, *([file] if file.exists() else [])), list[str]()
        content = dict(old.contents)
        for run in added:
            try:
                content[run.name] = _union(old.run(run.name), run)
            except (RunError, BusyError) as error:
                refused.append(f"{run.name}: {error.summary}")
        with files.replacing(file, version) as temporary:
            _write(temporary, content)
        return len(content), refused

    busy = BusyError("another process is writing this file", got=str(file), fix="run the same command again")
    with locks.held(file.with_name(f".{file.name}.lock"), busy, _PATIENCE):
        return files.updated(file, write)


def unpack(file: StoragePath, results: StoragePath) -> tuple[int, int, list[str]]:
    """Add the runs in a file to a folder of results.

    A run that is in the folder already gets the evaluations that it lacks, and whole files in place of damaged ones.

    Returns the number of runs that were written, the number of those that were complete already, and a line of text
    about each run that was refused, because it is damaged, contradicts the one in the folder, or that one is not
    finished.

    Raises `DataError` if the file cannot be read, and `ApeError` if a file cannot be written.
    """
    written, refused = 0, list[str]()
    source = _of_files(file, file)
    for name in source.contents:
        there = Run(results / "runs" / name)
        try:
            with there.writing(_PATIENCE):
                written += _complete(there, _union(there, source.run(name)))
        except (RunError, BusyError) as error:
            refused.append(f"{name}: {error.summary}")
    return written, len(source.contents) - written - len(refused), refused


def _complete(run: Run, contents: Contents) -> bool:
    """Write the files that a run lacks or has otherwise. Returns whether there are any."""
    lacking = [name for name, content in contents.items() if not _has(run.folder / name, content)]
    for name in sorted(lacking, key=RECORD.__eq__):  # run.json last
        files.write_bytes(run.folder / name, contents[name])
    weights = run.folder / WEIGHTS
    if lacking and weights.is_file() and files.sha256(weights) != run.read().files.get(WEIGHTS):
        files.remove(weights)  # they were damaged too
    return bool(lacking)


def _has(path: StoragePath, content: bytes) -> bool:
    """Whether a file has this content."""
    with suppress(OSError):  # also if it is larger
        return files.read_bytes(path, len(content)) == content
    return False


def _whole(run: Run, bad: list[str]) -> tuple[RunRecord, Contents]:
    """What is whole of a finished run, by the checks of `ape verify`: its record, and the contents of its files.

    run.json and the weights are not among them. A line of text about each damaged file is appended to `bad`, and the
    record does not list it.

    Raises `RunError` if run.json is missing, damaged, or of another run, and `BusyError` if the run is not finished.
    """
    known, contents = run.read(), Contents()
    if known.status != "finished":
        raise BusyError("the run is not finished", got=str(run.folder))
    for name in known.files.keys() - {WEIGHTS}:
        try:
            contents[name] = run.content(name)
        except RunError as error:
            bad.append(error.summary)
    listed = {name: digest for name, digest in known.files.items() if name in contents or name == WEIGHTS}
    return known.model_copy(update={"files": listed}), contents


def _union(old: Run, new: Run) -> Contents:
    """The files of a run, and those that are whole in another copy of it, which need not exist.

    Raises `RunError` if the run is damaged, or if the copies contradict each other: their records differ in more than
    the files that they list, or a file differs; and `BusyError` as `_whole`.
    """
    bad: list[str] = []
    known, contents = _whole(new, bad)
    if bad:
        raise RunError(bad[0])
    try:
        other, more = _whole(old, [])
    except RunError:  # there is no other copy, or its run.json is damaged
        other, more = known, contents
    joined = known.model_copy(update={"files": dict(sorted({**other.files, **known.files}.items()))})
    if joined != other.model_copy(update={"files": known.files | other.files}):
        got, fix = f"{old.folder} and {new.folder}", "remove the wrong one, or keep them apart"
        raise RunError("the records of two copies of a run contradict each other", got=got, fix=fix)
    written = (files.read_bytes(run.folder / RECORD) for run in (old, new) if run.record == joined)
    return more | contents | {RECORD: next(written, record.text(joined).encode())}


def _read(file: StoragePath) -> dict[str, Contents]:
    """The files of each run in a file of packed runs. Their contents are not checked.

    Raises `DataError` if the file is too large, cannot be read, or contains something else.
    """
    from ape_cli.storage import parquet

    runs: defaultdict[str, Contents] = defaultdict(dict)
    fix = "name a folder, or a file of packed runs"
    try:
        for path, content in parquet.values(files.read_bytes(file, _BYTES), ["path", "content"], _BYTES):
            if content is None or (found := _FILE.fullmatch(path or b"")) is None:
                raise DataError("it does not contain packed runs", got=path and ascii(path.decode(errors="replace")))
            run, name = found["run"].decode(), found["name"].decode()
            runs[run][name] = b"" if name in runs[run] else content  # neither of two files with one name is whole
    except (OSError, DataError) as error:
        got = error.summary if isinstance(error, DataError) else error.strerror
        raise DataError(f"cannot read {file}", got=got, fix=files.how_to_read(error, fix)) from error
    return runs


def _rows(runs: dict[str, Contents]) -> dict[str, bytes]:
    """The content of each file of each run by its path, sorted."""
    return dict(sorted((f"runs/{run}/{name}", content) for run in runs for name, content in runs[run].items()))


def _write(path: Path, runs: dict[str, Contents]) -> None:
    """Write runs to a local file. Raises `DataError` if they are too large to be read again."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = _rows(runs)
    if (size := sum(len(name) + len(content) + _ROW for name, content in rows.items())) > _BYTES:
        what, fix = "the runs are too large for one file", "pack them into several files in one folder"
        raise DataError(what, got=f"{size:,} bytes", allowed=f"{_BYTES:,} bytes", fix=fix)
    columns = {"path": pa.array(rows, pa.string()), "content": pa.array(rows.values(), pa.binary())}
    options: dict[str, Any] = {"compression": "zstd", "compression_level": 19, "use_dictionary": False}
    pq.write_table(pa.table(columns), path.absolute(), data_page_size=_PAGE, **options)

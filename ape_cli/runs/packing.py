"""Finished runs in one Parquet file, to store or to share them: `ape runs --pack` and `--unpack`.

The file has a row for each file of each run, sorted by path: run.json, the history and the evaluations, byte for byte,
but no weights. The columns are `path`, such as `runs/RUN/run.json`, and `content`. Similar files are compressed
together, so they take a tenth of their size. A registry reads such a file like a folder:
`open_registry("table1.parquet")`.

If copies of a run are in several places, their union has every evaluation that is whole in one of them. Copies whose
records contradict each other have no union.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
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
        """The files of each run, by its name. A run that is in several files is their union.

        Raises `DataError` as `_read`, and `RunError` as `_union`.
        """
        if len(self.files) == 1:
            return _read(self.files[0])
        each = [Packed("packed", file.name, "", file, (file,)) for file in self.files]
        found = {name: [one for one in each if name in one.contents] for one in each for name in one.contents}
        return {
            name: (len(having) > 1 and _union([one.run(name) for one in having], lost=True)) or having[0].contents[name]
            for name, having in found.items()
        }

    @cached_property
    def store(self) -> Any:
        """The obstore store. Raises errors as `contents`."""
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
    found: Sequence[StoragePath] = []
    if place.suffix == SUFFIX and not place.is_dir():
        found = [place]
    elif isinstance(place, Path) and not (place / "runs").exists():
        found = sorted(path for path in place.glob(f"*{SUFFIX}") if path.is_file())
    return Packed("packed", place.name, "", place, tuple(found)) if found else None


def pack(file: StoragePath, runs: Iterable[Run]) -> tuple[int, list[str]]:
    """Add finished runs to a file. Nothing that the file has already is lost.

    Returns the number of runs in the file, and a line of text about each run that was refused, because it is damaged or
    contradicts the record in the file.

    Raises `DataError` if the file cannot be read or would be too large, and `ApeError` if it cannot be written.
    """
    added = list(runs)

    def write(version: Version | None) -> tuple[int, list[str]]:
        old = Packed("packed", file.name, "", file, (file,))
        content, refused = dict(old.contents) if file.exists() else {}, list[str]()
        for run in added:
            try:
                whole = _checked(run)
                content[run.name] = _union([old.run(run.name), run]) if run.name in content else whole
            except RunError as error:
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
    source = Packed("packed", file.name, "", file, (file,))
    for run in map(source.run, source.contents):
        there = Run(results / "runs" / run.name)
        try:
            _checked(run)
            with there.writing(_PATIENCE):
                written += _add(run, there)
        except (RunError, BusyError) as error:
            refused.append(f"{run.name}: {error.summary}")
    return written, len(source.contents) - written - len(refused), refused


def _add(run: Run, there: Run) -> bool:
    """Write what a run lacks in a folder of results. Returns whether it lacked anything. Raises `RunError`."""
    old: Contents = {}
    with suppress(RunError):  # it is not there, or its run.json is damaged
        if there.read().status != "finished":
            raise BusyError("the run in the folder is not finished")
        _, old, _ = _whole(there)
    new = _union([there, run])
    lacking = {name: content for name, content in sorted(new.items()) if old.get(name) != content}
    for name in sorted(lacking, key=RECORD.__eq__):  # run.json last
        files.write_bytes(there.folder / name, lacking[name])
    weights = there.folder / WEIGHTS
    if lacking and weights.is_file() and files.sha256(weights) != there.read().files.get(WEIGHTS):
        files.remove(weights)  # they are of a damaged run
    return bool(lacking)


def _whole(run: Run) -> tuple[RunRecord, Contents, list[str]]:
    """What is whole of a finished run, by the checks of `ape verify`.

    Returns its record, the contents of run.json and of the files that are whole, without the weights, and a line of
    text about each other file.

    Raises `RunError` if run.json is missing, damaged, of another run, or not of a finished run.
    """
    known = run.read()
    if known.status != "finished":
        raise RunError("the run is not finished", got=known.status)
    contents, problems = {RECORD: files.read_bytes(run.folder / RECORD)}, []
    for name in sorted(known.files.keys() - {WEIGHTS}):
        try:
            contents[name] = run.content(name)
        except RunError as error:
            problems.append(error.summary)
    return known, contents, problems


def _checked(run: Run) -> Contents:
    """The files of a run. Raises `RunError` as `_whole`, or if one of them is not whole."""
    _, contents, problems = _whole(run)
    if problems:
        raise RunError(problems[0])
    return contents


def _union(copies: Sequence[Run], *, lost: bool = False) -> Contents:
    """The files that are whole in one of the copies of a run. Empty if no copy has a run.json that can be read.

    With `lost`, run.json also lists the files that are whole in no copy, so that whoever reads them notices.

    Raises `RunError` if two copies contradict each other: their records differ in more than the files that they list,
    or a file has another content.
    """
    parts = []
    for run in copies:
        with suppress(RunError):
            parts.append(_whole(run))
    if not parts:
        return {}
    first, listed, contents = parts[0][0], dict[str, str](), Contents()
    for known, more, _ in parts:
        whole = {name: digest for name, digest in known.files.items() if name in more or name == WEIGHTS}
        same = known.model_copy(update={"files": first.files}) == first
        if not same or any(listed.get(name, digest) != digest for name, digest in whole.items()):
            got, fix = " and ".join(str(run.folder) for run in copies), "remove the wrong one, or keep them apart"
            raise RunError("the records of two copies of a run contradict each other", got=got, fix=fix)
        listed |= whole
        contents |= more
    if lost:
        listed = {name: digest for known, _, _ in parts for name, digest in known.files.items()} | listed
    complete = (more[RECORD] for known, more, _ in parts if known.files == listed)
    joined = first.model_copy(update={"files": dict(sorted(listed.items()))})
    return contents | {RECORD: next(complete, record.text(joined).encode())}


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
                got = "null" if path is None else ascii(path.decode(errors="replace"))
                raise DataError("it does not contain packed runs", got=got)
            run, name = found["run"].decode(), found["name"].decode()
            runs[run][name] = b"" if name in runs[run] else content  # neither of two files with one name is whole
    except OSError as error:
        raise DataError(f"cannot read {file}", got=error.strerror, fix=files.how_to_read(error, fix)) from error
    except DataError as error:
        raise DataError(f"cannot read {file}", got=error.summary, fix=fix) from error
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

"""Many small files in one Parquet file, which is read like an object store.

The Parquet file has one row per packed file, with the columns `path` (text, for example `runs/RUN/run.json`) and
`content` (bytes). Rows are sorted by path, so the same files always make the same archive. Similar files are compressed
together: thousands of small JSON and Parquet files take a tenth of their size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ape_cli.core.errors import DataError, PlaceError
from ape_cli.storage._bucket import Bucket
from ape_cli.storage.files import how_to_read
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import StoragePath

SUFFIX = ".parquet"
_PAGE = 32 << 20  # bytes; the content of one page is compressed together


def write(path: Path, files: Mapping[str, bytes]) -> None:
    """Write an archive to a local file. `files` maps paths to contents."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    ordered = dict(sorted(files.items()))
    columns = {"path": pa.array(ordered, pa.string()), "content": pa.array(ordered.values(), pa.binary())}
    options: dict[str, Any] = {"compression": "zstd", "compression_level": 19, "use_dictionary": False}
    pq.write_table(pa.table(columns), path.absolute(), data_page_size=_PAGE, **options)


def read(path: StoragePath) -> dict[str, bytes]:
    """The files of an archive: contents by paths.

    Raises `DataError` if it cannot be read, or is a Parquet file of another kind.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:
            table = pq.read_table(file, columns=["path", "content"])
        paths, contents = table.cast(pa.schema({"path": pa.string(), "content": pa.binary()})).to_pydict().values()
    except (OSError, pa.ArrowException, ValueError) as error:
        fix = "name a folder, or a file of packed runs"
        raise DataError(f"cannot read {path}", got=str(error).splitlines()[0], fix=how_to_read(error, fix)) from error
    return dict(zip(paths, contents, strict=True))


@dataclass(frozen=True)
class Archive(Bucket):
    """The content of archives, in memory, as a bucket from which objects can only be read.

    If several archives contain the same path, the last of them counts.
    """

    source: StoragePath = Path()  # one archive, or the folder of several
    files: tuple[StoragePath, ...] = ()

    def __str__(self) -> str:
        """The path of the archive or of its folder."""
        return str(self.source)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the paths, so that another process reads the archives itself."""
        return Archive, (self.kind, self.name, self.query, self.source, self.files)

    @cached_property
    def store(self) -> Any:
        """The obstore store. Raises `DataError` as `read`."""
        import obstore
        from obstore.store import MemoryStore

        store = MemoryStore()
        for file in self.files:
            for path, content in read(file).items():
                obstore.put(store, path, content)
        return store

    def check_writable(self) -> None:
        """Raises `PlaceError`."""
        fix = "make a folder of them: `ape runs --unpack FILE --results DIR`"
        raise PlaceError("results in one file can only be read", got=str(self), fix=fix)


def archives(folder: StoragePath) -> list[Path]:
    """The archives in a local folder, sorted; none if it has results of the usual form beside them."""
    if not isinstance(folder, Path) or (folder / "runs").exists():
        return []
    return sorted(folder.glob(f"*{SUFFIX}"))


def folder(source: StoragePath, files: Iterable[StoragePath]) -> RemotePath:
    """The content of archives as a folder. `source` is the path that error messages name.

    Methods that write raise `PlaceError`.
    """
    return RemotePath(Archive("packed", source.name, "", source, tuple(files)), source.name)

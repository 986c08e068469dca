"""Finished runs in one file, to store or to share them: `ape runs --pack` and `--unpack`.

The file contains run.json, the history and the evaluations of each run, byte for byte, but no weights. A registry reads
it like a folder: `open_registry("table1.parquet")`. See `storage/packed.py` for its format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ape_cli.core.errors import DataError
from ape_cli.runs.record import RECORD
from ape_cli.runs.run import Run
from ape_cli.runs.run_files import WEIGHTS
from ape_cli.storage import files, packed
from ape_cli.storage.paths import StoragePath

_FILE = re.compile(r"runs/(?P<run>\w[\w.-]*)/(run\.json|history\.parquet|eval/[\w-]+\.json)")


def read(file: StoragePath) -> dict[str, dict[str, bytes]]:
    """The files of each run in a file of packed runs: contents by paths in the folder of the run, by names of runs.

    Raises `DataError` if the file cannot be read, or contains something else.
    """
    runs: dict[str, dict[str, bytes]] = {}
    for path, content in packed.read(file).items():
        if not (found := _FILE.fullmatch(path)):
            fix = "name a file of packed runs"
            raise DataError(f"{file} does not contain packed runs", got=repr(path), fix=fix)
        runs.setdefault(found["run"], {})[path.removeprefix(f"runs/{found['run']}/")] = content
    return runs


def pack(file: StoragePath, runs: Iterable[Run]) -> int:
    """Write finished runs to a file. Other runs that the file contains already stay in it.

    Returns the number of runs in the file.

    Raises `RunError` if a file of a run is missing or was altered, and `DataError` as `read`.
    """
    content = read(file) if file.exists() else {}
    for run in runs:
        listed = {name: run.content(name) for name in run.known.files if name != WEIGHTS}
        content[run.name] = {RECORD: files.read_bytes(run.folder / RECORD), **listed}
    with files.replacing(file) as temporary:
        packed.write(temporary, {f"runs/{run}/{name}": data for run in content for name, data in content[run].items()})
    return len(content)


def unpack(file: StoragePath, results: StoragePath) -> tuple[int, int]:
    """Write the runs in a file to a folder of results. Runs that are there already are not touched.

    Returns the number of runs that were written, and the number of those that were there.

    Raises `DataError` as `read`, and `ApeError` if a file cannot be written.
    """
    runs = read(file)
    new = [run for run in map(Run, (results / "runs" / name for name in runs)) if not run.exists()]
    for run in new:
        with run.writing():
            for name, content in sorted(runs[run.name].items(), key=lambda one: one[0] == RECORD):  # run.json last
                files.write_bytes(run.folder / name, content)
    return len(new), len(runs) - len(new)

"""What interrupted commands have left in the folders of results and datasets, and what to do about it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ape_cli.core.errors import ApeError
from ape_cli.data.manifest import manifest_path, shard_files
from ape_cli.runs.record import RECORD
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import LOCK
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath


@dataclass(frozen=True)
class Leftover:
    """Something that is not as a finished command leaves it: where it is, what it is, and what helps."""

    where: str
    what: str
    fix: str


def of_runs(registry: Registry, results: Sequence[str] = (), datasets: Sequence[str] = ()) -> Iterator[Leftover]:
    """Yield what is left in the folders of runs.

    `results` and `datasets` are the words that commands need to find these folders, such as `--results DIR`.
    """
    for run in registry:
        where = str(run.folder)
        try:
            if not run.exists():
                if not files.is_locked(run.folder / LOCK):
                    yield Leftover(where, "no run.json: a run that was never started", "remove the folder")
                continue
            status = run.status
        except ApeError as error:
            verify, remove = (shlex.join(["ape", name, run.name, *results]) for name in ("verify", "rm"))
            yield Leftover(where, error.summary, f"`{verify}` says more; `{remove}` removes it")
            continue
        words = ["ape", "train", "--config", str(run.folder / RECORD), *results, *datasets]
        if status == "stopped":
            yield Leftover(where, "the run was stopped", f"continue it: {shlex.join([*words, '--resume'])}")
        elif status == "failed":
            yield Leftover(where, "the run failed", f"train it again: {shlex.join([*words, '--overwrite'])}")
        elif status == "finished" and run.has_leftovers():
            what = "the finished run has a lock or a state for resuming, which it does not need"
            yield Leftover(where, what, f"{shlex.join(words)} removes it")
        if not files.is_locked(run.folder / LOCK):
            yield from _of_files(run.folder)


def of_datasets(datasets: StoragePath) -> Iterator[Leftover]:
    """Yield what is left in the folders of datasets."""
    for name, is_folder in files.entries(datasets):
        folder = datasets / name
        if is_folder and not manifest_path(folder).exists() and shard_files(folder):
            yield Leftover(str(folder), "the dataset is not complete", "repeat its `ape gen` command, or remove it")
        if is_folder and not files.is_locked(folder / LOCK):
            yield from _of_files(folder)


def _of_files(folder: StoragePath) -> Iterator[Leftover]:
    """Yield the temporary files in a folder that is not locked, and in the folders in it."""
    for place in (folder, *(folder / name for name, is_folder in files.entries(folder) if is_folder)):
        for path in (place / name for name, _ in files.entries(place) if files.is_temporary(name)):
            with suppress(FileNotFoundError):  # its writer has just renamed it
                what = f"a temporary file of {path.stat().st_size:,} bytes"
                yield Leftover(str(path), what, "the next command that writes removes it")

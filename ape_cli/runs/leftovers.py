"""What interrupted commands have left in the folders of results and datasets, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ape_cli.core.errors import ApeError
from ape_cli.data.manifest import manifest_path
from ape_cli.data.staging import is_begun
from ape_cli.runs.registry import Registry
from ape_cli.storage import folders, locks
from ape_cli.storage.paths import StoragePath
from ape_cli.storage.temporary import PATTERN


@dataclass(frozen=True)
class Leftover:
    """Something that is not as a finished command leaves it: where it is, what it is, and what helps."""

    where: str
    what: str
    fix: str


def of_runs(registry: Registry) -> Iterator[Leftover]:
    """Yield what is left in the folders of runs."""
    for run in registry:
        where = str(run.folder)
        try:
            if not (run.folder / "run.json").exists():
                if not locks.is_locked(run.folder / ".lock"):
                    yield Leftover(where, "no run.json: a run that was never started", "remove the folder")
                continue
            status = run.status
        except ApeError as error:
            yield Leftover(where, error.summary, f"`ape verify {run.name}` says more; `ape rm {run.name}` removes it")
            continue
        again = f"ape train --config {run.folder / 'run.json'}"
        if status == "stopped":
            yield Leftover(where, "the run was stopped", f"continue it: {again} --resume")
        elif status == "failed":
            yield Leftover(where, "the run failed", f"train it again: {again} --overwrite; or `ape rm {run.name}`")
        elif status == "finished" and run.has_leftovers():
            yield Leftover(where, "the finished run has its state for resuming", f"{again} removes it")
        yield from _of_files(run.folder)


def of_datasets(datasets: StoragePath) -> Iterator[Leftover]:
    """Yield what is left in the folders of datasets."""
    for name, is_folder in folders.entries(datasets):
        folder = datasets / name
        if is_folder and not manifest_path(folder).exists() and is_begun(folder):
            yield Leftover(str(folder), "the dataset is not complete", "repeat its `ape gen` command, or remove it")
        if is_folder:
            yield from _of_files(folder)


def _of_files(folder: StoragePath) -> Iterator[Leftover]:
    """Yield the temporary files of killed processes in a local folder and in the folders in it."""
    if not isinstance(folder, Path):
        return
    for place in (folder, *(folder / name for name, is_folder in folders.entries(folder) if is_folder)):
        for name, is_folder in folders.entries(place):
            found, path = PATTERN.fullmatch(name), place / name
            if found and not found["lock"] and not is_folder and not locks.is_locked(place / f"{name}.lock"):
                size = path.lstat().st_size
                yield Leftover(
                    str(path), f"a temporary file of {size:,} bytes", "the next command that writes removes it"
                )

"""The folder of one run, `results/runs/RUN/`.

| file | content |
|---|---|
| run.json | resolved configuration, dataset, versions, git commit, status, times, SHA-256 of the other files |
| model.safetensors | the best weights by validation token accuracy |
| state/ | what is needed to resume; removed when the run is finished |
| history.parquet | one row per validation |
| eval/*.json | one file per dataset, split and decoding |
| logs/ | files of metric loggers (`--log`), if there are any |

Files are written atomically, and none of them is a pickle. run.json is the index of a finished run: it lists the
weights, the history and the evaluations with their SHA-256, which is compared when a file is read. A file that it does
not list counts as absent. A kill loses nothing. While the run is trained, its state holds all that is needed to end it,
the best weights and the history included. At the end the weights and the history are written, then run.json lists them,
and then the state is removed. An evaluation that run.json does not list yet is computed again.

On a file system, only one process at a time writes a run (`locks.py`). In an object store, which has no locks, a run is
written once: each process trains in a folder of its own, `state/ATTEMPT/`, which has the same files. A run is resumed
from the newest attempt, and an unfinished run is described by its newest attempt.

The first attempt to end is kept. Its process creates run.json in the folder of the run, which only one process can do.
This run.json still says `running`, and lists the files in the folder of the attempt. Whoever finds it copies these
files into the folder of the run, and then replaces exactly this version of run.json by that of the finished run. So it
does not matter how many processes do this, in which order, or whether some of them are killed.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from ape_cli.core.errors import BusyError, RunError
from ape_cli.runs import record
from ape_cli.runs.record import RECORD, RunRecord, TrainingResult, evaluation_name
from ape_cli.runs.run_files import HISTORY, WEIGHTS, ListedFiles, write_history
from ape_cli.storage import files, tensors
from ape_cli.storage.object_store import ConflictError, RemotePath, Version
from ape_cli.storage.paths import StoragePath
from ape_cli.storage.tensors import Tensors

STATES, LOCK = "state", ".lock"
STATE = f"{STATES}/state.safetensors"
_PATIENCE = 60.0  # seconds; an update of run.json takes much less


class Run(ListedFiles):
    """The folder of a run. `Registry.find` returns one.

    Methods that save a file raise `ApeError` if they cannot. To read the result of a run:

        run = registry.open("results").find("copy-rope-42")
        if run.status == "finished":
            print(run.name, run.read().result.best_accuracy)
    """

    @property
    def logs(self) -> StoragePath:
        """The folder for files of metric loggers."""
        return self.folder / "logs"

    @cached_property
    def attempt(self) -> StoragePath:
        """The folder in which this process trains the run."""
        if isinstance(self.folder, Path):
            return self.folder
        return self.folder / STATES / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"

    def _attempts(self) -> Iterator[StoragePath]:
        """The folders that may have files of the run: its own and, in an object store, its attempts, the newest first.

        Nothing is listed before the attempts are asked for.
        """
        yield self.folder
        if isinstance(self.folder, RemotePath):
            names = [name for name, is_folder in files.entries(self.folder / STATES) if is_folder]
            yield from (self.folder / STATES / name for name in reversed(names))

    # run.json

    def exists(self) -> bool:
        """Whether the run has a run.json."""
        return any((folder / RECORD).is_file() for folder in self._attempts())

    def read(self) -> RunRecord:
        """The content of run.json.

        Raises `RunError` if it is missing or damaged, belongs to another run, or its configuration was altered.
        """
        for folder in self._attempts():
            with suppress(FileNotFoundError):
                self.record = self._read(folder)
                return self.record
        raise RunError("the run has no run.json", got=str(self.folder), fix=self._again)

    def _read(self, folder: StoragePath) -> RunRecord:
        """The content of the run.json in a folder. Raises `FileNotFoundError` if it is missing, and `RunError`."""
        return record.read_record(folder / RECORD, self.name, self._again)

    @property
    def _again(self) -> str:
        """What to do about a damaged run."""
        return f"train it again with `overwrite`, or remove {self.folder}"

    @property
    def status(self) -> str:
        """`finished`, `stopped`, `failed` or `running`. Raises `RunError` if run.json is missing or damaged."""
        return self.status_in(self.read())

    def status_in(self, known: RunRecord) -> str:
        """The status, given the content of run.json.

        A run is `stopped` if run.json says `running` but no process holds its lock. In an object store there are no
        locks, so such a run stays `running`.
        """
        if known.status != "running" or isinstance(self.folder, RemotePath) or files.is_locked(self.folder / LOCK):
            return known.status
        return "stopped"

    def write_record(self, known: RunRecord) -> None:
        """Write the run.json of an unfinished run."""
        self.record = known
        files.write_text(self.attempt / RECORD, record.text(known))

    def update(self, **fields: Any) -> None:
        """Set fields of the run.json of an unfinished run."""
        self.write_record(self.known.model_copy(update=fields))

    @contextmanager
    def writing(self, wait: float = 0.1) -> Iterator[None]:
        """Hold the lock of the run during the block. A folder that is empty after the block is removed.

        Raises `BusyError` if another process holds the lock for `wait` seconds, and `RunError` if a folder is a link,
        which could lead anywhere.
        """
        for folder in (self.folder, *(self.folder / name for name in (STATES, "eval", "logs"))):
            if files.is_link(folder):
                raise RunError(f"{folder} is a symbolic link", fix="put a folder in its place, or remove the link")
        try:
            with files.locked(self.folder / LOCK, self.busy(), wait):
                yield
        finally:
            if isinstance(self.folder, Path):
                with suppress(OSError):  # it is not empty
                    self.folder.rmdir()

    def busy(self) -> BusyError:
        """The error that another process trains the run."""
        return BusyError("another process is training this run", got=self.name, fix="wait for it, or stop it")

    # Training

    def resume(self, processes: int, processor: dict[str, str], own_files: dict[str, str]) -> None:
        """Set the status to `running` again, with the present number of processes.

        `processor` describes the processor of this machine, and `own_files` has the digests of a user's own files. If
        they differ from the last ones, they are appended to `resumed_on` and `resumed_with`.
        """
        known = self.known
        resumed_on = known.resumed_on if processor == known.last_processor else [*known.resumed_on, processor]
        resumed_with = known.resumed_with if own_files == known.last_own_files else [*known.resumed_with, own_files]
        self.update(status="running", processes=processes, resumed_on=resumed_on, resumed_with=resumed_with)

    def save_state(self, state: Tensors, progress: dict[str, Any]) -> None:
        """Save the state for resuming: tensors, and a JSON object that says how far training is, with the history."""
        self._write(self.attempt, HISTORY, lambda path: write_history(path, progress["history"]))
        tensors.save_tensors(self.attempt / STATE, state, progress)

    def load_state(self) -> tuple[Tensors, dict[str, Any]] | None:
        """The newest state for resuming, or None if there is none. Raises `RunError` if its file is damaged."""
        paths = (folder / STATE for folder in self._attempts())
        newest = next((path for path in paths if path.is_file()), None)
        return None if newest is None else tensors.load_tensors(newest)

    def has_state(self) -> bool:
        """Whether there is a state for resuming."""
        return any((folder / STATE).is_file() for folder in self._attempts())

    def finish(self, result: TrainingResult, weights: Tensors, history: list[dict[str, Any]]) -> bool:
        """Save the best weights, the history and the result, and set the status to `finished`. The state stays.

        Returns whether the run has this result. In an object store, another process may have finished it first.
        Raises errors as `complete`.
        """
        best = {"run": self.name, "step": result.best_step, "validation_token_accuracy": result.best_accuracy}
        write: dict[str, Callable[[Path], None]] = {
            WEIGHTS: lambda path: tensors.write_tensors(path, weights, best),
            HISTORY: lambda path: write_history(path, history),
        }
        digests = {name: self._write(self.attempt, name, write[name]) for name in write}
        ended = self.known.model_copy(
            update={"status": "finished", "finished": now(), "result": result, "files": digests}
        )
        if isinstance(self.folder, RemotePath):
            listed = {f"{STATES}/{self.attempt.name}/{name}": digest for name, digest in digests.items()}
            self.complete(ended.model_copy(update={"status": "running", "files": listed}))
        else:
            self.write_record(ended)
        return self.known.result == result

    def complete(self, end: RunRecord | None = None) -> bool:
        """Finish a run in an object store if an attempt has ended. Returns whether the run is finished.

        `end` is the run.json with which this process ends the run, if no other process has done so. Each pass of the
        loop takes the next step on condition that run.json is as this pass has read it.

        Raises `ConflictError` if files of the attempt were removed, or if run.json changes all the time.
        """
        path = self.folder / RECORD
        for _ in range(files.TRIES):
            version, there, following = files.version(path), None, end
            with suppress(FileNotFoundError):
                there = self._read(self.folder)
            if there is not None and there.status == "finished":
                self.record = there
                return True
            if there is not None and there.files:
                with suppress(FileNotFoundError):  # they are removed after the run is finished, and by `clear`
                    following = self._collected(there)
            if following is not None:
                with suppress(ConflictError):  # another process has taken this step
                    files.write_text(path, record.text(following), version)
            elif version == files.version(path):
                return False
        raise ConflictError("files of this run are removed or changed meanwhile", got=str(self.folder), fix=self._again)

    def _collected(self, ended: RunRecord) -> RunRecord:
        """Copy the files of an attempt that has ended into the folder of the run. Returns the final run.json.

        Raises `FileNotFoundError` if one of them was removed.
        """
        assert isinstance(self.folder, RemotePath)
        digests = {}
        for name, digest in ended.files.items():
            source = self.folder / name
            source.copy(self.folder / source.name)
            digests[source.name] = digest
        return ended.model_copy(update={"status": "finished", "files": digests})

    def _write(self, folder: StoragePath, name: str, write: Callable[[Path], None]) -> str:
        """Write a file of the run. Returns its SHA-256."""
        with files.replacing(folder / name) as temporary:
            write(temporary)
            return files.sha256(temporary)

    # Removal

    def has_leftovers(self) -> bool:
        """Whether the folder of a finished run has a state for resuming or a lock, which it does not need."""
        return any(name in (STATES, LOCK) for name, _ in files.entries(self.folder))

    def remove_state(self) -> None:
        """Remove the state for resuming, which a finished run does not need. The lock is held."""
        files.remove(self.folder / STATES)

    def tidy(self) -> None:
        """Remove what was left by a process that was killed after it had finished the run.

        Nothing is removed while another process holds the lock.
        """
        if self.has_leftovers():
            with suppress(BusyError), self.writing():
                self.remove_state()

    def clear(self) -> None:
        """Remove all files of the run, so that it can start again.

        run.json comes first, because it lists the others, and last, because in an object store another process may have
        finished the run meanwhile.
        """
        for name in (RECORD, STATES, "eval", "logs", WEIGHTS, HISTORY, RECORD):
            files.remove(self.folder / name)

    def delete(self) -> None:
        """Remove the run with everything in its folder. Raises `BusyError` if another process trains it."""
        with self.writing():
            self.clear()
            for name in (name for name, _ in files.entries(self.folder) if name != LOCK):
                files.remove(self.folder / name)

    def never_started(self) -> bool:
        """Whether the folder contains nothing but a lock, or in an object store nothing at all."""
        names = [name for name, _ in files.entries(self.folder)]
        return all(name == LOCK for name in names) and (bool(names) or isinstance(self.folder, RemotePath))

    # Evaluations

    def save_evaluation(self, evaluation: dict[str, Any], evaluated: RunRecord) -> None:
        """Save an evaluation of the run `evaluated`, and list it in run.json.

        Raises `RunError` if the run was trained again since, and `BusyError` if it is being trained.
        """
        name = evaluation_name(evaluation["fingerprint"], evaluation["split"], evaluation["decode"])
        text = json.dumps(evaluation, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        digest = hashlib.sha256(text.encode()).hexdigest()

        def save(version: Version | None) -> None:
            known = self.read()
            if known.files.get(WEIGHTS) != evaluated.files.get(WEIGHTS):
                fix = "evaluate it again with `ape eval` when it is finished"
                raise RunError("the run was retrained during the evaluation", got=self.name, fix=fix)
            files.write_text(self.folder / name, text)
            self.record = known.model_copy(update={"files": known.files | {name: digest}})
            files.write_text(self.folder / RECORD, record.text(self.record), version)

        with self.writing(_PATIENCE):
            files.updated(self.folder / RECORD, save)


def now() -> str:
    """The current time in UTC, in ISO 8601 format, with a resolution of one second."""
    return datetime.now(UTC).isoformat(timespec="seconds")

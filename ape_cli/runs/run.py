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

Only one process at a time writes a run (`files.locked`). In an object store, which has no locks, a run is written once:
`remote_run.py` describes how.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ape_cli.core.errors import BusyError, RunError
from ape_cli.core.memory import half_memory
from ape_cli.core.validation import first_error
from ape_cli.runs import record
from ape_cli.runs.record import EVALUATION, RECORD, RunRecord, TrainingResult, evaluation_name
from ape_cli.storage import files, tensors
from ape_cli.storage.object_store import Version
from ape_cli.storage.paths import StoragePath
from ape_cli.storage.tensors import AGAIN, Tensors

if TYPE_CHECKING:  # imported lazily: training needs no polars
    import polars as pl
    import pyarrow as pa

WEIGHTS, HISTORY = "model.safetensors", "history.parquet"
_HISTORY_BYTES, _EVALUATION_BYTES = 16 << 20, 8 << 20  # the most bytes of a file
_AGAIN = f"restore the file, or {AGAIN}"
STATES, LOCK = "state", ".lock"
STATE = f"{STATES}/state.safetensors"
_PATIENCE = 60.0  # seconds; an update of run.json takes much less


class Run:
    """The folder of a run. `Registry.find` returns one.

    Methods that save a file raise `ApeError` if they cannot. To read the result of a run:

        run = registry.open("results").find("copy-rope-42")
        if run.status == "finished":
            print(run.name, run.read().result.best_accuracy)
    """

    one_process = True  # at a time trains the run

    def __init__(self, folder: StoragePath) -> None:
        """Nothing is read; the folder need not exist."""
        self.folder = folder
        self._record: RunRecord | None = None  # as this process has read or written it last

    @property
    def name(self) -> str:
        """The name of the run, which is the name of its folder."""
        return self.folder.name

    @property
    def logs(self) -> StoragePath:
        """The folder for files of metric loggers."""
        return self.folder / "logs"

    @cached_property
    def attempt(self) -> StoragePath:
        """The folder in which this process trains the run."""
        return self.folder

    def _attempts(self) -> Iterator[StoragePath]:
        """The folders that may have files of the run, in the order in which they are read."""
        yield self.folder

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
                self._record = self._read(folder)
                return self._record
        raise RunError("the run has no run.json", got=str(self.folder), fix=self._again)

    @property
    def record(self) -> RunRecord:
        """The content of run.json, which is read only once. Raises `RunError` if it cannot be read."""
        return self._record or self.read()

    def _read(self, folder: StoragePath) -> RunRecord:
        """The content of the run.json in a folder. Raises `FileNotFoundError` if it is missing, and `RunError`."""
        path = folder / RECORD
        run_record = record.read(path, RunRecord, self._again)
        data = run_record.dataset
        expected = record.run_name(run_record.config, data.task, data.order, data.fingerprint)
        if expected != self.name:
            raise RunError(
                f"{path} was altered, or belongs to another run", got=expected, allowed=self.name, fix=self._again
            )
        return run_record

    @property
    def _again(self) -> str:
        """What to do about a damaged run."""
        return f"{AGAIN}, or remove {self.folder}"

    @property
    def status(self) -> str:
        """`finished`, `stopped`, `failed` or `running`. Raises `RunError` if run.json is missing or damaged."""
        return self.status_in(self.read())

    def status_in(self, run_record: RunRecord) -> str:
        """The status, given the content of run.json.

        A run is `stopped` if run.json says `running` but no process holds its lock.
        """
        unlocked = run_record.status == "running" and not files.is_locked(self.folder / LOCK)
        return "stopped" if unlocked else run_record.status

    def status_for_training(self) -> str | None:
        """The status before a training. None if there is no run, or only the rest of an interrupted start."""
        return self.status if self.exists() else None

    def write_record(self, run_record: RunRecord) -> None:
        """Write the run.json of an unfinished run."""
        self._record = run_record
        files.write_text(self.attempt / RECORD, record.text(run_record))

    def update(self, **fields: Any) -> None:
        """Set fields of the run.json of an unfinished run."""
        self.write_record(self.record.model_copy(update=fields))

    @contextmanager
    def writing(self, wait: float = 0.1) -> Iterator[None]:
        """Hold the lock of the run during the block. Folders that are empty after the block are removed.

        Raises `BusyError` if another process holds the lock for `wait` seconds, and `RunError` if a folder is a link,
        which could lead anywhere.
        """
        for folder in (self.folder, *(self.folder / name for name in (STATES, "eval", "logs"))):
            if folder.is_symlink():
                raise RunError(f"{folder} is a symbolic link", fix="put a folder in its place, or remove the link")
        try:
            with files.locked(self.folder / LOCK, self.busy(), wait):
                yield
        finally:
            with suppress(OSError):  # one of them is not empty
                for folder in (self.folder, self.folder.parent, self.folder.parent.parent):
                    folder.rmdir()

    def busy(self) -> BusyError:
        """The error that another process trains the run."""
        return BusyError("another process is training this run", got=self.name, fix="wait for it, or stop it")

    # Training

    def resume(self, processes: int, processor: dict[str, str], own_files: dict[str, str]) -> None:
        """Set the status to `running` again, with the present number of processes.

        `processor` describes the processor of this machine, and `own_files` has the digests of a user's own files. If
        they differ from the last ones, they are appended to `resumed_on` and `resumed_with`.
        """
        run_record = self.record
        resumed_on = (
            run_record.resumed_on if processor == run_record.last_processor else [*run_record.resumed_on, processor]
        )
        resumed_with = (
            run_record.resumed_with if own_files == run_record.last_own_files else [*run_record.resumed_with, own_files]
        )
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
        """
        best = {"run": self.name, "step": result.best_step, "validation_token_accuracy": result.best_accuracy}
        write: dict[str, Callable[[Path], None]] = {
            WEIGHTS: lambda path: tensors.write_tensors(path, weights, best),
            HISTORY: lambda path: write_history(path, history),
        }
        digests = {name: self._write(self.attempt, name, write[name]) for name in write}
        ended = self.record.model_copy(
            update={"status": "finished", "finished": now(), "result": result, "files": digests}
        )
        self._end(ended)
        return self.record.result == result

    def _end(self, ended: RunRecord) -> None:
        """Write the run.json of a finished run, which lists the files in `attempt`."""
        self.write_record(ended)

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
        """Whether the folder contains nothing but a lock."""
        return [name for name, _ in files.entries(self.folder)] == [LOCK]

    # The files that run.json lists. Each is compared with its SHA-256 when it is read.

    def content(self, name: str) -> bytes:
        """The content of a file that run.json lists. Raises `RunError` if it is missing or was altered."""
        path = self.folder / name
        try:
            limit = half_memory() if name == WEIGHTS else _HISTORY_BYTES if name == HISTORY else _EVALUATION_BYTES
            content = files.read_bytes(path, limit)
        except OSError as error:
            fix = files.how_to_read(error, _AGAIN)
            raise RunError(f"cannot read {path}", got=error.strerror, fix=fix) from error
        if (digest := hashlib.sha256(content).hexdigest()) != self.record.files[name]:
            raise _altered(path, digest, self.record.files[name])
        return content

    def problems(self) -> list[str]:
        """A line of text about each file that run.json lists and that is missing or was altered.

        The weights may be missing, because they are large and often removed.
        """
        lines = []
        for name, listed in self.record.files.items():
            path = self.folder / name
            try:
                if (digest := files.sha256(path)) != listed:
                    lines.append(_altered(path, digest, listed).summary)
            except OSError as error:
                if not isinstance(error, FileNotFoundError) or name != WEIGHTS:
                    lines.append(f"cannot read {path} ({error.strerror})")
        return lines

    def has_weights(self) -> bool:
        """Whether the best weights of a finished run are here."""
        return WEIGHTS in self.record.files and (self.folder / WEIGHTS).is_file()

    def require_weights(self) -> None:
        """Raises `RunError` if the best weights of a finished run are not here."""
        if not self.has_weights():
            raise RunError("the run has no weights", got=self.name, fix=AGAIN)

    def load_model(self) -> Tensors:
        """The best weights of a finished run. Raises `RunError` if there are none, or if they were altered."""
        self.require_weights()
        return tensors.parse_tensors(self.content(WEIGHTS), self.folder / WEIGHTS)

    def history(self) -> pl.DataFrame:
        """The history of validations, one row each; an empty table if run.json lists none.

        Raises `RunError` if the file is missing, was altered or cannot be read.
        """
        import polars as pl

        return pl.DataFrame(self.history_table())

    def history_table(self) -> pa.Table:
        """The history as a table of PyArrow, for which Polars need not be installed. Raises `RunError` as `history`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if HISTORY not in self.record.files:
            return pa.table({})
        content = self.content(HISTORY)
        try:
            with pq.ParquetFile(pa.BufferReader(content)) as file:
                return file.read()
        except pa.ArrowException as error:
            first = str(error).splitlines()[0]
            raise RunError(f"cannot read {self.folder / HISTORY}", got=first, fix=_AGAIN) from error

    def evaluation(self, name: str) -> dict[str, Any] | None:
        """The evaluation in the file `name`, or None if run.json does not list it.

        Raises `RunError` if the file is missing, was altered, or is no evaluation.
        """
        if name not in self.record.files:
            return None
        content = self.content(name)
        try:
            return dict(EVALUATION.validate_json(content))
        except ValidationError as error:
            fix = "remove it and run `ape eval`"
            raise RunError(f"{self.folder / name} is damaged", got=first_error(error), fix=fix) from error

    def evaluations(self) -> tuple[list[dict[str, Any]], list[str]]:
        """All evaluations sorted by file name, and a line of text about each that cannot be used."""
        good, bad = [], []
        for name in sorted(name for name in self.record.files if name.startswith("eval/")):
            try:
                evaluation = self.evaluation(name)
                good += [] if evaluation is None else [evaluation]
            except RunError as error:
                bad.append(error.summary)
        return good, bad

    def save_evaluation(self, evaluation: dict[str, Any], evaluated: RunRecord) -> None:
        """Save an evaluation of the run `evaluated`, and list it in run.json.

        Raises `RunError` if the run was trained again since, and `BusyError` if it is being trained.
        """
        name = evaluation_name(evaluation["fingerprint"], evaluation["split"], evaluation["decode"])
        text = json.dumps(evaluation, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        digest = hashlib.sha256(text.encode()).hexdigest()

        def save(version: Version | None) -> None:
            run_record = self.read()
            if run_record.files.get(WEIGHTS) != evaluated.files.get(WEIGHTS):
                fix = "evaluate it again with `ape eval` when it is finished"
                raise RunError("the run was retrained during the evaluation", got=self.name, fix=fix)
            files.write_text(self.folder / name, text)
            self._record = run_record.model_copy(update={"files": run_record.files | {name: digest}})
            files.write_text(self.folder / RECORD, record.text(self._record), version)

        with self.writing(_PATIENCE):
            files.updated(self.folder / RECORD, save)


def now() -> str:
    """The current time in UTC, in ISO 8601 format, with a resolution of one second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _altered(path: StoragePath, digest: str, listed: str) -> RunError:
    """The error for a file with another SHA-256 than run.json lists."""
    got, allowed = f"sha256 {digest[:16]}…", f"sha256 {listed[:16]}… (run.json)"
    return RunError(f"{path} was altered", got=got, allowed=allowed, fix=_AGAIN)


def write_history(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the history of validations, one row each, to a local file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # an absolute path, because pyarrow takes `a1:/x` for the address of a file system
    pq.write_table(pa.Table.from_pylist(rows), path.absolute(), compression="zstd")

"""The folder of one run, `results/runs/RUN/`.

Only one process may write at a time. Files are written atomically, and none of them is a pickle. The JSON files, the
weights and the state carry a digest of their own (`storage/digests.py`). The run.json of a finished run also has the
digests of the weights and the history. Each digest is checked when its file is read. Files of earlier versions have
none; then the run counts as unverified.

| file | content |
|---|---|
| run.json | resolved configuration, dataset, versions, git commit, status, times, digests of other files |
| model.safetensors | the best weights by validation token accuracy |
| state/ | what is needed to resume; removed when the run is finished |
| history.parquet | one row per validation |
| eval/*.json | one file per dataset, split and decoding |
| logs/ | files of metric loggers (`--log`), if there are any |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from ape_cli.core.errors import ApeError, BusyError, RunError
from ape_cli.runs import record
from ape_cli.runs.config import Config, read_config
from ape_cli.runs.evaluation_record import Evaluation, contradiction, evaluation_name
from ape_cli.runs.record import TrainingResult
from ape_cli.runs.run_files import HISTORY, WEIGHTS, RunFiles
from ape_cli.storage import files, folders, locks
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import StoragePath


class Run(RunFiles):
    """The folder of one run. `training.loop.Loop` stores its state and its results with it.

    Methods that save a file raise `ApeError` if it cannot be written.
    """

    # run.json

    def config(self) -> Config:
        """The configuration of the run. Raises `RunError` if run.json is missing or damaged."""
        return read_config(self.read()["config"])

    def update(self, **fields: Any) -> None:
        """Set fields of run.json. Raises `RunError` if it is missing or damaged.

        The run.json of an earlier version stays without a digest, because other files of the run may have none either.
        """
        about = self.read() | fields
        try:
            record.write(self.folder / "run.json", about, seal=self._record_is_sealed is not False)
        except ApeError:
            raise
        except ValueError as error:  # in a field that is never read back
            again = "start the run again with --overwrite"
            raise RunError(f"{self.folder / 'run.json'} cannot be written again", got=str(error), fix=again) from error

    @property
    def status(self) -> str:
        """The status of the run, see `status_in`. Raises `RunError` if run.json is missing or damaged."""
        return self.status_in(self.read())

    def status_in(self, about: dict[str, Any]) -> str:
        """The status `finished`, `stopped`, `failed` or `running`, given the content of run.json.

        A run is `stopped` if run.json says `running` but no process holds its lock.
        """
        if about["status"] != "running" or locks.is_locked(self.folder / ".lock"):
            return str(about["status"])
        now = "running"
        with suppress(RunError):  # its folder may be removed at this moment
            now = str(self.read()["status"])  # the run may have finished after `about` was read
        return "stopped" if now == "running" and not locks.is_locked(self.folder / ".lock") else now

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the write lock of the run during the block. Raises `BusyError` if another process holds it."""
        busy = BusyError("another process is training this run", got=self.name, fix="wait for it, or stop it")
        with locks.locked(self.folder / ".lock", busy):
            yield

    def settled(self) -> str:
        """The status, read under the lock. Raises `BusyError` if another process holds it."""
        with self.writing():
            said = str(self.read()["status"])
        return "stopped" if said == "running" else said

    # Life cycle

    def resume(self, processes: int, processor: dict[str, str]) -> None:
        """Set the status to `running` again, with the present number of processes.

        `processor` describes the processor of this machine. If it differs from the last one, it is appended to
        `resumed_on`.
        """
        about, here = self.read(), processor
        resumed_on = about.get("resumed_on", [])
        moved = here != [about.get("processor", here), *resumed_on][-1]
        more = {"resumed_on": [*resumed_on, here]} if moved else {}
        self.update(status="running", processes=processes, **more)

    def finish(self, result: TrainingResult) -> None:
        """Set the status to `finished`, save the result, and remove the state for resuming.

        The digests of the weights and the history are written into run.json. Raises `RunError` if the weights were
        altered since they were saved, or are not those of the best step.
        """
        self.check_tensors(result)
        digests = {name: files.sha256(self.folder / name) for name in (WEIGHTS, HISTORY)}
        self.update(status="finished", finished=now(), result=result.model_dump(), files=digests)
        self._drop_state()

    def has_leftovers(self) -> bool:
        """Whether the folder has files that a finished run does not need: its state for resuming, or a lock."""
        return any(name == "state" or _is_lock(name) for name in self._names())

    def tidy(self) -> None:
        """Remove what was left by a process that was killed after it had finished the run.

        Nothing is removed while another process holds the lock, or if the run is not finished.
        """
        if self.has_leftovers():
            with suppress(BusyError), self.writing():
                if self.read()["status"] == "finished":
                    self._drop_state()

    def _drop_state(self) -> None:
        """Remove the state for resuming."""
        folders.remove(self.folder / "state")

    def _check_own_folder(self, name: str = "") -> None:
        """Check that the folder, or the folder `name` in it, is no link, which could lead anywhere.

        Raises `RunError` if it is one.
        """
        folder = self.folder / name if name else self.folder
        if folders.is_link(folder):
            what = f"{folder} is no folder of {'this run' if name else 'these results'}"
            raise RunError(what, got="a symbolic link", fix="put a folder in its place" if name else "remove the link")

    def check_folders(self) -> None:
        """Check that no folder that a resumed run writes to is a link. Raises `RunError` if one is."""
        for name in ("", "state", self.logs.name):
            self._check_own_folder(name)

    def delete(self) -> None:
        """Remove the run with everything in its folder. If that is interrupted, what is left is no run any more.

        Raises `BusyError` if another process trains it, and `RunError` if its folder is a link.
        """
        self._check_own_folder()
        with self.writing():
            names = [name for name in self._names() if not _is_lock(name)]
            for name in sorted(names, key=lambda name: name != "run.json"):
                folders.remove(self.folder / name)
        self.forget()

    def clear(self) -> None:
        """Remove the weights, the history, run.json, the state and all evaluations, so that the run can start again.

        Raises `RunError` if the folder of the run is a link.
        """
        self._check_own_folder()
        for name in ("state", self.logs.name, WEIGHTS, HISTORY, "run.json"):
            folders.remove(self.folder / name)
        evaluations = self.folder / "eval"
        if evaluations.is_dir() and not folders.is_link(evaluations):
            for path in evaluations.glob("*.json"):
                folders.remove(path)
        else:
            folders.remove(evaluations)

    def forget(self) -> None:
        """Remove the folder of a run that was never started or was deleted, if it contains nothing but its lock."""
        if all(map(_is_lock, self._names())):
            if isinstance(self.folder, RemotePath):  # a folder disappears with its last object, which is the lease
                return
            (self.folder / ".lock").unlink(missing_ok=True)
            with suppress(OSError):  # another process begins to train the run at this moment
                self.folder.rmdir()

    def never_started(self) -> bool:
        """Whether the folder contains nothing but a lock. In an object store, an empty folder may be left too."""
        names = self._names()
        return all(map(_is_lock, names)) and (bool(names) or isinstance(self.folder, RemotePath))

    def _names(self) -> list[str]:
        """The names of what is in the folder."""
        return [name for name, _ in folders.entries(self.folder)]

    # Results

    @property
    def logs(self) -> StoragePath:
        """The folder for files of metric loggers."""
        return self.folder / "logs"

    def save_evaluation(self, evaluation: dict[str, Any]) -> None:
        """Save an evaluation under the name that `evaluation_name` gives it.

        Raises `RunError` if the folder of evaluations is a link, which could lead anywhere, or if the run was removed
        or trained again since it was evaluated.
        """
        about, weights = self.read(), evaluation.get("weights")
        trained = about.get("files", {}).get(WEIGHTS, weights)  # early versions did not store it
        if weights is not None and (about["status"] != "finished" or trained != weights):
            raise RunError(
                "the run was trained again while it was evaluated",
                got=f"scores of the weights {weights[:16]}…",
                allowed=f"{trained[:16]}… (run.json)" if trained != weights else "a finished run",
                fix="evaluate it again with `ape eval` when it is finished",
            )
        for folder in ("", "eval"):
            self._check_own_folder(folder)
        name = evaluation_name(evaluation["fingerprint"], evaluation["split"], evaluation["decode"])
        record.write(self.folder / "eval" / f"{name}.json", evaluation)

    def evaluation(self, name: str, about: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """The evaluation `eval/NAME.json`, or None if it does not exist.

        `about` is the content of run.json, which is read if it is not given.

        Raises `RunError` if the evaluation is damaged, was altered, or contradicts the run.
        """
        path, again = self.folder / f"eval/{name}.json", "remove it and run `ape eval`"
        try:
            evaluation, sealed = record.read(path, Evaluation, again)
        except FileNotFoundError:
            return None
        about = self.read() if about is None else about
        self.check_seal(path, sealed)
        if found := contradiction(evaluation, name, self.name, about, about.get("files", {}).get(WEIGHTS)):
            what, got, allowed = found
            raise RunError(f"{path} contradicts its run", got=f"{what}: {got}", allowed=allowed, fix=again)
        return evaluation

    def evaluations(self, about: dict[str, Any] | None = None) -> tuple[list[dict[str, Any]], list[str]]:
        """All evaluations sorted by file name, and a line of text about each that cannot be used.

        `about` is the content of run.json, which is read if it is not given.
        """
        good, bad = [], []
        about = self.read() if about is None else about
        try:
            entries = folders.entries(self.folder / "eval")
        except OSError as error:
            return [], [f"cannot read {self.folder / 'eval'} ({error.strerror})"]
        for name in (name.removesuffix(".json") for name, _ in entries if name.endswith(".json")):
            try:
                found = self.evaluation(name, about)
            except RunError as error:
                bad.append(error.summary)
            else:
                good += [] if found is None else [found]
        return good, bad


def _is_lock(name: str) -> bool:
    """Whether this is the name of the run's lock file, or of a file that belongs to it."""
    return name == ".lock" or name.startswith(".lock.")


def now() -> str:
    """The current time in UTC, in ISO 8601 format, with a resolution of one second."""
    return datetime.now(UTC).isoformat(timespec="seconds")

"""A run in an object store, which has no locks: it is written once, whatever other processes do.

Each process trains in a folder of its own, `state/ATTEMPT/`, which has the same files as the folder of a run. A run is
resumed from the newest attempt, and an unfinished run is described by its newest attempt.

The first attempt to end is kept. Its process creates run.json in the folder of the run, which only one process can do.
This run.json still says `running`, and lists the files in the folder of the attempt. Whoever finds it copies these
files into the folder of the run, and then replaces exactly this version of run.json by that of the finished run. So it
does not matter how many processes do this, in which order, or whether some of them are killed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property

from ape_cli.runs import record
from ape_cli.runs.record import RECORD, RunRecord
from ape_cli.runs.run import STATES, Run
from ape_cli.storage import files
from ape_cli.storage.object_store import ConflictError, RemotePath
from ape_cli.storage.paths import StoragePath


def run_in(folder: StoragePath) -> Run:
    """The run in a folder, which need not exist. Nothing is read yet."""
    return RemoteRun(folder) if isinstance(folder, RemotePath) else Run(folder)


class RemoteRun(Run):
    """The folder of a run in an object store."""

    folder: RemotePath
    one_process = False

    @cached_property
    def attempt(self) -> RemotePath:
        """The folder in which this process trains the run."""
        return self.folder / STATES / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"

    def _attempts(self) -> Iterator[RemotePath]:
        """The folder of the run, then its attempts, the newest first. They are listed when they are asked for."""
        yield self.folder
        names = [name for name, is_folder in files.entries(self.folder / STATES) if is_folder]
        yield from (self.folder / STATES / name for name in reversed(names))

    def status_in(self, run_record: RunRecord) -> str:
        """The status, given the content of run.json. A run that was killed stays `running`."""
        return run_record.status

    def status_for_training(self) -> str | None:
        """The status before a training, as that of a local run.

        Nobody knows whether another process trains the run. A run whose end was announced by a process that was killed
        is finished now.
        """
        if not self.exists():
            return None
        if (status := self.status) == "running":
            return "finished" if self.complete() else "stopped"
        return status

    def never_started(self) -> bool:
        """Whether the folder is empty."""
        return not files.entries(self.folder)

    def _end(self, ended: RunRecord) -> None:
        """Announce the end of this attempt, and complete the run. Raises `ConflictError` as `complete`."""
        listed = {f"{STATES}/{self.attempt.name}/{name}": digest for name, digest in ended.files.items()}
        self.complete(ended.model_copy(update={"status": "running", "files": listed}))

    def complete(self, end: RunRecord | None = None) -> bool:
        """Finish the run if an attempt has ended. Returns whether the run is finished.

        `end` is the run.json with which this process ends the run, if no other process has done so. Each pass of the
        loop takes the next step on condition that run.json is as this pass has read it.

        Raises `ConflictError` if files of the attempt were removed, or if run.json changes all the time.
        """
        path = self.folder / RECORD
        for _ in range(files.TRIES):
            version, there, following = path.version(), None, end
            with suppress(FileNotFoundError):
                there = self._read(self.folder)
            if there is not None and there.status == "finished":
                self._record = there
                return True
            if there is not None and there.files:
                with suppress(FileNotFoundError):  # they are removed after the run is finished, and by `clear`
                    following = self._collected(there)
            if following is not None:
                with suppress(ConflictError):  # another process has taken this step
                    files.write_text(path, record.text(following), version)
            elif version == path.version():
                return False
        what = "files of this run were removed or changed in the meantime"
        raise ConflictError(what, got=str(self.folder), fix=self._again)

    def _collected(self, ended: RunRecord) -> RunRecord:
        """Copy the files of an attempt that has ended into the folder of the run. Returns the final run.json.

        Raises `FileNotFoundError` if one of them was removed.
        """
        digests = {}
        for name, digest in ended.files.items():
            source = self.folder / name
            source.copy(self.folder / source.name)
            digests[source.name] = digest
        return ended.model_copy(update={"status": "finished", "files": digests})

"""The folder of one run, `results/runs/RUN/`.

Only one process may write at a time. Files are written atomically, and none of them is a pickle.

| file | content |
|---|---|
| run.json | resolved configuration, dataset, versions, git commit, status, times |
| model.safetensors | the best weights by validation token accuracy |
| state/ | what is needed to resume; removed when the run is finished |
| history.parquet | one row per validation |
| eval/*.json | one file per dataset, split and decoding |
| logs/ | files of metric loggers (`--log`), if there are any |
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ape_cli.core.errors import BusyError, RunError
from ape_cli.runs import record
from ape_cli.runs.config import Config, read_config
from ape_cli.runs.record import Evaluation, Record, TrainingResult
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath

if TYPE_CHECKING:  # imported lazily: training needs no polars
    import polars as pl


Tensors = dict[str, Any]  # name -> torch.Tensor; this package does not import torch


class Run:
    """The folder of one run. `training.loop.Loop` stores its state and its results with it.

    Methods that save a file raise `ApeError` if it cannot be written.
    """

    def __init__(self, folder: StoragePath) -> None:
        """Nothing is read; the folder need not exist."""
        self.folder = folder

    @property
    def name(self) -> str:
        """The name of the run, which is the name of its folder."""
        return self.folder.name

    # run.json

    def read(self) -> dict[str, Any]:
        """The checked content of run.json. Raises `RunError` if it is missing or damaged."""
        again = f"train it again with --overwrite, or remove {self.folder}"
        try:
            return record.read(self.folder / "run.json", Record, again)
        except FileNotFoundError:
            raise RunError("the run has no run.json", got=str(self.folder), fix=again) from None

    def config(self) -> Config:
        """The configuration of the run. Raises `RunError` if run.json is missing or damaged."""
        return read_config(self.read()["config"])

    def update(self, **fields: Any) -> None:
        """Set fields of run.json. Raises `RunError` if it is missing or damaged."""
        files.write_json(self.folder / "run.json", self.read() | fields)

    @property
    def status(self) -> str:
        """The status of the run, see `status_in`. Raises `RunError` if run.json is missing or damaged."""
        return self.status_in(self.read())

    def status_in(self, about: dict[str, Any]) -> str:
        """The status `finished`, `stopped`, `failed` or `running`, given the content of run.json.

        A run is `stopped` if run.json says `running` but no process holds its lock.
        """
        said = str(about["status"])
        return "stopped" if said == "running" and not files.is_locked(self.folder / ".lock") else said

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the write lock of the run during the block. Raises `BusyError` if another process holds it."""
        busy = BusyError("another process is training this run", got=self.name, fix="wait for it, or stop it")
        with files.locked(self.folder / ".lock", busy):
            yield

    def settled(self) -> str:
        """The status, read under the lock. Raises `BusyError` if another process holds it."""
        with self.writing():
            said = str(self.read()["status"])
        return "stopped" if said == "running" else said

    # What training.loop.Loop stores

    def save_state(self, tensors: Tensors, cursor: dict[str, Any]) -> None:
        """Save the state for resuming: tensors, and a JSON object `cursor` that says how far training is."""
        self._save(self.folder / "state" / "state.safetensors", tensors, cursor)

    def load_state(self) -> tuple[Tensors, dict[str, Any]] | None:
        """The saved state for resuming, or None if there is none. Raises `RunError` if its file is damaged."""
        path = self.folder / "state" / "state.safetensors"
        return load_tensors(path) if path.exists() else None

    def save_model(self, tensors: Tensors, about: dict[str, Any]) -> None:
        """Save the best weights, with a JSON object `about` them."""
        self._save(self.folder / "model.safetensors", tensors, about)

    def save_history(self, rows: list[dict[str, Any]]) -> None:
        """Save the history of validations, one row each."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        with files.replacing(self.folder / "history.parquet") as temporary:
            pq.write_table(pa.Table.from_pylist(rows), temporary, compression="zstd")

    def _save(self, path: StoragePath, tensors: Tensors, about: dict[str, Any]) -> None:
        """Write a safetensors file with the JSON object `about` in its metadata."""
        import safetensors.torch

        contiguous = {k: v.detach().contiguous() for k, v in tensors.items()}
        with files.replacing(path) as temporary:
            try:
                # only one key: safetensors writes several keys in an order that changes from run to run
                safetensors.torch.save_file(contiguous, temporary, metadata={"ape": json.dumps(about, sort_keys=True)})
            except safetensors.SafetensorError as error:
                full = f"os error {errno.ENOSPC}" in str(error)
                raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from error

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
        """Set the status to `finished`, save the result, and remove the state for resuming."""
        self.update(status="finished", finished=now(), result=result.model_dump())
        self._drop_state()

    def _drop_state(self) -> None:
        """Remove the state for resuming."""
        _remove(self.folder / "state")

    def clear(self) -> None:
        """Remove the weights, the history, run.json, the state and all evaluations, so that the run can start again."""
        self._drop_state()
        _remove(self.logs)
        for name in ("model.safetensors", "history.parquet", "run.json"):
            (self.folder / name).unlink(missing_ok=True)
        for path in (self.folder / "eval").glob("*.json"):
            path.unlink()

    def forget(self) -> None:
        """Remove the folder of a run that was never started, if it contains nothing but its lock."""
        if all(p.name == ".lock" or p.name.startswith(".lock.") for p in self.folder.iterdir()):
            (self.folder / ".lock").unlink(missing_ok=True)
            with suppress(OSError):  # in an object store, the lease is still in the folder; it is removed later
                self.folder.rmdir()

    # Results

    @property
    def logs(self) -> StoragePath:
        """The folder for files of metric loggers."""
        return self.folder / "logs"

    @property
    def has_weights(self) -> bool:
        """Whether the best weights were saved."""
        return (self.folder / "model.safetensors").exists()

    def history(self) -> pl.DataFrame:
        """The history of validations, one row each; an empty table if there is none."""
        import polars as pl

        path = self.folder / "history.parquet"
        if not path.exists():
            return pl.DataFrame()
        with files.local(path) as here:
            return pl.read_parquet(here)

    def save_evaluation(self, name: str, evaluation: dict[str, Any]) -> None:
        """Save an evaluation as `eval/NAME.json`."""
        files.write_json(self.folder / "eval" / f"{name}.json", evaluation)

    def evaluation(self, name: str) -> dict[str, Any] | None:
        """The evaluation `eval/NAME.json`, or None if it does not exist. Raises `RunError` if it is damaged."""
        try:
            return record.read(self.folder / "eval" / f"{name}.json", Evaluation, "remove it and run `ape eval`")
        except FileNotFoundError:
            return None

    def evaluations(self) -> tuple[list[dict[str, Any]], list[str]]:
        """All evaluations sorted by file name, and a line of text about each that cannot be read."""
        good, bad = [], []
        entries = files.entries(self.folder / "eval")
        for name in (name.removesuffix(".json") for name, _ in entries if name.endswith(".json")):
            try:
                found = self.evaluation(name)
            except RunError as error:
                bad.append(f"{error.what} ({error.got})")
            else:
                good += [] if found is None else [found]
        return good, bad


def _remove(folder: StoragePath) -> None:
    """Delete a folder with everything in it, if there is one."""
    if not folder.is_dir():
        return
    paths: list[StoragePath] = list(folder.iterdir())
    for path in paths:
        _remove(path) if path.is_dir() else path.unlink()
    if folder.is_dir():
        folder.rmdir()


def load_tensors(path: StoragePath) -> tuple[Tensors, dict[str, Any]]:
    """Read tensors from a safetensors file, and the JSON object in its metadata.

    Raises `RunError` if the file is damaged or was not written by this program.
    """
    import safetensors

    again = "train the run again with --overwrite"
    try:
        with files.local(path) as here, safetensors.safe_open(here, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        return tensors, json.loads(metadata["ape"])
    except (safetensors.SafetensorError, OSError) as error:
        raise RunError(f"{path} is not a complete safetensors file", got=str(error), fix=again) from error
    except (KeyError, ValueError) as error:
        raise RunError(f"{path} was not written by ape", got="its metadata is not ours", fix=again) from error


def now() -> str:
    """The current time in UTC, in ISO 8601 format, with a resolution of one second."""
    return datetime.now(UTC).isoformat(timespec="seconds")

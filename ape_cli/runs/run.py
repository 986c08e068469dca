"""One run's folder, `results/runs/RUN/`: one writer, every file whole or absent, nothing a pickle.

run.json           resolved config, dataset, versions, git commit, status, timings
model.safetensors  the best weights by validation token accuracy
state/             what resuming needs; gone when the run is finished
history.parquet    a line a validation
eval/*.json        one per dataset x split x decoding
logs/              files of metric loggers (`--log`), if there are any
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

if TYPE_CHECKING:  # imported where tables are read, so that training needs no polars
    import polars as pl


Tensors = dict[str, Any]  # name -> torch.Tensor; this package does not import torch


class Run:
    """One run's folder. It is what `train.Loop` stores into."""

    def __init__(self, folder: StoragePath) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        return self.folder.name

    # run.json

    def read(self) -> dict[str, Any]:
        """run.json, checked; a `RunError` says what is wrong with it."""
        again = f"train it again with --overwrite, or remove {self.folder}"
        try:
            return record.read(self.folder / "run.json", Record, again)
        except FileNotFoundError:
            raise RunError("the run has no run.json", got=str(self.folder), fix=again) from None

    def config(self) -> Config:
        return read_config(self.read()["config"])

    def update(self, **fields: Any) -> None:
        files.write_json(self.folder / "run.json", self.read() | fields)

    @property
    def status(self) -> str:
        return self.status_in(self.read())

    def status_in(self, about: dict[str, Any]) -> str:
        """`finished`, `stopped`, `failed`, `running`; a run whose process is gone is `stopped`."""
        said = str(about["status"])
        return "stopped" if said == "running" and not files.is_locked(self.folder / ".lock") else said

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to write; one process at a time."""
        busy = BusyError("another process is training this run", got=self.name, fix="wait for it, or stop it")
        with files.locked(self.folder / ".lock", busy):
            yield

    def settled(self) -> str:
        """The status when nobody else writes; while another process does, a `BusyError` that says which."""
        with self.writing():
            said = str(self.read()["status"])
        return "stopped" if said == "running" else said

    # What train.Loop stores

    def save_state(self, tensors: Tensors, cursor: dict[str, Any]) -> None:
        self._save(self.folder / "state" / "state.safetensors", tensors, cursor)

    def load_state(self) -> tuple[Tensors, dict[str, Any]] | None:
        path = self.folder / "state" / "state.safetensors"
        return load_tensors(path) if path.exists() else None

    def save_model(self, tensors: Tensors, about: dict[str, Any]) -> None:
        self._save(self.folder / "model.safetensors", tensors, about)

    def save_history(self, rows: list[dict[str, Any]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        with files.replacing(self.folder / "history.parquet") as temporary:
            pq.write_table(pa.Table.from_pylist(rows), temporary, compression="zstd")

    def _save(self, path: StoragePath, tensors: Tensors, about: dict[str, Any]) -> None:
        import safetensors.torch

        contiguous = {k: v.detach().contiguous() for k, v in tensors.items()}
        with files.replacing(path) as temporary:
            try:
                # one key: several would be written in an order that changes from run to run
                safetensors.torch.save_file(contiguous, temporary, metadata={"ape": json.dumps(about, sort_keys=True)})
            except safetensors.SafetensorError as error:
                full = f"os error {errno.ENOSPC}" in str(error)
                raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from error

    # Life

    def resume(self, processes: int, processor: dict[str, str]) -> None:
        """Mark it as running again. `resumed_on` lists the processors that it went on with, if they have changed."""
        about, here = self.read(), processor
        resumed_on = about.get("resumed_on", [])
        moved = here != [about.get("processor", here), *resumed_on][-1]
        more = {"resumed_on": [*resumed_on, here]} if moved else {}
        self.update(status="running", processes=processes, **more)

    def finish(self, result: TrainingResult) -> None:
        self.update(status="finished", finished=now(), result=result.model_dump())
        self._drop_state()

    def _drop_state(self) -> None:
        _remove(self.folder / "state")

    def clear(self) -> None:
        """Forget everything but the folder, to begin again."""
        self._drop_state()
        _remove(self.logs)
        for name in ("model.safetensors", "history.parquet", "run.json"):
            (self.folder / name).unlink(missing_ok=True)
        for path in (self.folder / "eval").glob("*.json"):
            path.unlink()

    def forget(self) -> None:
        """Remove the folder of a run that was never begun, if there is nothing in it but its lock."""
        if all(p.name == ".lock" or p.name.startswith(".lock.") for p in self.folder.iterdir()):
            (self.folder / ".lock").unlink(missing_ok=True)
            with suppress(OSError):  # not empty: in an object store it goes with the lease
                self.folder.rmdir()

    # What was found

    @property
    def logs(self) -> StoragePath:
        """The folder for files of metric loggers."""
        return self.folder / "logs"

    @property
    def has_weights(self) -> bool:
        return (self.folder / "model.safetensors").exists()

    def history(self) -> pl.DataFrame:
        import polars as pl

        path = self.folder / "history.parquet"
        if not path.exists():
            return pl.DataFrame()
        with files.local(path) as here:
            return pl.read_parquet(here)

    def save_evaluation(self, name: str, evaluation: dict[str, Any]) -> None:
        files.write_json(self.folder / "eval" / f"{name}.json", evaluation)

    def evaluation(self, name: str) -> dict[str, Any] | None:
        """One evaluation by its file's name, None if it was not made."""
        try:
            return record.read(self.folder / "eval" / f"{name}.json", Evaluation, "remove it and run `ape eval`")
        except FileNotFoundError:
            return None

    def evaluations(self) -> tuple[list[dict[str, Any]], list[str]]:
        """All of them, by name; and a line about each that cannot be read."""
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
    """Tensors and the JSON beside them. Anything but a whole safetensors file of ours is a `RunError`."""
    import safetensors

    again = "train the run again with --overwrite"
    try:
        with files.local(path) as here, safetensors.safe_open(here, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        return tensors, json.loads(metadata["ape"])
    except (safetensors.SafetensorError, OSError) as error:
        raise RunError(f"{path} is not a whole safetensors file", got=str(error), fix=again) from error
    except (KeyError, ValueError) as error:
        raise RunError(f"{path} was not written by ape", got="no metadata of ours", fix=again) from error


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

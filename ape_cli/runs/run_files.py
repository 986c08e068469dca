"""The files of one run: how they are written, and how they are checked when they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ape_cli.core import budget
from ape_cli.core.errors import RunError
from ape_cli.runs import history, record
from ape_cli.runs.best_weights import are_best
from ape_cli.runs.record import Record, TrainingResult
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath
from ape_cli.storage.tensors import Tensors, check_length, check_tensors, load_tensors, save_tensors

if TYPE_CHECKING:  # imported lazily: training needs no polars
    import polars as pl

WEIGHTS, HISTORY = "model.safetensors", "history.parquet"


class RunFiles:
    """The files of one run, except its evaluations. Methods that save a file raise `ApeError` if that is not possible.

    `unverified` says whether a file was read that has no digest.
    """

    def __init__(self, folder: StoragePath) -> None:
        """Nothing is read; the folder need not exist."""
        self.folder = folder
        self.unverified = False
        self._record_is_sealed: bool | None = None  # None until run.json is read

    @property
    def name(self) -> str:
        """The name of the run, which is the name of its folder."""
        return self.folder.name

    def read(self) -> dict[str, Any]:
        """The checked content of run.json.

        Raises `RunError` if it is missing, damaged, altered, or of another run, or if it contradicts itself.
        """
        again = f"train it again with --overwrite, or remove {self.folder}"
        path = self.folder / "run.json"
        try:
            about, sealed = record.read(path, Record, again, complete=("config", "dataset"))
        except FileNotFoundError:
            raise RunError("the run has no run.json", got=str(self.folder), fix=again) from None
        if about["run"] != self.name:
            raise RunError(f"{path} is of another run", got=about["run"], allowed=self.name, fix=again)
        try:
            record.check_name(about)
            record.check_variant(about)
            record.check_steps(about)
        except ValueError as error:
            raise RunError(f"{path} contradicts itself", got=str(error), fix=again) from error
        self._record_is_sealed = sealed
        self.unverified |= not sealed
        return about

    def check_seal(self, path: StoragePath, sealed: bool) -> None:
        """Note that a file of this run has no digest. The run is unverified then.

        Raises `RunError` if run.json has a digest: then all files of the run were written with one.
        """
        if sealed:
            return
        if self._record_is_sealed is None:
            self.read()
        if self._record_is_sealed:
            raise RunError(
                f"{path} was altered", got="no digest", allowed="a digest, as in run.json", fix="restore the file"
            )
        self.unverified = True

    def save_state(self, tensors: Tensors, cursor: dict[str, Any]) -> None:
        """Save the state for resuming: tensors, and a JSON object `cursor` that says how far training is."""
        save_tensors(self._state, tensors, cursor | {"run": self.name})

    def load_state(self) -> tuple[Tensors, dict[str, Any]] | None:
        """The saved state for resuming, or None if there is none.

        Raises `RunError` if its file is damaged, altered, or of another run.
        """
        if not self._state.exists():
            return None
        tensors, cursor, sealed = load_tensors(self._state)
        self._check_owner(self._state, cursor, sealed)
        self.check_seal(self._state, sealed)
        return tensors, cursor

    def save_model(self, tensors: Tensors, about: dict[str, Any]) -> None:
        """Save the best weights, with a JSON object `about` them."""
        save_tensors(self.folder / WEIGHTS, tensors, about | {"run": self.name})

    def load_model(self) -> tuple[Tensors, str]:
        """The best weights, and the SHA-256 of their file.

        Raises `RunError` if there are none, or if their file is damaged, altered, or of another run.
        """
        self.require_weights()
        digest = self.check_file(WEIGHTS)
        tensors, about, sealed = load_tensors(self.folder / WEIGHTS)
        self._check_owner(self.folder / WEIGHTS, about, sealed)
        return tensors, digest

    def require_weights(self) -> None:
        """Raises `RunError` if the best weights were not saved, or are not here any more."""
        if not self.has_weights:
            raise RunError("the run has no weights", got=self.name, fix="train it: `ape train … --overwrite`")

    def check_tensors(self, result: TrainingResult | None = None) -> None:
        """Check the weights and the state, as far as they exist, without loading all of them.

        `result` is that of a run that has just ended; then the weights must be those of its best step.

        Raises `RunError` if a file is damaged, altered, or of another run, if a weight is not finite, or if the weights
        are not the best ones.
        """
        best: dict[str, Any] = {}  # what the state says about the best weights
        for path in (self._state, self.folder / WEIGHTS):
            if path.exists():
                about, sealed = check_tensors(path, finite=path.name == WEIGHTS)
                self._check_owner(path, about, sealed)
                if path.name == WEIGHTS:
                    are_best(path, about, best if result is None else result.model_dump())
                else:
                    best = about
                if path.name == WEIGHTS and self.read()["status"] == "finished":
                    self.check_file(WEIGHTS)
                else:
                    self.check_seal(path, sealed)

    def check_weights(self, cursor: dict[str, Any]) -> bool:
        """Check the weights without loading them, and return whether they are the best ones that a state names.

        `cursor` is the JSON object of the state. If the state holds the best weights itself, the file may be missing or
        have other weights, because it is stored just after the state. Then the result is False.

        Raises `RunError` if the state does not hold them and the file does not have them, or if the file is damaged,
        altered, or of another run.
        """
        if not cursor.get("best_step"):
            return True
        path = self.folder / WEIGHTS
        if not path.exists():
            if cursor.get("holds_best"):
                return False
            fix = "restore the file, or start the run again with --overwrite"
            raise RunError(f"{path} is missing", got=f"a state whose best step is {cursor['best_step']}", fix=fix)
        about, sealed = check_tensors(path, finite=True)
        self._check_owner(path, about, sealed)
        return are_best(path, about, cursor)

    def seal_tensors(self) -> None:
        """Write the weights and the state again with a digest, if they have none.

        Raises `RunError` like `check_tensors`.
        """
        for path in (self.folder / WEIGHTS, self._state):
            if path.exists() and not check_tensors(path)[1]:
                tensors, about, _ = load_tensors(path)
                save_tensors(path, tensors, about | {"run": self.name})

    def save_history(self, rows: list[dict[str, Any]]) -> None:
        """Save the history of validations, one row each. It is the first file of a checkpoint.

        Raises `RunError` if the folder of the run was removed meanwhile.
        """
        if not (self.folder / "run.json").exists():
            raise RunError(
                "the folder of the run was removed while it trains", got=str(self.folder), fix="start it again"
            )
        import pyarrow as pa
        import pyarrow.parquet as pq

        with files.replacing(self.folder / HISTORY) as temporary:
            # an absolute path, because pyarrow takes `a1:/x` for the address of a file system
            pq.write_table(pa.Table.from_pylist(history.written(rows)), temporary.absolute(), compression="zstd")

    @property
    def _state(self) -> StoragePath:
        """The path of the state for resuming."""
        return self.folder / "state" / "state.safetensors"

    def _check_owner(self, path: StoragePath, about: dict[str, Any], sealed: bool) -> None:
        """Check that a safetensors file is of this run. `about` is its metadata. Raises `RunError` otherwise."""
        run = about.pop("run", None)  # files of earlier versions have neither a digest nor the name of their run
        if run != self.name and (sealed or run is not None):
            again = "train the run again with --overwrite"
            raise RunError(f"{path} is of another run", got=run, allowed=self.name, fix=again)

    def check_file(self, name: str, about: dict[str, Any] | None = None) -> str:
        """Compare a file with the digest in run.json, and return its SHA-256.

        `about` is the content of run.json, which is read if it is not given.

        Raises `RunError` if the file is missing or was altered.
        """
        path = self.folder / name
        about = self.read() if about is None else about
        said = about.get("files", {}).get(name)
        try:
            if name == WEIGHTS:
                check_length(path)
            elif path.stat().st_size > budget.HISTORY_BYTES:
                raise files.too_large(path, budget.HISTORY_BYTES)
            found = files.sha256(path)
        except ValueError as error:
            raise RunError(f"{path} was altered", got=str(error), fix="restore the file, or train again") from error
        except OSError as error:
            fix = files.how_to_read(error, "restore the file")
            raise RunError(f"cannot read {path}", got=error.strerror, fix=fix) from error
        if said is None:
            self.unverified = True
        elif found != said:
            got, allowed = f"sha256 {found[:16]}…", f"sha256 {said[:16]}… (run.json)"
            raise RunError(f"{path} was altered", got=got, allowed=allowed, fix="restore the file, or train again")
        return found

    @property
    def has_weights(self) -> bool:
        """Whether the best weights were saved."""
        return (self.folder / WEIGHTS).exists()

    def history(self, about: dict[str, Any] | None = None) -> pl.DataFrame:
        """The history of validations, one row each; an empty table if there is none.

        `about` is the content of run.json, which is read if it is not given.

        Raises `RunError` if the file is missing although the run is finished, or if it is damaged or altered.
        """
        import polars as pl

        path = self.folder / HISTORY
        about = self.read() if about is None else about
        if not path.exists() and HISTORY not in about.get("files", {}):
            return pl.DataFrame()
        self.check_file(HISTORY, about)
        last = about["result"]["steps"] if about["status"] == "finished" else 2**53
        with files.local(path) as here:
            return history.read(path, here, last)

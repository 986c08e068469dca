"""The files that the run.json of a finished run lists. Each is compared with its SHA-256 when it is read."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ape_cli.core.errors import RunError
from ape_cli.core.validation import first_error
from ape_cli.runs.record import EVALUATION, RunRecord
from ape_cli.storage import files, tensors
from ape_cli.storage.paths import StoragePath
from ape_cli.storage.tensors import Tensors

if TYPE_CHECKING:  # imported lazily: training needs no polars
    import polars as pl
    import pyarrow as pa

WEIGHTS, HISTORY = "model.safetensors", "history.parquet"
_BYTES = {WEIGHTS: tensors.LARGEST, HISTORY: 16 << 20}  # the most bytes of a file
_EVALUATION_BYTES = 8 << 20
_VALUES = 10_000_000  # the most values of a history
_AGAIN = "restore the file, or train the run again with `overwrite`"


class ListedFiles:
    """The files in the folder of a run that its run.json lists."""

    def __init__(self, folder: StoragePath) -> None:
        """Nothing is read; the folder need not exist."""
        self.folder = folder
        self.record: RunRecord | None = None  # the content of run.json, as this process has read or written it last

    @property
    def name(self) -> str:
        """The name of the run, which is the name of its folder."""
        return self.folder.name

    def read(self) -> RunRecord:
        """The content of run.json. Raises `RunError` if it cannot be read."""
        raise NotImplementedError

    @property
    def known(self) -> RunRecord:
        """The content of run.json, which is read only once. Raises `RunError` if it cannot be read."""
        return self.record or self.read()

    def content(self, name: str) -> bytes:
        """The content of a file that run.json lists. Raises `RunError` if it is missing or was altered."""
        path = self.folder / name
        try:
            content = files.read_bytes(path, _BYTES.get(name, _EVALUATION_BYTES))
        except OSError as error:
            fix = files.how_to_read(error, _AGAIN)
            raise RunError(f"cannot read {path}", got=error.strerror, fix=fix) from error
        if (digest := hashlib.sha256(content).hexdigest()) != self.known.files[name]:
            raise _altered(path, digest, self.known.files[name])
        return content

    def problems(self) -> list[str]:
        """A line of text about each file that run.json lists and that is missing or was altered.

        The weights may be missing, because they are large and often removed.
        """
        lines = []
        for name, listed in self.known.files.items():
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
        return WEIGHTS in self.known.files and (self.folder / WEIGHTS).is_file()

    def require_weights(self) -> None:
        """Raises `RunError` if the best weights of a finished run are not here."""
        if not self.has_weights():
            raise RunError("the run has no weights", got=self.name, fix="train it again with `overwrite`")

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

        if HISTORY not in self.known.files:
            return pa.table({})
        content = self.content(HISTORY)
        try:
            with pq.ParquetFile(pa.BufferReader(content)) as file:
                if file.metadata.num_rows * file.metadata.num_columns > _VALUES:
                    raise pa.ArrowInvalid(f"it has more than {_VALUES:,} values")
                return file.read()
        except pa.ArrowException as error:
            first = str(error).splitlines()[0]
            raise RunError(f"cannot read {self.folder / HISTORY}", got=first, fix=_AGAIN) from error

    def evaluation(self, name: str) -> dict[str, Any] | None:
        """The evaluation in the file `name`, or None if run.json does not list it.

        Raises `RunError` if the file is missing, was altered, or is no evaluation.
        """
        if name not in self.known.files:
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
        for name in sorted(name for name in self.known.files if name.startswith("eval/")):
            try:
                evaluation = self.evaluation(name)
                good += [] if evaluation is None else [evaluation]
            except RunError as error:
                bad.append(error.summary)
        return good, bad


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

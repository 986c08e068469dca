"""The history of a run: one row for each validation, in `history.parquet` and in the state for resuming.

The rows of both are checked by the same schema. `training/loggers/__init__.py` describes the columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ape_cli.core import budget
from ape_cli.core.errors import RunError
from ape_cli.core.validation import first_error
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath

if TYPE_CHECKING:  # imported lazily: training needs no polars
    import polars as pl
    import pyarrow.parquet as pq

LARGEST_LOSS = 3.5e38  # nats for each token; no float32 is larger
LONGEST = 1e10  # seconds, which are 300 years

_Loss = Annotated[float, Field(ge=0, le=LARGEST_LOSS)]
_Share = Annotated[float, Field(ge=0, le=1)]


class Row(BaseModel):
    """A validation. The columns are in the order in which the training loop logs them.

    The last three are missing or null where the test split was not scored, as in runs on sequences.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    step: int = Field(ge=1, lt=2**53)
    epoch: int = Field(ge=0, lt=2**53)
    loss: _Loss
    token_accuracy: _Share
    lr: float = Field(ge=0)
    validation_loss: _Loss
    validation_token_accuracy: _Share
    seconds: float = Field(ge=0, le=LONGEST)
    tokens: int = Field(ge=0, lt=2**53)
    test_loss: _Loss | None = None
    test_token_accuracy: _Share | None = None
    kept: bool | None = None


def checked(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a history, with columns in the order of `Row`.

    Raises `ValueError` at a row that lacks a column or has another one, or has an impossible value.
    """
    for number, row in enumerate(rows, 1):
        if unknown := sorted(set(row) - set(Row.model_fields)):
            raise ValueError(f"row {number} of the history: unknown column {unknown[0]}")
        try:
            yield Row.model_validate(row).model_dump(exclude_unset=True)
        except ValidationError as error:
            raise ValueError(f"row {number} of the history: {first_error(error)}") from error


def check_steps(steps: Iterable[Any], last: int) -> None:
    """Check that the steps of a history are whole numbers that rise from 1 to at most `last`.

    Raises `ValueError` otherwise.
    """
    before = 0
    for step in steps:
        if type(step) is not int or not before < step <= last:
            raise ValueError(f"impossible steps of the history: {step} after {before}, of {last}")
        before = step


def check_best(rows: Iterable[dict[str, Any]], best: dict[str, Any]) -> None:
    """Check that `best_step` and `best_accuracy` of a state or a result are the best of the validations.

    Raises `ValueError` otherwise.
    """
    scores = {row["step"]: row["validation_token_accuracy"] for row in rows}
    step, accuracy = best["best_step"], best["best_accuracy"]
    if scores and (scores.get(step) != accuracy or accuracy < max(scores.values())):
        top = max(scores, key=scores.__getitem__)
        raise ValueError(
            f"impossible best_accuracy {accuracy} of step {step}; the history has {scores.get(step)} there, "
            f"and the best is {scores[top]} of step {top}"
        )


def written(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with the columns of the last one. Rows of an earlier version may have fewer; the others are null."""
    return [dict.fromkeys(rows[-1]) | row for row in rows]


def read(path: StoragePath, here: Path, last: int) -> pl.DataFrame:
    """Read the history that is stored at `path`, of which `here` is a local copy. `last`: the last step of the run.

    Raises `RunError` if it is damaged, or if a value is impossible.
    """
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(here.absolute()) as file:
            _check_history(path, file)
            found = pl.from_arrow(file.read())
        assert isinstance(found, pl.DataFrame)
        for _ in checked(found.iter_rows(named=True)):
            pass
        check_steps(found["step"], last)
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError) as error:
        if isinstance(error, RunError):
            raise
        again = "restore the file, or train again"
        fix = files.how_to_read(error, again) if isinstance(error, OSError) else again
        raise RunError(f"cannot read {path}", got=str(error).splitlines()[0], fix=fix) from error
    return found


def _check_history(path: StoragePath, file: pq.ParquetFile) -> None:
    """Check that a history has only numbers, not too many, and no column twice. Raises `RunError` otherwise."""
    from pyarrow import types as pa_types

    about, names, kinds = file.metadata, file.schema_arrow.names, [field.type for field in file.schema_arrow]
    groups = map(about.row_group, range(about.num_row_groups))
    size = sum(group.column(i).total_uncompressed_size for group in groups for i in range(group.num_columns))
    numbers = all(
        pa_types.is_integer(kind) or pa_types.is_floating(kind) or pa_types.is_boolean(kind) for kind in kinds
    )
    if about.num_rows * about.num_columns > budget.HISTORY_VALUES or size > budget.HISTORY_BYTES or not numbers:
        raise RunError(
            f"{path} is no history",
            got=f"{about.num_rows:,} rows of {', '.join(map(str, dict.fromkeys(kinds)))}, {size:,} bytes",
            allowed=f"{budget.HISTORY_VALUES:,} numbers, {budget.HISTORY_BYTES:,} bytes",
            fix="restore the file, or train again",
        )
    if len(set(names)) < len(names) or not about.num_rows:
        raise ValueError("there are no rows" if not about.num_rows else "two columns have the same name")

"""The schema of `run.json` and `eval/*.json`, which is checked when they are read.

Fields that are never read back (versions, commit, device, times) are not checked.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_core import from_json

from ape_cli.core.errors import PlaceError, RunError
from ape_cli.runs.config import AnyConfig
from ape_cli.storage.paths import StoragePath

VERSION = 1
DECODINGS = ("teacher", "greedy")  # how an evaluation generates outputs


class Trained(BaseModel):
    """The dataset that a run was trained on."""

    name: str
    path: str
    fingerprint: str
    task: str
    order: str | None
    structure: str
    parameters: dict[str, Any]
    rows: dict[str, int]
    vocabulary: list[str]


class TrainingResult(BaseModel):
    """The result of training."""

    steps: int
    best_step: int
    best_accuracy: float
    seconds: float
    tokens_per_second: float
    parameters: int


class Record(BaseModel):
    """The content of `run.json`."""

    version: Literal[1]
    status: Literal["running", "stopped", "failed", "finished"]
    config: AnyConfig
    variant: dict[str, Any] = {}
    dataset: Trained
    processes: int = Field(1, ge=1)  # processes that trained together when it was last started or resumed
    result: TrainingResult | None = None

    @model_validator(mode="after")
    def _finished_with_a_result(self) -> Record:
        """Check that a finished run has a result."""
        if self.status == "finished" and self.result is None:
            raise ValueError("the run is finished but has no result")
        return self


class Metrics(BaseModel):
    """Metrics of an evaluation, over all rows or a group of rows."""

    token_accuracy: float = Field(ge=0, le=1)
    exact_match: float = Field(ge=0, le=1)
    cross_entropy: float | None = None
    rows: int = Field(ge=1)
    tokens: int


class SizeMetrics(Metrics):
    """Metrics of the rows of one size."""

    size: int


class OpMetrics(Metrics):
    """Metrics of the rows with one operator."""

    op: str


class Evaluation(BaseModel):
    """The content of `eval/*.json`."""

    dataset: str
    fingerprint: str
    split: str
    decode: str
    overall: Metrics
    by_size: list[SizeMetrics]
    by_op: list[OpMetrics] = []
    by_class: list[Metrics] = []  # for images only


def read(path: StoragePath, kind: type[BaseModel], again: str) -> dict[str, Any]:
    """Read a JSON file and check it against the model `kind`.

    The result is the JSON itself, including unchecked fields. `again` is the fix that an error suggests.

    Raises `RunError` if the file is damaged or cannot be read, `FileNotFoundError` if it does not exist, and
    `PlaceError` if the object store fails.
    """
    try:
        raw = from_json(path.read_bytes(), allow_inf_nan=False)
        kind.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RunError(f"{path} is damaged", got=f"{where}: {first['msg']}", fix=again) from error
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError | PlaceError):
            raise
        raise RunError(f"cannot read {path}", got=str(error), fix=again) from error
    found: dict[str, Any] = raw
    return found


def is_sound(metrics: dict[str, Any]) -> bool:
    """Whether all numbers are finite."""
    return all(math.isfinite(v) for v in metrics.values() if isinstance(v, float))


def variant_text(about: dict[str, Any]) -> str:
    """The settings of a run that differ from its preset and scheme, for example `attention=linear, decay=1`."""
    pairs = sorted(about.get("variant", {}).items())
    return ", ".join(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in pairs)

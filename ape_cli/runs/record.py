"""The schemas of `run.json`, the index of a run, and of `eval/*.json`, its scores: how they are written and read.

A file is checked once, when it is read, and then passed on as an object of a pydantic model.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from typing_extensions import TypedDict  # pydantic does not accept that of typing before Python 3.12

from ape_cli.core.errors import RunError
from ape_cli.core.validation import HEX, Checked, Many, first_error
from ape_cli.runs.config import AnyConfig, Config
from ape_cli.storage import files
from ape_cli.storage.image_rows import Size
from ape_cli.storage.paths import StoragePath

RECORD = "run.json"
DECODINGS = ("teacher", "greedy")  # how an evaluation generates outputs
_BYTES = 8 << 20  # the most bytes of a JSON file
_Rows = Annotated[int, Field(ge=0, lt=2**53)]
_Split = Annotated[str, Field(pattern=r"^(train|validation|test)$")]
_Digest = Annotated[str, Field(pattern=HEX)]
_File = Annotated[
    str, Field(pattern=r"^((state/[\w-]+/)?(model\.safetensors|history\.parquet)|eval/[\w-]+\.json)$")
]  # in the folder of its run
_Model = TypeVar("_Model", bound=BaseModel)


class DatasetRecord(Checked):
    """The dataset that a model was trained on. An exported model has neither its path nor its vocabulary here."""

    name: str
    fingerprint: _Digest
    task: str
    order: str | None
    structure: str
    parameters: dict[str, Any]
    seed: int = Field(ge=0, lt=2**63)
    image: Size | None  # height, width and channels; None for sequences
    mean_size: float = Field(ge=0, le=1e6)
    mean_tokens: float = Field(ge=0, le=1e9)
    tagged: bool  # whether the targets are tags of the source
    causal: bool = False  # whether each tag is predicted from the tokens up to it
    code: str | None = None  # SHA-256 of the code of a task that is not of ape
    largest: dict[str, int]  # the sizes that bounded schemes were made for, by the structure that is read
    rows: dict[_Split, _Rows] = Field(min_length=3)  # of each split
    path: str = ""  # which it had then
    vocabulary: Many[str] = Field(default_factory=list)  # the names of its ids or classes


class TrainingResult(Checked):
    """The result of training."""

    steps: int = Field(ge=1, lt=2**53)
    best_step: int = Field(ge=1, lt=2**53)
    best_accuracy: float = Field(ge=0, le=1)
    seconds: float = Field(ge=0, le=1e12)
    tokens_per_second: float = Field(ge=0, le=1e15)
    parameters: int = Field(ge=1, lt=2**53)


class RunRecord(Checked):
    """The content of `run.json`."""

    version: Literal[2] = 2
    run: str
    status: Literal["running", "stopped", "failed", "finished"]
    config: AnyConfig
    variant: dict[str, Any]  # the settings in which the run differs from its preset and scheme
    dataset: DatasetRecord
    versions: dict[str, str]
    commit: str | None
    device: str
    gpu: str | None = None
    processor: dict[str, str] | None
    threads: int
    processes: int = Field(ge=1)  # processes that trained together when it was last started or resumed
    resumed_on: Many[dict[str, str]] = Field(default_factory=list)  # processors, if training went on on others
    own_files: dict[str, str] = Field(default_factory=dict)  # SHA-256 of the code of parts that are not of ape
    resumed_with: Many[dict[str, str]] = Field(default_factory=list)  # the same, each time training went on with other
    started: str
    finished: str | None = None
    result: TrainingResult | None = None
    files: dict[_File, _Digest] = Field(
        default_factory=dict, max_length=10_000
    )  # SHA-256 of each file, when finished (or in an object store, when ended)

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        """Check what only some records have. Raises `ValueError` if it is missing here."""
        if missing := {"path", "vocabulary"} - self.dataset.model_fields_set:
            raise ValueError(f"dataset.{min(missing)}: missing")
        if self.status == "finished" and self.result is None:
            raise ValueError("the run is finished but has no result")
        return self

    @property
    def last_processor(self) -> dict[str, str] | None:
        """The processor on which the run was last started or resumed. None if it is not known."""
        return [self.processor, *self.resumed_on][-1]

    @property
    def last_own_files(self) -> dict[str, str]:
        """The digests of the own code with which the run was last started or resumed."""
        return [self.own_files, *self.resumed_with][-1]

    @property
    def outcome(self) -> TrainingResult:
        """The result of a finished run."""
        assert self.result is not None
        return self.result


class CheckedDict(TypedDict):
    """`Checked` for dictionaries, because a report checks very many."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)  # type: ignore[misc]


class Metrics(CheckedDict):
    """Metrics of an evaluation, over all rows or a group of rows."""

    token_accuracy: Annotated[float, Field(ge=0, le=1)]
    exact_match: Annotated[float, Field(ge=0, le=1)]
    cross_entropy: NotRequired[Annotated[float, Field(ge=0, le=1e30)] | None]  # nats for each token
    rows: Annotated[int, Field(ge=1, lt=2**53)]
    tokens: Annotated[int, Field(ge=1, lt=2**53)]


class SizeMetrics(Metrics):
    """Metrics of the rows of one size."""

    size: Annotated[int, Field(ge=0, lt=2**16)]
    chance: NotRequired[dict[str, float]]  # of test rows at other sizes: scores of the most frequent training answer


class OpMetrics(Metrics):
    """Metrics of the rows with one operator."""

    op: str


class ClassMetrics(Metrics):
    """Metrics of the images of one class, which `class` names."""

    __pydantic_config__ = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)  # type: ignore[misc]


class DrawnFrom(CheckedDict):
    """What the rows of an evaluated dataset are drawn from, besides the task and the order of the run."""

    parameters: dict[str, Any]
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    code: NotRequired[_Digest]  # of a user's own task, as in the manifest


class Evaluation(CheckedDict):
    """The content of `eval/*.json`."""

    run: str
    dataset: str
    fingerprint: Annotated[str, Field(pattern=HEX)]
    split: Literal["train", "validation", "test"]
    decode: Literal["teacher", "greedy"]
    rows: Annotated[int, Field(ge=1, lt=2**53)]
    own_files: NotRequired[dict[str, str]]  # SHA-256 of the code of parts that are not of ape, also of the task
    test_only: NotRequired[bool]  # True if the dataset has no training rows: it is for tests at other sizes
    # with teacher forcing on the training data: scores without a model, first of always giving the most frequent answer
    baselines: NotRequired[dict[str, dict[str, float]]]
    plan: NotRequired[DrawnFrom]  # if it is not the training data, or its task is a user's own; reports draw rows again
    overall: Metrics
    by_size: Many[SizeMetrics]
    by_op: NotRequired[Many[OpMetrics]]
    by_class: NotRequired[Many[ClassMetrics]]  # for images only


EVALUATION: TypeAdapter[Evaluation] = TypeAdapter(Evaluation)


def evaluation_name(fingerprint: str, split: str, decode: str) -> str:
    """The name of an evaluation's file in the folder of its run.

    A dataset is identified by its fingerprint, whatever its path and name.
    """
    return f"eval/{fingerprint[:12]}-{split}-{decode}.json"


def run_name(config: Config, task: str, order: str | None, fingerprint: str) -> str:
    """The name of a run: task, linearisation, scheme, seed, and a hash of the configuration and the data."""
    parts = [task, order, config.scheme, str(config.seed), config.digest(fingerprint)]
    return "-".join(part for part in parts if part)


def text(record: BaseModel) -> str:
    """A record as it is written: JSON with an indentation of two spaces."""
    return json.dumps(record.model_dump(mode="json"), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read(path: StoragePath, model: type[_Model], again: str) -> _Model:
    """Read and check a JSON file. `again` is the fix that an error suggests.

    Raises `RunError` if it cannot be read or has not the form of the model, and `FileNotFoundError` if it does not
    exist.
    """
    try:
        return model.model_validate_json(files.read_bytes(path, _BYTES))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RunError(f"cannot read {path}", got=error.strerror, fix=files.how_to_read(error, again)) from error
    except ValidationError as error:
        raise RunError(f"{path} is damaged", got=first_error(error), fix=again) from error


class UserCode(NamedTuple):
    """The versions of a user's own code that a run was trained with, at last if it was resumed with others."""

    run: str
    scheme: str
    attention: str
    positions: str
    digests: dict[str, str]  # the SHA-256 of the code of each part that is not of ape, as in run.json


def user_code(record: RunRecord) -> UserCode | None:
    """The own code of a run. None if it has none, or recorded none."""
    config = record.config
    parts = config.scheme, config.attention, config.positions
    return UserCode(record.run, *parts, digests) if (digests := record.last_own_files) else None


def settings_text(settings: dict[str, Any]) -> str:
    """Settings as tables show them, for example `attention=linear, decay=1`."""
    return ", ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in sorted(settings.items())
    )


@lru_cache(maxsize=1)
def commit() -> str | None:
    """The git commit of this program, or None if it is unknown.

    The environment variable APE_COMMIT comes first; it is meant for copies without a git history. Otherwise it is the
    commit that the package was built from, or that of the program's own checkout, with a "+" if a file of the package
    is new or changed.
    """
    if told := os.environ.get("APE_COMMIT"):
        return told
    here = Path(__file__).resolve().parents[1]
    with suppress(OSError):
        return (here / "COMMIT").read_text(encoding="utf-8")  # `tools/wheel_commit.py` writes it into packages

    def git(*words: str | Path) -> str:
        # without locks, so that a killed process leaves none behind
        command = ["git", "--no-optional-locks", "-C", str(here), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != here.parent:
            return None
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", here) else "")
    except (OSError, subprocess.SubprocessError):
        return None

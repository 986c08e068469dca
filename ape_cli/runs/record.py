"""The schema of `run.json`, and how the JSON files of a run are written and read.

A file is checked when it is read: against its digest (`storage/digests.py`), and against its schema. Fields that are
never read back (versions, commit, device, times) have no schema.
"""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ape_cli.core.errors import RunError
from ape_cli.core.validation import HEX, Few, Many, Options, Text, first_error
from ape_cli.core.vocabulary import SPLITS
from ape_cli.runs.config import AnyConfig
from ape_cli.storage import digests, files
from ape_cli.storage.image_rows import Size
from ape_cli.storage.json_files import read_json
from ape_cli.storage.paths import StoragePath

VERSION = 1
_FINITE = ConfigDict(allow_inf_nan=False)


def _tuple(value: Any) -> Any:
    """A list as a tuple, because JSON has none, and strict validation takes no list for one. Other values stay."""
    return tuple(value) if isinstance(value, list) else value


class TrainingData(BaseModel):
    """The dataset that a model was trained on, wherever it lies."""

    model_config = _FINITE

    name: Text
    fingerprint: str = Field(pattern=HEX)
    task: Text
    order: Text | None
    structure: Text
    parameters: Options
    seed: int = Field(ge=0, lt=2**63)
    image: Annotated[Size, BeforeValidator(_tuple)] | None = None  # height, width and channels; None for sequences
    mean_size: float = Field(0.0, ge=0, le=1e6)
    mean_tokens: float = Field(0.0, ge=0, le=1e9)
    tagged: bool | None = None  # True if the targets are tags of the source
    largest: Few[int] | None = None  # the sizes that bounded schemes were made for, by the structure that is read
    rows: Few[int]

    @model_validator(mode="after")
    def _has_rows(self) -> Self:
        """Check that each split has a number of rows. Raises `ValueError` otherwise."""
        if set(self.rows) != set(SPLITS) or not 0 <= min(self.rows.values()) <= max(self.rows.values()) < 2**53:
            raise ValueError("rows are not a number for each split")
        if self.image is not None and not isinstance(self.parameters.get("source"), str):
            raise ValueError("images without a source")
        return self


class Trained(TrainingData):
    """The dataset that a run was trained on, the path that it had then, and the names of its ids or classes."""

    path: Text
    vocabulary: Many[str]


class TrainingResult(BaseModel):
    """The result of training."""

    model_config = _FINITE

    steps: int = Field(ge=1, lt=2**53)
    best_step: int = Field(ge=1)
    best_accuracy: float = Field(ge=0, le=1)
    seconds: float = Field(ge=0, le=1e12)
    tokens_per_second: float = Field(ge=0, le=1e15)
    parameters: int = Field(ge=1, lt=2**53)

    @model_validator(mode="after")
    def _best_is_one_of_the_steps(self) -> TrainingResult:
        """Check that the best step is one of the steps. Raises `ValueError` otherwise."""
        if self.best_step > self.steps:
            raise ValueError(f"best_step {self.best_step} is after the last step, {self.steps}")
        return self


class Record(BaseModel):
    """The content of `run.json`."""

    version: Literal[1]
    run: Text
    status: Literal["running", "stopped", "failed", "finished"]
    config: AnyConfig
    variant: Options = Field(default_factory=dict)
    dataset: Trained
    processes: int = Field(1, ge=1)  # processes that trained together when it was last started or resumed
    started: Text | None = None
    finished: Text | None = None
    result: TrainingResult | None = None
    own_files: Few[str] = Field(default_factory=dict)  # SHA-256 of the code of a scheme or attention not of ape
    processor: Few[str] | None = None
    resumed_on: Many[Few[str]] = Field(default_factory=list)  # processors, if training went on on others
    files: Few[str] = Field(default_factory=dict)  # SHA-256 of the other files that a finished run must not change

    @model_validator(mode="after")
    def _finished_with_a_result(self) -> Record:
        """Check that a finished run has a result. Raises `ValueError` otherwise."""
        if self.status == "finished" and self.result is None:
            raise ValueError("the run is finished but has no result")
        return self


def check_name(about: dict[str, Any]) -> None:
    """Check that a run has the name of its task, linearisation, scheme and seed. The hash in the name is not checked.

    Raises `ValueError` otherwise.
    """
    data, config = about["dataset"], about["config"]
    begin = "-".join(part for part in (data["task"], data["order"], config["scheme"], str(config["seed"])) if part)
    if about["run"].rpartition("-")[0] != begin:
        raise ValueError(f"the name {about['run']} does not begin with {begin}, as its configuration")


def check_variant(about: dict[str, Any]) -> None:
    """Check that the settings that the tables name are those of the configuration. Raises `ValueError` otherwise."""
    config = about["config"]
    fields = config | config.get("scheme_options", {}) | config.get("attention_options", {})
    for name, value in about.get("variant", {}).items():
        if name not in fields or fields[name] != value:
            raise ValueError(f"the variant has {name} {value}, and the configuration has {fields.get(name)}")


def check_steps(about: dict[str, Any]) -> None:
    """Check that a finished run has the steps of its configuration, which may also count in epochs.

    Raises `ValueError` otherwise.
    """
    wanted, result = about["config"].get("steps"), about.get("result")
    if wanted is not None and result and result["steps"] != wanted:
        raise ValueError(f"the result has {result['steps']} steps, and the configuration has {wanted}")


def write(path: StoragePath, value: dict[str, Any], *, seal: bool = True) -> None:
    """Write a JSON object, with its digest unless `seal` is False, atomically.

    Raises `ApeError` if `path` cannot be written, and `ValueError` if `value` contains NaN or an infinity.
    """
    files.write_text(path, text(value, seal=seal))


def text(value: dict[str, Any], *, seal: bool = True) -> str:
    """A JSON object as it is written, with its digest unless `seal` is False.

    Raises `ValueError` if `value` contains NaN or an infinity.
    """
    content = {key: field for key, field in value.items() if key != digests.FIELD}
    written = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    return digests.sealed(written) if seal else written + "\n"


def read(
    path: StoragePath, kind: type[BaseModel], again: str, complete: tuple[str, ...] = ()
) -> tuple[dict[str, Any], bool]:
    """Read a JSON file, and check its digest and that it has the form of the model `kind`.

    Returns the JSON object without its digest, including unchecked fields, and whether it has a digest. In the objects
    that `complete` names, fields that are missing get their defaults. `again` is the fix that an error suggests.

    Raises `RunError` if the file was altered, is damaged or cannot be read, `FileNotFoundError` if it does not exist,
    and `PlaceError` if the object store fails.
    """
    try:
        raw, found = read_json(path)
        checked = kind.model_validate(found, strict=True)  # "0.5" is no number, and neither is `true`
        sealed = digests.is_sealed(raw, found)
    except digests.AlteredError as error:
        raise RunError(f"{path} was altered", got=str(error), fix=again) from error
    except ValidationError as error:
        raise RunError(f"{path} is damaged", got=first_error(error), fix=again) from error
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RunError(f"cannot read {path}", got=error.strerror, fix=files.how_to_read(error, again)) from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"cannot read {path}", got=str(error), fix=again) from error
    found.pop(digests.FIELD, None)
    for name in complete:
        part: BaseModel = getattr(checked, name)
        fields, given = type(part).model_fields, part.model_fields_set
        if len(given) < len(fields):
            found[name] |= {key: getattr(part, key) for key in fields if key not in given}
    return found, sealed


def is_sound(metrics: dict[str, Any]) -> bool:
    """Whether all numbers are finite."""
    return all(math.isfinite(v) for v in metrics.values() if isinstance(v, float))


class OwnCode(NamedTuple):
    """The versions of a user's own code that a run was trained with."""

    run: str
    scheme: str
    attention: str
    digests: dict[str, str]  # the SHA-256 of the code of each part that is not of ape, as in run.json


def own_code(about: dict[str, Any]) -> OwnCode | None:
    """The own code of a run, from the content of its run.json. None if it has none, or recorded none."""
    config, digests = about["config"], about.get("own_files")
    return OwnCode(about["run"], config["scheme"], config.get("attention", "dot"), digests) if digests else None


def settings_of(about: dict[str, Any]) -> dict[str, Any]:
    """The settings in which a run differs from its preset and scheme, from the content of its run.json.

    Earlier versions made bounded schemes for the mean size of the data, and not for the largest one. The size is one of
    the settings of such a run.
    """
    data, size = about["dataset"], about["config"].get("max_size")
    of_the_mean = size is not None and not data.get("image") and not data.get("largest")
    return ({"max_size": size} if of_the_mean else {}) | about.get("variant", {})


def settings_text(settings: dict[str, Any]) -> str:
    """Settings as tables show them, for example `attention=linear, decay=1`."""
    return ", ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in sorted(settings.items())
    )

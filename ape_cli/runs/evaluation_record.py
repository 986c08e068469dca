"""The schema of `eval/*.json`, the scores of a run on a split of a dataset."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict  # pydantic does not accept that of typing before Python 3.12

from ape_cli.core.validation import HEX, Many

DECODINGS = ("teacher", "greedy")  # how an evaluation generates outputs
_CHECKED = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Metrics(TypedDict):
    """Metrics of an evaluation, over all rows or a group of rows. A dictionary, because a report checks very many."""

    __pydantic_config__ = _CHECKED  # type: ignore[misc]

    token_accuracy: Annotated[float, Field(ge=0, le=1)]
    exact_match: Annotated[float, Field(ge=0, le=1)]
    cross_entropy: NotRequired[Annotated[float, Field(ge=0, le=1e30)] | None]  # nats for each token
    rows: Annotated[int, Field(ge=1, lt=2**53)]
    tokens: Annotated[int, Field(ge=1, lt=2**53)]


class SizeMetrics(Metrics):
    """Metrics of the rows of one size."""

    size: Annotated[int, Field(ge=0, lt=2**16)]


class OpMetrics(Metrics):
    """Metrics of the rows with one operator."""

    op: str


class ClassMetrics(Metrics):
    """Metrics of the images of one class, which `class` names."""

    __pydantic_config__ = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)  # type: ignore[misc]


class Evaluation(TypedDict):
    """The content of `eval/*.json`."""

    __pydantic_config__ = _CHECKED  # type: ignore[misc]

    run: str
    dataset: str
    fingerprint: Annotated[str, Field(pattern=HEX)]
    split: Literal["train", "validation", "test"]
    decode: Literal["teacher", "greedy"]
    rows: Annotated[int, Field(ge=1, lt=2**53)]
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

"""The schema of `eval/*.json`, the scores of a run on a split of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import TypedDict  # pydantic does not accept that of typing before Python 3.12

from ape_cli import tasks
from ape_cli.core.errors import ApeError
from ape_cli.core.validation import HEX, Many, Text

DECODINGS = ("teacher", "greedy")  # how an evaluation generates outputs
_ROUNDING = 1e-9  # relative; larger differences are contradictions


class Metrics(TypedDict):
    """Metrics of an evaluation, over all rows or a group of rows. A dictionary, because a report checks very many."""

    __pydantic_config__ = ConfigDict(allow_inf_nan=False)  # type: ignore[misc]

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

    op: Text


class Evaluation(BaseModel):
    """The content of `eval/*.json`."""

    run: Text
    dataset: Text
    fingerprint: str = Field(pattern=HEX)
    split: Literal["train", "validation", "test"]
    decode: Literal["teacher", "greedy"]
    weights: str | None = Field(None, pattern=HEX)  # SHA-256 of the file of weights; None in older evaluations
    rows: int
    overall: Metrics
    by_size: Many[SizeMetrics]
    by_op: Many[OpMetrics] = Field(default_factory=list)
    by_class: Many[Metrics] = Field(default_factory=list)  # for images only

    @model_validator(mode="after")
    def _parts_are_the_whole(self) -> Evaluation:
        """Check that the groups of rows add up to all rows. Raises `ValueError` otherwise."""
        if self.rows != self.overall["rows"]:
            raise ValueError(f"rows {self.rows} and overall.rows {self.overall['rows']} contradict each other")
        whole = _sums([self.overall])
        _check_sum(whole, "by_size", _sums(self.by_size))
        if self.by_op:
            _check_sum(whole, "by_op", _sums(self.by_op))
        if self.by_class:
            _check_sum(whole, "by_class", _sums(self.by_class))
        sizes, ops = [part["size"] for part in self.by_size], [part["op"] for part in self.by_op]
        if len(set(sizes)) < len(sizes) or len(set(ops)) < len(ops):
            raise ValueError("two groups of rows have the same size or operator")
        return self


_SUMMED = ("rows", "tokens", "token_accuracy", "exact_match", "cross_entropy")


def _sums(parts: Sequence[Metrics]) -> tuple[float, ...]:
    """The sums over rows that metrics are made of: rows, tokens, right tokens, right rows and nats.

    Raises `ValueError` if exact match does not fit token accuracy: each right row has a right token, and if all rows
    are right, all tokens are.
    """
    rows = tokens = right_tokens = right_rows = nats = 0.0
    for part in parts:
        of_rows, of_tokens = part["rows"], part["tokens"]
        tokens_right, rows_right = part["token_accuracy"] * of_tokens, part["exact_match"] * of_rows
        if rows_right > tokens_right + 0.5 or (rows_right > of_rows - 0.5 and tokens_right < of_tokens - 0.5):
            raise ValueError("exact_match and token_accuracy contradict each other")
        rows += of_rows
        tokens += of_tokens
        right_tokens += tokens_right
        right_rows += rows_right
        nats += (part.get("cross_entropy") or 0.0) * of_tokens
    return rows, tokens, right_tokens, right_rows, nats


def _check_sum(whole: tuple[float, ...], name: str, parts: tuple[float, ...]) -> None:
    """Check that the sums of the parts `name` are those of the whole. Raises `ValueError` otherwise."""
    for metric, there, total in zip(_SUMMED, whole, parts, strict=True):
        if abs(there - total) > _ROUNDING * max(1.0, there):
            raise ValueError(f"the {metric} of {name} and of overall contradict each other")


@lru_cache
def _operators(task: str) -> tuple[str, ...] | None:
    """The operators of a task, by which rows may be grouped. None if the task is a plug-in that is not installed."""
    try:
        return tuple(tasks.load(task).ops)
    except ApeError:
        return None


def evaluation_name(fingerprint: str, split: str, decode: str) -> str:
    """The name of an evaluation's file, without its suffix.

    A dataset is identified by its fingerprint, whatever its path and name.
    """
    return f"{fingerprint[:12]}-{split}-{decode}"


def contradiction(
    evaluation: dict[str, Any], name: str, run: str, about: dict[str, Any], weights: str | None
) -> tuple[str, Any, Any] | None:
    """A contradiction between an evaluation and its run: what it is about, what the evaluation says, and the right one.

    `name` is that of the evaluation's file, and `run` that of the run. `about` is the content of run.json, and
    `weights` the SHA-256 of the run's weights, or None if it is unknown. Returns None if there is no contradiction.
    """
    own, fingerprint, split = about["dataset"], evaluation["fingerprint"], evaluation["split"]
    ops = _operators(own["task"])
    named = [part["op"] for part in evaluation.get("by_op", [])]
    if ops is not None and (not set(named) <= set(ops) or bool(named) != bool(ops)):
        return "operators", ", ".join(named) or "none", ", ".join(ops) or "none"
    said = (
        ("run", evaluation["run"], run),
        ("the name of the file", name, evaluation_name(fingerprint, split, evaluation["decode"])),
        ("rows", evaluation["rows"], own["rows"][split] if fingerprint == own["fingerprint"] else evaluation["rows"]),
        ("weights", evaluation.get("weights"), weights if "weights" in evaluation else None),
    )
    for found in said:
        if found[1] != found[2] and found[2] is not None:
            return found
    return None

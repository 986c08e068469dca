"""The evaluations in a registry, with one line for each run, evaluation and metric, and the selection for a report.

Scores are fractions, or nats for cross-entropy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from ape_cli.core.errors import ApeError, pick
from ape_cli.core.vocabulary import SPLITS
from ape_cli.reports.builtin import is_image
from ape_cli.reports.run_descriptions import described
from ape_cli.runs.record import DECODINGS
from ape_cli.runs.registry import Registry

LINES: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(("task", "order", "scheme", "variant", "configuration", "attention", "preset"), pl.String),
    **dict.fromkeys(("decode", "split", "metric"), pl.String),
    **dict.fromkeys(("mean", "std"), pl.Float64),
    "seeds": pl.Int64,
    "best": pl.Boolean,
    **dict.fromkeys(("structure", "form", "trained_on", "trained_fingerprint", "dataset", "fingerprint"), pl.String),
    "paper_size": pl.Boolean,
    **dict.fromkeys(("low", "high"), pl.Float64),
}

# what is behind a score: each seed with its score, and the numbers of evaluated rows and target tokens, which all seeds
# share. The HTML page shows them; they are not part of machine-readable output.
BEHIND = ["by_seed", "rows", "tokens"]

# these identify a column of a table; together with CELL they identify a cell
COLUMN = ["task", "order", "preset", "decode", "split", "metric", "structure", "form"]
COLUMN += ["trained_fingerprint", "fingerprint"]
CELL = ["configuration", "scheme", "variant", "attention"]


def arrange(found: pl.DataFrame, place: Iterable[str], last: Iterable[str] = ()) -> pl.DataFrame:
    """The columns for machine-readable output, in the order of `LINES`.

    place: the columns that a view groups by, which are put before the mean. last: columns that are put at the end.
    """
    names = [name for name in LINES if name in found.columns]
    mean = names.index("mean")
    return found.select(*names[:mean], *place, *names[mean:], *last)


METRICS = {  # names for sequences, for images (one label in each row), and for both together
    "token_accuracy": ("token accuracy", "top-1 accuracy", "accuracy"),
    "exact_match": ("exact match", "top-1 accuracy", "exact match"),
    "cross_entropy": ("cross-entropy", "cross-entropy", "cross-entropy"),
}
_NATS = ("nats a token", "nats an image", "nats a token or image")
SMALLER_IS_BETTER = {"cross_entropy"}


def measured(metric: str, found: Iterable[str | None]) -> tuple[str, str]:
    """The name and the unit of a metric for scores of these tasks.

    >>> measured("token_accuracy", ["copy", "c3"]), measured("cross_entropy", ["images"])
    (('token accuracy', '%'), ('cross-entropy', 'nats an image'))
    """
    kinds = {is_image(task) for task in found if task is not None}
    which = 2 if len(kinds) == 2 else int(True in kinds)
    return METRICS[metric][which], _NATS[which] if metric in SMALLER_IS_BETTER else "%"


def scores(registry: Registry) -> tuple[pl.DataFrame, list[str]]:
    """The scores, one line for each run, evaluation and metric, and a line of text about each unreadable run."""
    lines, bad = [], list[str]()
    for run, _, of_run in described(registry, bad):
        evaluations, damaged = run.evaluations()
        bad += [f"{run.name}: {line}" for line in damaged]
        for evaluation in evaluations:
            of_evaluation = {name: evaluation[name] for name in ("decode", "split", "dataset", "fingerprint")}
            overall = evaluation["overall"]
            of_evaluation |= {count: overall[count] for count in ("rows", "tokens")}
            lines.append(of_run | of_evaluation | {metric: overall.get(metric) for metric in METRICS})
    schema = {k: v for k, v in LINES.items() if k not in ("metric", "mean", "std", "seeds", "best", "low", "high")}
    schema |= dict.fromkeys(("seed", "rows", "tokens"), pl.Int64)
    found = pl.DataFrame(lines, schema=schema | dict.fromkeys(METRICS, pl.Float64), orient="row")
    long = found.with_row_index("place").unpivot(
        list(METRICS), index=["place", *schema], variable_name="metric", value_name="value"
    )
    return long.drop_nulls("value").sort("place", maintain_order=True).drop("place"), bad


def check(*, metric: str, decode: str, split: str) -> None:
    """Check the names of a metric, a decoding and a split. Raises `UsageError` if one of them is unknown."""
    pick("metric", metric, METRICS)
    pick("split", split, SPLITS)
    pick("decoding", decode, DECODINGS)


def nothing_to_report(what: str, bad: list[str], *, got: str, fix: str, allowed: str | None = None) -> ApeError:
    """The error that nothing is left to report.

    `bad` are lines of text about what was left out. They become notes of the exception (`__notes__`).
    """
    if bad:
        fix = f"restore or remove what was left out (`ape verify` checks every file); or {fix}"
    error = ApeError(what, got=got, allowed=allowed, fix=fix)
    for line in bad:
        error.add_note(line)
    return error


def choice(registry: Registry, *, metric: str, decode: str, split: str) -> str:
    """The selection in words, for errors that say that there is no such score."""
    chosen = str(registry.chosen)
    return f"metric {metric}, decode {decode}, split {split}" + (f", {chosen}" if chosen else "")


def wanted(
    registry: Registry, *, metric: str, decode: str, split: str, own: bool = False
) -> tuple[pl.DataFrame, list[str]]:
    """The scores for a metric, a decoding and a split, and a line of text about each unreadable run.

    With `own`, only evaluations on the data that a run was trained on are selected. Raises `ApeError` if there is no
    such score, with a command that computes some, and `UsageError` for an unknown name.
    """
    check(metric=metric, decode=decode, split=split)
    values, bad = scores(registry)
    if values.is_empty():
        raise nothing_to_report(
            "there is nothing to report: no evaluated run",
            bad,
            got=f"{registry.folder}" + ("" if registry.folder.exists() else ", which does not exist"),
            fix="train one first: `ape train --scheme rope --task copy`; --results names another folder",
        )
    chosen = values.filter(
        pl.col("metric") == metric,
        pl.col("decode") == decode,
        pl.col("split") == split,
        pl.col("fingerprint") == pl.col("trained_fingerprint") if own else pl.lit(True),
    )
    if chosen.is_empty():
        there = values.select("metric", "decode", "split", "preset").unique().sort(pl.all()).rows()
        raise nothing_to_report(
            "no evaluation matches the selection",
            bad,
            got=choice(registry, metric=metric, decode=decode, split=split),
            allowed="; ".join(", ".join(row) for row in there),
            fix="evaluate the runs with `ape eval --split … --decode …`, or select one of the above",
        )
    return chosen, bad


def task_of(line: dict[str, Any]) -> str:
    """The task of a line as a column of a table names it: `c3/breadth`, or `images/digits` with the source."""
    if is_image(line["task"]):
        return f"{line['task']}/{line['form']}"
    name = f"{line['task']}/{line['order']}" if line["order"] else str(line["task"])
    return f"{name} ({line['form']})" if line["form"] else name

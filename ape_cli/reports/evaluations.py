"""The options of a report, and the evaluations that it selects, with one line for each run, evaluation and metric.

Scores are fractions, or nats for cross-entropy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from ape_cli.core.errors import ApeError, pick
from ape_cli.core.vocabulary import SPLITS
from ape_cli.reports.builtin import is_image
from ape_cli.reports.run_descriptions import described
from ape_cli.runs.evaluation_record import DECODINGS
from ape_cli.runs.record import RunRecord
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


def arrange(lines: pl.DataFrame, place: Iterable[str], last: Iterable[str] = ()) -> pl.DataFrame:
    """The columns for machine-readable output, in the order of `LINES`.

    place: the columns that a view groups by, which are put before the mean. last: columns that are put at the end.
    """
    names = [name for name in LINES if name in lines.columns]
    mean = names.index("mean")
    return lines.select(*names[:mean], *place, *names[mean:], *last)


METRICS = {  # names for sequences, for images (one label in each row), and for both together
    "token_accuracy": ("token accuracy", "top-1 accuracy", "accuracy"),
    "exact_match": ("exact match", "top-1 accuracy", "exact match"),
    "cross_entropy": ("cross-entropy", "cross-entropy", "cross-entropy"),
}
_NATS = ("nats a token", "nats an image", "nats a token or image")
SMALLER_IS_BETTER = {"cross_entropy"}


def measured(metric: str, tasks: Iterable[str | None]) -> tuple[str, str]:
    """The name and the unit of a metric for scores of these tasks.

    >>> measured("token_accuracy", ["copy", "c3"]), measured("cross_entropy", ["images"])
    (('token accuracy', '%'), ('cross-entropy', 'nats an image'))
    """
    kinds = {is_image(task) for task in tasks if task is not None}
    which = 2 if len(kinds) == 2 else int(True in kinds)
    return METRICS[metric][which], _NATS[which] if metric in SMALLER_IS_BETTER else "%"


@dataclass(frozen=True)
class Options:
    """The options of `ape report`, except for the selection of runs and the output file."""

    metric: str = "token_accuracy"
    decode: str = "teacher"
    split: str = "test"
    against: str | None = None  # `paper` adds the numbers of the paper
    compare: tuple[str, str] | None = None  # the names of two rows of the tables
    interval: bool = False  # show the 95% interval over seeds after a mean, not the standard deviation
    own: bool = False  # only scores on the data that a run was trained on
    sweep: str = ""  # the name of the file whose sweep is reported, if only that one is
    style: str = "rich"  # one of `rendering.FORMATS`
    plots: str | None = None  # the folder for plots, if the user wants them
    axis: str | None = None  # one of `plots.KINDS`, if the user chooses it
    asked: str = ""  # the option that selects the view, for example "`by=size`"; empty without one
    needed: bool = True  # whether `read` raises `ApeError` if there is nothing to show

    def check(self) -> None:
        """Check the names of the metric, the split, the decoding and the comparison. Raises `UsageError`."""
        pick("metric", self.metric, METRICS)
        pick("split", self.split, SPLITS)
        pick("decoding", self.decode, DECODINGS)
        if self.against is not None:
            pick("comparison", self.against, ["paper"])

    def choice(self, registry: Registry) -> str:
        """The selection in words, for errors that say that there is no such score."""
        chosen = str(registry.chosen)
        return f"metric {self.metric}, decode {self.decode}, split {self.split}" + (f", {chosen}" if chosen else "")


def evaluated(registry: Registry, bad: list[str]) -> Iterator[tuple[RunRecord, dict[str, Any], list[dict[str, Any]]]]:
    """The run.json of each readable run, its description for tables, and its evaluations.

    A line of text about each run or evaluation that cannot be read is appended to `bad`.
    """
    for run, record, of_run in described(registry, bad):
        evaluations, damaged = run.evaluations()
        bad += [f"{run.name}: {line}" for line in damaged]
        yield record, of_run, evaluations


def scores(registry: Registry) -> tuple[pl.DataFrame, list[str]]:
    """The scores, one line for each run, evaluation and metric, and a line of text about each unreadable run."""
    lines, bad = [], list[str]()
    for _, of_run, evaluations in evaluated(registry, bad):
        for evaluation in evaluations:
            overall = evaluation["overall"]
            of_evaluation = {name: evaluation[name] for name in ("decode", "split", "dataset", "fingerprint")}
            lines.append(of_run | of_evaluation | {name: overall.get(name) for name in ("rows", "tokens", *METRICS)})
    schema = {k: v for k, v in LINES.items() if k not in ("metric", "mean", "std", "seeds", "best", "low", "high")}
    schema |= dict.fromkeys(("seed", "rows", "tokens"), pl.Int64)
    wide = pl.DataFrame(lines, schema=schema | dict.fromkeys(METRICS, pl.Float64), orient="row")
    long = wide.with_row_index("place").unpivot(
        list(METRICS), index=["place", *schema], variable_name="metric", value_name="value"
    )
    return long.drop_nulls("value").sort("place", maintain_order=True).drop("place"), bad


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


def selected(registry: Registry, options: Options) -> tuple[pl.DataFrame, list[str]]:
    """The scores for a metric, a decoding and a split, and a line of text about each unreadable run.

    Raises `ApeError` if there is no such score, with a command that computes some, and `UsageError` for an unknown
    name.
    """
    options.check()
    values, bad = scores(registry)
    if values.is_empty():
        got = f"{registry.folder}" + ("" if registry.folder.exists() else ", which does not exist")
        fix = "train one first: `ape train --scheme rope --task copy`; `results` names another folder"
        raise nothing_to_report("there is nothing to report: no evaluated run", bad, got=got, fix=fix)
    chosen = values.filter(
        pl.col("metric") == options.metric,
        pl.col("decode") == options.decode,
        pl.col("split") == options.split,
        pl.col("fingerprint") == pl.col("trained_fingerprint") if options.own else pl.lit(True),
    )
    if chosen.is_empty():
        possible = values.select("metric", "decode", "split", "preset").unique().sort(pl.all()).rows()
        got, allowed = options.choice(registry), "; ".join(", ".join(row) for row in possible)
        fix = "evaluate the runs with `ape eval --split … --decode …`, or select one of the above"
        raise nothing_to_report("no evaluation matches the selection", bad, got=got, allowed=allowed, fix=fix)
    return chosen, bad


def task_of(line: dict[str, Any]) -> str:
    """The task of a line as a column of a table names it: `c3/breadth`, or `images/digits` with the source."""
    if is_image(line["task"]):
        return f"{line['task']}/{line['form']}"
    name = f"{line['task']}/{line['order']}" if line["order"] else str(line["task"])
    return f"{name} ({line['form']})" if line["form"] else name

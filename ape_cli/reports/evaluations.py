"""The options of a report, its runs as tables describe them, and the evaluations that it selects.

Scores are fractions, or nats for cross-entropy.

Runs that differ in anything but the seed never share a row of a table. That includes the code of a user's own scheme,
kind of attention or map of positions: runs that were trained with another version of it have a row of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import polars as pl

from ape_cli import tasks
from ape_cli.core.errors import ApeError, pick
from ape_cli.core.plugins import DIGITS
from ape_cli.core.vocabulary import SPLITS
from ape_cli.reports import paper
from ape_cli.reports.builtin import is_image
from ape_cli.runs.config import PRESETS
from ape_cli.runs.record import DECODINGS, RunRecord, Trained, settings_text
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.structure import linearisation

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
# the columns of the scores of single runs
VALUES = {k: v for k, v in LINES.items() if k not in ("mean", "std", "seeds", "best", "low", "high")}
VALUES |= dict.fromkeys(("seed", "rows", "tokens"), pl.Int64) | {"value": pl.Float64}

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

    def __post_init__(self) -> None:
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


CODE = "code "  # begins the part of a variant that names the version of own code; settings contain "="

_PARTS = attrgetter("scheme", "attention", "positions")  # of a configuration


def described(registry: Registry, bad: list[str]) -> Iterator[tuple[Run, RunRecord, dict[str, Any]]]:
    """Each readable run, its run.json, and its description for tables.

    A line of text about each unreadable run is appended to `bad`.

    If the runs of a user's own scheme were trained with different versions of its code, their `variant` and their
    `configuration` end with the first digits of its SHA-256. The same holds for a kind of attention and a map of
    positions. Runs with own code come last.
    """
    versions: dict[tuple[str, ...], set[str]] = {}  # of each combination of plug-ins: those of its own files
    of_own_code: list[tuple[Run, RunRecord, dict[str, Any], str]] = []
    for run, record in registry.readable(bad):
        try:
            of_run = _description(record)
        except ApeError as error:  # the task of the run does not have its order
            bad.append(f"{run.name}: {error.summary}")
            continue
        version = "+".join(digest[:DIGITS] for _, digest in sorted(record.own_files.items()))
        versions.setdefault(_PARTS(record.config), set()).add(version)
        if version:  # how many versions there are is known at the end
            of_own_code.append((run, record, of_run, version))
        else:
            yield run, record, of_run
    for run, record, of_run, version in of_own_code:
        if len(versions[_PARTS(record.config)]) > 1:
            of_run["variant"] = ", ".join(filter(None, [of_run["variant"], f"{CODE}{version}"]))
            of_run["configuration"] += f"-{version}"
        yield run, record, of_run


def _description(record: RunRecord) -> dict[str, Any]:
    """The description of a run, without a look at its own code. Raises `ApeError` if its task lacks its order."""
    config, trained = record.config, record.dataset
    return {
        "task": trained.task,
        "order": trained.order,
        "scheme": config.scheme,
        "variant": settings_text(record.variant),
        "configuration": config.digest(trained.fingerprint, without=("seed",)),
        "attention": config.attention,
        "preset": config.preset,
        "seed": config.seed,
        "structure": trained.structure,
        "form": _form(trained),
        "trained_on": trained.name,
        "trained_fingerprint": trained.fingerprint,
        "paper_size": is_paper_size(config.preset, trained),
    }


def _form(trained: Trained) -> str:
    """The form of a task's dataset, as the task names it: `branching 3, binarised`. Empty if the task is not known."""
    try:
        return tasks.load(trained.task).form(trained.parameters)
    except (ApeError, LookupError):
        return ""


def is_paper_size(preset: str, trained: Trained) -> bool:
    """Whether a run has the model of the paper, and its rows and its sizes of words or trees, or all of its images."""
    rows = trained.rows
    if preset == "paper" and trained.image:
        # validation rows are held out of the images for training; equal images decide how many
        everything = (rows["train"] + rows["validation"], rows["test"]) == paper.IMAGES_ROWS
        return _form(trained) == paper.SOURCE and everything
    if preset != "paper" or trained.task not in tasks.names() or tasks.load(trained.task).fixed_rows:
        return False
    options = tasks.load(trained.task).preset_options.get(preset, {})
    of_paper = tasks.make(trained.task, *linearisation.parse(trained.order), **options).parameters
    return bool(trained.parameters == of_paper and rows == PRESETS["paper"].rows)


def evaluated(registry: Registry, bad: list[str]) -> Iterator[tuple[RunRecord, dict[str, Any], dict[str, Any]]]:
    """The run.json of each readable run, its description with that of an evaluation, and the evaluation.

    A line of text about each run or evaluation that cannot be read is appended to `bad`.
    """
    for run, record, of_run in described(registry, bad):
        evaluations, damaged = run.evaluations()
        bad += [f"{run.name}: {line}" for line in damaged]
        for evaluation in evaluations:
            names = ("decode", "split", "dataset", "fingerprint")
            yield record, of_run | {name: evaluation[name] for name in names}, evaluation


def scores(registry: Registry) -> tuple[pl.DataFrame, list[str]]:
    """The scores, one line for each run, evaluation and metric, and a line of text about each unreadable run.

    Evaluations on datasets that are only for tests at other sizes are left out, because a mean over their sizes means
    little. Views by size show them.
    """
    lines, bad = list[dict[str, Any]](), list[str]()
    for _, of, evaluation in evaluated(registry, bad):
        if evaluation.get("test_only"):
            continue
        overall = evaluation["overall"]
        of |= {name: overall.get(name) for name in ("rows", "tokens")}
        lines += [of | {"metric": name, "value": overall[name]} for name in METRICS if name in overall]
    return pl.DataFrame(lines, schema=VALUES, orient="row"), bad


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

    Raises `ApeError` if there is no such score, with a command that computes some.
    """
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

"""The metrics and the options of a report, the columns of its frames, and the scores that it selects.

Scores are fractions, or nats for cross-entropy. A perplexity is the exponential of a cross-entropy, which evaluations
store. Its `value` is this cross-entropy in nats, so that parts of the data are pooled and seeds are compared on the
logarithm. `scored` gives the perplexity.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from ape_cli.core.errors import LEFT_OUT, ApeError, RunError, pick
from ape_cli.core.vocabulary import SPLITS
from ape_cli.reports import published
from ape_cli.reports.descriptions import Described, RowKey, Settings, described, is_image, once
from ape_cli.runs.record import DECODINGS, DatasetRecord
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.runs.tuning import validation

logger = logging.getLogger(__name__)
Type = type[pl.DataType]

# Every column of the frames of a report: its type, and what it is for. Those of `column` identify a column of a table,
# and those of `row` a row of it. `name` may differ within a cell. `run` are of the scores of single runs, `score` of
# the means over them. The others follow from the settings of a line (`layout.label`): `layout` places it in the tables,
# and `choice` is the setting that validation scores chose. Machine-readable output has all but those of `run` and
# `layout`, in this order.
COLUMNS: dict[str, tuple[Type, str]] = {
    **dict.fromkeys(("task", "order"), (pl.String, "column")),
    **dict.fromkeys(("scheme", "variant", "configuration", "attention"), (pl.String, "row")),
    **dict.fromkeys(("preset", "decode", "split", "metric"), (pl.String, "column")),
    **dict.fromkeys(("mean", "std"), (pl.Float64, "score")),
    "seeds": (pl.Int64, "score"),
    "best": (pl.Boolean, "score"),
    **dict.fromkeys(("structure", "form"), (pl.String, "column")),
    "trained_on": (pl.String, "name"),
    "trained_fingerprint": (pl.String, "column"),
    "dataset": (pl.String, "name"),
    "fingerprint": (pl.String, "column"),
    **dict.fromkeys(("preset_size", "paper_size"), (pl.Boolean, "name")),
    **dict.fromkeys(("low", "high"), (pl.Float64, "score")),
    **dict.fromkeys(("seed", "rows", "tokens"), (pl.Int64, "run")),
    "value": (pl.Float64, "run"),
    "is_image": (pl.Boolean, "layout"),  # whether the task has images
    **dict.fromkeys(("row", "column"), (pl.String, "layout")),  # the names of the row and the column
    "shared": (pl.String, "layout"),  # the settings that all rows of the table share
    "of_preset": (pl.String, "layout"),  # the preset for the title of a table, which is empty if all lines have one
    "rank": (pl.UInt32, "layout"),  # the position of a cell among all cells
    **dict.fromkeys(("method", "training"), (pl.String, "layout")),  # the settings without those of training, and those
    "tried": (pl.String, "layout"),  # of the choice: all settings, the number of seeds, and whether it is the preset's
    "tuning_seeds": (pl.Int64, "layout"),
    "is_default": (pl.Boolean, "layout"),
    "setting": (pl.String, "choice"),
    "trials": (pl.Int64, "choice"),
    "moved": (pl.Float64, "choice"),
}


def columns(*uses: str) -> dict[str, Type]:
    """The columns of these uses, with their types."""
    return {name: dtype for name, (dtype, use) in COLUMNS.items() if use in uses}


LINES = columns("column", "row", "name", "score")
VALUES = columns("column", "row", "name", "run")
COLUMN, CELL = list(columns("column")), list(columns("row"))  # together they identify a cell
PLACE = list(columns("layout", "choice"))
COUNTS = ("rows", "tokens")


def arrange(lines: pl.DataFrame, grouped: Iterable[str], last: Iterable[str] = ()) -> pl.DataFrame:
    """The columns for machine-readable output, in the order of `LINES`.

    grouped: the columns that a view groups by, which are put before the mean. last: columns that are put at the end.
    """
    names = [name for name in LINES if name in lines.columns]
    mean = names.index("mean")
    return lines.select(*names[:mean], *grouped, *names[mean:], *last, *chosen_columns(lines))


def chosen_columns(lines: pl.DataFrame, side: str = "") -> list[str]:
    """The columns of the choice, if one was made. `side` ends their names, if lines have several choices."""
    names = [f"{name}{side}" for name in columns("choice")]
    return names if lines[names[0]].count() else []


class Metric(NamedTuple):
    """A metric: the field of evaluations that it is computed from, and its names and units.

    Names and units are those for sequences, for images (one label in each row), and for both together. The larger of
    two shares is better, and the smaller of two other scores.
    """

    field: str
    names: tuple[str, str, str]
    units: tuple[str, str, str] = ("%", "%", "%")  # empty for a perplexity
    exponential: bool = False  # a score is the exponential of the field; differences and intervals are of the field

    @property
    def is_share(self) -> bool:
        """Whether scores are fractions from 0 to 1."""
        return self.units[0] == "%"


DECODED = {"teacher": "teacher forcing", "greedy": "greedy decoding"}
METRICS = {
    "token_accuracy": Metric("token_accuracy", ("token accuracy", "top-1 accuracy", "accuracy")),
    "exact_match": Metric("exact_match", ("exact match", "top-1 accuracy", "exact match")),
    "cross_entropy": Metric(
        "cross_entropy", ("cross-entropy",) * 3, ("nats a token", "nats an image", "nats a token or image")
    ),
    "perplexity": Metric(
        "cross_entropy",
        ("perplexity per token", "perplexity per image", "perplexity per token or image"),
        ("", "", ""),
        exponential=True,
    ),
}
FIELDS = list(dict.fromkeys(metric.field for metric in METRICS.values()))
IS_SHARE = pl.col("metric").is_in([name for name, metric in METRICS.items() if metric.is_share])
_EXPONENTIAL = pl.col("metric").is_in([name for name, metric in METRICS.items() if metric.exponential])


def scored(value: pl.Expr) -> pl.Expr:
    """The score for a value of the field of the `metric` of each line."""
    return pl.when(_EXPONENTIAL).then(value.exp()).otherwise(value)


def measured(metric: str, tasks: Iterable[str | None]) -> tuple[str, str]:
    """The name and the unit of a metric for scores of these tasks.

    >>> measured("token_accuracy", ["copy", "c3"]), measured("cross_entropy", ["images"])
    (('token accuracy', '%'), ('cross-entropy', 'nats an image'))
    >>> measured("perplexity", ["copy"])
    ('perplexity per token', '')
    """
    modalities = {is_image(task) for task in tasks if task is not None}
    which = 2 if len(modalities) == 2 else int(True in modalities)
    return METRICS[metric].names[which], METRICS[metric].units[which]


@dataclass(frozen=True)
class Options:
    """The options of `ape report`, except for the selection of runs and the output file."""

    metric: str = "token_accuracy"
    decode: str = "teacher"
    split: str = "test"
    against: str | None = None  # adds the numbers of a source (`published`): its name, or FILE.toml
    compare: tuple[str, str] | None = None  # the names of two rows of the tables
    interval: bool = False  # show the 95% interval over seeds after a mean, not the standard deviation
    own: bool = False  # only scores on the data that a run was trained on
    best_by: str | None = None  # `validation` chooses the settings of each row by validation scores
    sweep: str = ""  # the name of the file whose sweep is reported, if only that one is
    style: str = "rich"  # one of `rendering.FORMATS`
    plots: str | None = None  # the folder for plots, if the user wants them
    axis: str | None = None  # one of `plots.KINDS`, if the user chooses it
    counts: bool = True  # numbers of test rows above plots
    bold: bool = False  # the best scores in LaTeX are bold, not underlined
    notes: bool = False  # with all rules of reading
    conditions: tuple[str, ...] = ()  # those that the runs meet (`filters.selected`)

    def __post_init__(self) -> None:
        """Check the names among the options. Raises `UsageError`."""
        pick("metric", self.metric, METRICS)
        pick("split", self.split, SPLITS)
        pick("decoding", self.decode, DECODINGS)
        if self.against is not None:
            published.load(self.against)
        if self.best_by is not None:
            pick("scores to choose by", self.best_by, ["validation"])

    def choice(self, registry: Registry) -> str:
        """The selection in words, for errors that say that there is no such score."""
        chosen = str(registry.chosen)
        return f"metric {self.metric}, decode {self.decode}, split {self.split}" + (f", {chosen}" if chosen else "")


class Values(NamedTuple):
    """Scores of single runs, and beside them the settings of these runs."""

    frame: pl.DataFrame  # a line for each run, evaluation and metric, with the columns of `VALUES`
    settings: Mapping[RowKey, Settings]


class EvaluationTables(NamedTuple):
    """All evaluations of a registry as tables, in the order in which they were read."""

    # a line for each: its `number`, `VALUES`, the metrics over all rows, `test_only` and `of_images`
    about: pl.DataFrame
    parts: dict[str, pl.DataFrame]  # by `size` and by `op`: a line for each number and part, with counts and metrics
    baselines: dict[tuple[str, str], dict[str, dict[str, float]]]  # scores without a model, by training data and split
    trained: dict[str, DatasetRecord]  # the description of the training data in run.json, by its fingerprint
    settings: dict[RowKey, Settings]
    plans: dict[tuple[str, str], list[dict[str, Any]]]  # what datasets were drawn from, by training and evaluated data


_ABOUT = {name: dtype for name, dtype in VALUES.items() if name not in ("metric", "value")}
_ABOUT |= dict.fromkeys(("test_only", "of_images"), pl.Boolean)
_OVERALL: dict[str, Type] = dict.fromkeys(FIELDS, pl.Float64)
CHANCE = pl.Struct(dict.fromkeys(("token_accuracy", "exact_match"), pl.Float64))  # at a size beyond training
_PART: dict[str, Type] = {"number": pl.UInt32} | dict.fromkeys(COUNTS, pl.Int64) | _OVERALL


def evaluated(registry: Registry, split: str | None = None) -> Iterator[tuple[Described, dict[str, Any]]]:
    """Each readable run with each of its evaluations. It warns of those that cannot be read.

    `split`: the split that is wanted. For `validation`, a run without an evaluation of this split on its own data has
    the scores that training stored.
    """
    for run in described(registry):
        evaluations, damaged = run.run.evaluations()
        for line in damaged:
            logger.warning(f"{LEFT_OUT}{run.run.name}: {line}")
        if split == "validation" and run.run.status_in(run.record) == "finished":
            own = (run.record.dataset.fingerprint, split, "teacher")
            if own not in {
                (evaluation["fingerprint"], evaluation["split"], evaluation["decode"]) for evaluation in evaluations
            }:
                evaluations = [*evaluations, *_stored(run.run, run.record.dataset)]
        for evaluation in evaluations:
            yield run, evaluation


def _stored(run: Run, data: DatasetRecord) -> list[dict[str, Any]]:
    """The validation scores that training stored for the weights of a run, in the form of an evaluation.

    Without a readable history there are none.
    """
    try:
        scores = validation(run)
    except RunError as error:
        logger.warning(f"{LEFT_OUT}{run.name}: {error.summary}")
        return []
    overall = {"token_accuracy": scores.accuracy, "cross_entropy": scores.loss, "rows": data.rows["validation"]}
    if data.image is not None:  # an image has one label
        overall["exact_match"] = scores.accuracy
    named = {"dataset": data.name, "fingerprint": data.fingerprint}
    return [named | {"split": "validation", "decode": "teacher", "overall": overall}]


def evaluation_tables(registry: Registry, split: str | None = None) -> EvaluationTables:
    """Read all evaluations in one pass. `split` is as for `evaluated`."""
    split = "validation" if split == "validation" else None
    return once(registry, _evaluation_tables, registry, split, key=split)


def _evaluation_tables(registry: Registry, split: str | None) -> EvaluationTables:
    """Read all evaluations."""
    about, trained, settings = list[dict[str, Any]](), dict[str, DatasetRecord](), dict[RowKey, Settings]()
    plans: dict[tuple[str, str], list[dict[str, Any]]] = {}
    baselines: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    schemas: dict[str, Any] = {"size": _PART | {"size": pl.Int64, "chance": CHANCE}, "op": _PART | {"op": pl.String}}
    parts: dict[str, dict[str, list[Any]]] = {part: {name: [] for name in schemas[part]} for part in schemas}
    for run, evaluation in evaluated(registry, split):
        trained[run.record.dataset.fingerprint] = run.record.dataset
        settings[run.key] = run.settings
        more: dict[str, Any] = {name: evaluation[name] for name in ("decode", "split", "dataset", "fingerprint")}
        more |= {"test_only": evaluation.get("test_only", False), "of_images": run.record.dataset.image is not None}
        if "baselines" in evaluation:
            baselines[evaluation["fingerprint"], evaluation["split"]] = evaluation["baselines"]
        if plan := evaluation.get("plan"):
            of_data = plans.setdefault((run.record.dataset.fingerprint, evaluation["fingerprint"]), [])
            of_data += [plan] if plan not in of_data else []
        for part, lists in parts.items():
            lines = evaluation.get(f"by_{part}", [])
            lists["number"] += [len(about)] * len(lines)
            for name in lists.keys() - {"number"}:
                lists[name] += [line.get(name) for line in lines]
        about.append(run.columns | evaluation["overall"] | more)
    frame = pl.DataFrame(about, schema=_ABOUT | _OVERALL, orient="row").with_row_index("number")
    of_parts = {part: pl.DataFrame(lists, schemas[part]) for part, lists in parts.items()}
    return EvaluationTables(frame, of_parts, baselines, trained, settings, plans)


def scores(registry: Registry, split: str | None = None) -> Values:
    """The scores of all runs. `split` is as for `evaluated`.

    Evaluations on datasets that are only for tests at other sizes are left out, because a mean over their sizes means
    little. Views by size show them.
    """
    tables = evaluation_tables(registry, split)
    about = tables.about.filter(~pl.col("test_only"))
    of_metric = [
        about.with_columns(metric=pl.lit(name), value=metric.field).drop_nulls("value")
        for name, metric in METRICS.items()
    ]
    return Values(pl.concat(of_metric).sort("number", maintain_order=True).select(*VALUES), tables.settings)


def wanted(options: Options) -> list[pl.Expr]:
    """The conditions on scores of a decoding and a split, and on their data."""
    own = [pl.col("fingerprint") == pl.col("trained_fingerprint")] * options.own
    return [pl.col("decode") == options.decode, pl.col("split") == options.split, *own]


class NothingToReportError(ApeError):
    """There is nothing to show. The reason may be what was left out."""


def selected(registry: Registry, options: Options) -> Values:
    """The scores for a metric, a decoding and a split.

    Raises `NothingToReportError` if there is no such score, with a command that computes some.
    """
    values, settings = scores(registry, options.split)
    if values.is_empty():
        states = Counter(item.run.status_in(item.record) for item in described(registry))
        got = f"{registry.folder}: {', '.join(f'{n} {state}' for state, n in states.items()) or 'no runs'}"
        fix = "train one first: `ape train --scheme rope --task copy`; `results` names another folder"
        if states["stopped"] or states["failed"]:
            fix = "continue the runs: `ape train` with `--resume`, or the same `ape sweep` again"
        if states["finished"]:
            fix = "evaluate the finished runs: `ape eval`"
        raise NothingToReportError("there is nothing to report: no evaluated run", got=got, fix=fix)
    chosen = values.filter(pl.col("metric") == options.metric, *wanted(options))
    if chosen.is_empty():
        possible = values.select("metric", "decode", "split", "preset").unique().sort(pl.all()).rows()
        got, allowed = options.choice(registry), "; ".join(", ".join(row) for row in possible)
        fix = "evaluate the runs with `ape eval --split … --decode …`, or select one of the above"
        if options.split == "validation":
            fix = f"""evaluate the runs: `ape eval --split validation --decode {options.decode}`; training stores only \
teacher-forced token accuracy and cross-entropy"""
        raise NothingToReportError("no evaluation matches the selection", got=got, allowed=allowed, fix=fix)
    return Values(chosen, settings)


def task_of(line: Mapping[str, Any]) -> str:
    """The task of a line as a column of a table names it: `c3/breadth`, or `images/digits` with the source."""
    if is_image(line["task"]):
        return f"{line['task']}/{line['form']}"
    name = f"{line['task']}/{line['order']}" if line["order"] else str(line["task"])
    return f"{name} ({line['form']})" if line["form"] else name

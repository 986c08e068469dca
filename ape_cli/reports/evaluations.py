"""The metrics and the options of a report, and the scores that it selects.

Scores are fractions, or nats for cross-entropy. A perplexity is the exponential of a cross-entropy, which evaluations
store. Its `value` is this cross-entropy in nats, so that parts of the data are pooled and seeds are compared on the
logarithm. `scored` gives the perplexity.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from ape_cli.core.errors import ApeError, RunError, pick
from ape_cli.core.vocabulary import SPLITS
from ape_cli.reports import published
from ape_cli.reports.builtin import is_image
from ape_cli.reports.descriptions import described, once, read_settings
from ape_cli.runs.record import DECODINGS, DatasetRecord, RunRecord
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.runs.tuning import validation

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
CHOICE = {"setting": pl.String, "trials": pl.Int64, "moved": pl.Float64}  # further columns of chosen runs, of `Choice`
# the columns of the scores of single runs
VALUES = {k: v for k, v in LINES.items() if k not in ("mean", "std", "seeds", "best", "low", "high")}
VALUES |= dict.fromkeys(("seed", "rows", "tokens"), pl.Int64) | {"value": pl.Float64}
VALUES["settings"] = pl.Categorical  # as JSON (`descriptions.Settings`); all lines of a run have the same

# what is behind a score: each seed with its value and its score, the numbers of evaluated rows and target tokens, which
# all seeds share, the settings of the run, and whether schemes have several settings of training (`aggregation`). The
# tables and the HTML page show them; they are not part of machine-readable output.
BEHIND = ["by_seed", "rows", "tokens", "settings", "untuned"]

# these identify a column of a table; together with CELL they identify a cell
COLUMN = ["task", "order", "preset", "decode", "split", "metric", "structure", "form"]
COLUMN += ["trained_fingerprint", "fingerprint"]
CELL = ["configuration", "scheme", "variant", "attention", "settings"]


def arrange(lines: pl.DataFrame, place: Iterable[str], last: Iterable[str] = ()) -> pl.DataFrame:
    """The columns for machine-readable output, in the order of `LINES`.

    place: the columns that a view groups by, which are put before the mean. last: columns that are put at the end.
    """
    names = [name for name in LINES if name in lines.columns]
    mean = names.index("mean")
    return lines.select(*names[:mean], *place, *names[mean:], *last, *chosen_columns(lines))


def chosen_columns(lines: pl.DataFrame, side: str = "") -> list[pl.Series]:
    """The columns of `CHOICE` for some lines. There are none if no setting was chosen.

    `side` ends the names of these columns and of `settings`, if lines have several.
    """
    settings, splits = lines[f"settings{side}"], lines["split"]
    choices = {text: text and read_settings(text).choice for text in settings.unique()}
    if not any(choices.values()):
        return []
    chosen = [(choices[text], split) for text, split in zip(settings, splits, strict=True)]
    values = [(None, None, None) if one is None else (one.setting, one.trials, one.moved.get(s)) for one, s in chosen]
    return [pl.Series(key + side, of, CHOICE[key]) for key, of in zip(CHOICE, zip(*values, strict=True), strict=True)]


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
    kinds = {is_image(task) for task in tasks if task is not None}
    which = 2 if len(kinds) == 2 else int(True in kinds)
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


def evaluated(
    registry: Registry, bad: list[str], split: str | None = None
) -> Iterator[tuple[RunRecord, dict[str, Any], dict[str, Any]]]:
    """The run.json of each readable run, its description with that of an evaluation, and the evaluation.

    `split`: the split that is wanted. For `validation`, a run without an evaluation of this split on its own data has
    the scores that training stored. A line of text about each run or evaluation that cannot be read is appended to
    `bad`.
    """
    for run, record, of_run in described(registry, bad):
        evaluations, damaged = run.evaluations()
        bad += [f"{run.name}: {line}" for line in damaged]
        if split == "validation" and run.status_in(record) == "finished":
            own = (record.dataset.fingerprint, split, "teacher")
            if own not in {(one["fingerprint"], one["split"], one["decode"]) for one in evaluations}:
                evaluations = [*evaluations, *_stored(run, record, bad)]
        for evaluation in evaluations:
            names = ("decode", "split", "dataset", "fingerprint")
            yield record, of_run | {name: evaluation[name] for name in names}, evaluation


def _stored(run: Run, record: RunRecord, bad: list[str]) -> list[dict[str, Any]]:
    """The validation scores that training stored for the weights of a run, in the form of an evaluation.

    Without a readable history there are none, and a line of text about the run is appended to `bad`.
    """
    try:
        scores = validation(run)
    except RunError as error:
        bad.append(f"{run.name}: {error.summary}")
        return []
    data, rows = record.dataset, record.dataset.rows["validation"]
    overall = {"token_accuracy": scores.accuracy, "cross_entropy": scores.loss, "rows": rows}
    if data.image is not None:  # an image has one label
        overall["exact_match"] = scores.accuracy
    named = {"dataset": data.name, "fingerprint": data.fingerprint}
    return [named | {"split": "validation", "decode": "teacher", "overall": overall}]


COUNTS = ("rows", "tokens")
_ABOUT = {name: kind for name, kind in VALUES.items() if name not in ("metric", "value")}
_ABOUT |= dict.fromkeys(("test_only", "of_images"), pl.Boolean) | {"plan": pl.String}
_OVERALL: dict[str, type[pl.DataType]] = dict.fromkeys(FIELDS, pl.Float64)
_PART: dict[str, type[pl.DataType]] = {"number": pl.UInt32} | dict.fromkeys(COUNTS, pl.Int64) | _OVERALL


class EvaluationTables(NamedTuple):
    """All evaluations of a registry as tables, in the order in which they were read."""

    # a line for each: its `number`, `VALUES`, the metrics over all rows, `test_only`, `of_images`, and `plan` as JSON
    about: pl.DataFrame
    parts: dict[str, pl.DataFrame]  # by `size` and by `op`: a line for each number and part, with counts and metrics
    trained: dict[str, DatasetRecord]  # the description of the training data in run.json, by its fingerprint
    bad: list[str]  # a line of text about each run or evaluation that cannot be read


def evaluation_tables(registry: Registry, split: str | None = None) -> EvaluationTables:
    """Read all evaluations in one pass. `split` is as for `evaluated`."""
    split = "validation" if split == "validation" else None
    return once(registry, _evaluation_tables, registry, split, key=split)


def _evaluation_tables(registry: Registry, split: str | None) -> EvaluationTables:
    """Read all evaluations."""
    about, trained, bad = list[dict[str, Any]](), dict[str, DatasetRecord](), list[str]()
    schemas: dict[str, Any] = {"size": _PART | {"size": pl.Int64}, "op": _PART | {"op": pl.String}}
    parts: dict[str, dict[str, list[Any]]] = {part: {name: [] for name in of} for part, of in schemas.items()}
    for record, of, evaluation in evaluated(registry, bad, split):
        trained[of["trained_fingerprint"]] = record.dataset
        flags: dict[str, Any] = {"test_only": evaluation.get("test_only", False)}
        flags |= {"of_images": record.dataset.image is not None}
        flags |= {"plan": json.dumps(plan) if (plan := evaluation.get("plan")) else None}
        for part, columns in parts.items():
            lines = evaluation.get(f"by_{part}", [])
            columns["number"] += [len(about)] * len(lines)
            for name in columns.keys() - {"number"}:
                columns[name] += [line.get(name) for line in lines]
        about.append(of | evaluation["overall"] | flags)
    described_by = pl.DataFrame(about, schema=_ABOUT | _OVERALL, orient="row").with_row_index("number")
    return EvaluationTables(
        described_by, {part: pl.DataFrame(columns, schemas[part]) for part, columns in parts.items()}, trained, bad
    )


def scores(registry: Registry, split: str | None = None) -> tuple[pl.DataFrame, list[str]]:
    """The scores, one line for each run, evaluation and metric, and a line of text about each unreadable run.

    `split` is as for `evaluated`. Evaluations on datasets that are only for tests at other sizes are left out, because
    a mean over their sizes means little. Views by size show them.
    """
    tables = evaluation_tables(registry, split)
    about = tables.about.filter(~pl.col("test_only"))
    of_metric = [
        about.with_columns(metric=pl.lit(name), value=metric.field).drop_nulls("value")
        for name, metric in METRICS.items()
    ]
    return pl.concat(of_metric).sort("number", maintain_order=True).select(*VALUES), list(tables.bad)


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
    values, bad = scores(registry, options.split)
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
        if options.split == "validation":
            fix = f"""evaluate the runs: `ape eval --split validation --decode {options.decode}`; training stores only \
teacher-forced token accuracy and cross-entropy"""
        raise nothing_to_report("no evaluation matches the selection", bad, got=got, allowed=allowed, fix=fix)
    return chosen, bad


def task_of(line: dict[str, Any]) -> str:
    """The task of a line as a column of a table names it: `c3/breadth`, or `images/digits` with the source."""
    if is_image(line["task"]):
        return f"{line['task']}/{line['form']}"
    name = f"{line['task']}/{line['order']}" if line["order"] else str(line["task"])
    return f"{name} ({line['form']})" if line["form"] else name

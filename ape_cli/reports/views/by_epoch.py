"""Scores halfway through the schedule and at its end, from the history of each finished run.

Source: Algebraic Positional Encodings, table 3: the best score until epoch 150 and until epoch 300 of 300.

These two points of the schedule are called checkpoints. Each has three measures, which use all validations of a run up
to this point:

- the best validation accuracy, which chose the weights;
- the test accuracy at the step of the best validation accuracy, which chose nothing;
- the best test accuracy, which is chosen on the test set.

The best score is taken in each run first. Then the mean and the deviation over seeds are computed. Scores are
fractions. The test split of sequences is not scored while a run trains, so sequences have only the first measure.

Cross-entropy has the same measures, in nats: the lowest on validation, the test cross-entropy of the weights that
validation accuracy chose, and the lowest on the test set. Perplexity follows from it. Exact match is not measured while
a run trains.
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ape_cli.core.errors import LEFT_OUT, RunError, UsageError
from ape_cli.reports import plots, published
from ape_cli.reports.aggregation import over_seeds
from ape_cli.reports.descriptions import Described, described, once
from ape_cli.reports.evaluations import (
    COLUMN,
    LINES,
    METRICS,
    VALUES,
    NothingToReportError,
    arrange,
    scored,
    task_of,
)
from ape_cli.reports.layout import DATA, TABLE, by_column, label, mark
from ape_cli.reports.plots import Panel, Plot, split
from ape_cli.reports.tables import Table, brackets, table
from ape_cli.reports.views import Options, View
from ape_cli.runs.record import RunRecord
from ape_cli.runs.registry import Registry

# metrics that are measured while a run trains, and their names in its history
MEASURED = {"token_accuracy": "token_accuracy", "cross_entropy": "loss", "perplexity": "loss"}

History = tuple[Described, pl.DataFrame]  # a finished run and its validations


logger = logging.getLogger(__name__)
METRIC = "token_accuracy"  # the metric that chooses the weights; for images it is the top-1 accuracy
VALIDATION, CHOSEN, BEST = "validation", "test, chosen on validation", "test, best by epoch"
_MEASURES = {  # their notes
    VALIDATION: "Biased upwards: these scores chose the weights.",
    CHOSEN: "The weights are those of the best validation accuracy.",
    BEST: "Optimistic: the best step was chosen on the test set.",
}
_PLACE = {"checkpoint": pl.String, "step": pl.Int64, "epoch": pl.Float64, "measure": pl.String}


@dataclass(frozen=True)
class Epochs:
    """The scores at checkpoints, and the histories of the finished runs that they come from."""

    lines: pl.DataFrame  # one line for each cell, checkpoint and measure
    histories: list[History]


class ByEpoch(View[Epochs]):
    """Shows the scores at checkpoints. Its figure has the learning curves."""

    about = "halfway through the schedule and at its end, as in the preprint's table 3"
    by = "epoch"
    title = "Learning curves"
    rank = 30
    unused = ("decode", "split", "counts")  # they are those of the training history
    caption = "Validation scores of finished runs, mean over seeds."

    def rejects(self, options: Options) -> Iterator[UsageError]:
        """Reject options for scores that the history of a run does not have."""
        yield from super().rejects(options)
        if options.metric not in MEASURED:
            name = METRICS[options.metric].names[0]
            what = f"{name} is not measured while a run trains, so it has no scores by epoch"
            yield UsageError(what, got=f"`metric={options.metric}`", fix=f"choose {' or '.join(MEASURED)}")

    def read(self, registry: Registry, options: Options) -> Epochs:
        """Read the histories of the finished runs.

        Raises `ApeError` if there is no history, or if the metric is not measured while a run trains.
        """
        of_runs = list(histories(registry, options.metric)) if options.metric in MEASURED else []
        at_checkpoints = lines(of_runs, options.metric, options.against)
        if at_checkpoints.is_empty():
            got = " ".join(filter(None, (str(registry.folder), str(registry.chosen))))
            fix = "train one first: `ape train --scheme orthogonal-grid --task images`"
            what = "there are no scores by epoch: no finished run has a history"
            raise NothingToReportError(what, got=got, fix=fix)
        return Epochs(at_checkpoints, of_runs)

    def frame(self, result: Epochs) -> pl.DataFrame:
        """The lines, with `checkpoint`, `step`, `epoch` (null if the schedule is in steps) and `measure`."""
        theirs = [name for name in result.lines.columns if name.startswith("paper") and name not in LINES]
        return arrange(result.lines, _PLACE, theirs)

    def tables(self, result: Epochs, *, interval: bool = False) -> list[Table]:
        """A table for each column of the other tables, preset and measure, with checkpoints as columns."""
        groups = [group.filter(measure=m) for group in by_column(result.lines) for m in _MEASURES]
        return [_table(group, interval) for group in groups if group.height]

    def plot(self, result: Epochs, options: Options) -> Plot | None:
        """The learning curves, with one panel for each column of the tables: validation scores over steps."""
        return plots.plot(learning(result.histories, options.metric), options.metric, "validation ")


def lines(of_runs: list[History], metric: str, against: str | None) -> pl.DataFrame:
    """A line for each cell, checkpoint and measure. There are none without histories.

    The columns are those of `evaluations.LINES`, `checkpoint`, `step`, `epoch` (null if the schedule is in steps) and
    `measure`, and the place of each line (`layout.label`). If one schedule ends at a checkpoint that is halfway through
    another, its name says which: `@20 (end)` and `@20 (half)`.
    """
    values: list[dict[str, Any]] = []
    for run, history in of_runs:
        data = run.record.dataset
        of_run = run.columns | {"dataset": data.name, "fingerprint": data.fingerprint}
        of_run |= {"metric": metric, "decode": "teacher"}
        for checkpoint in checkpoints(run.record, history):
            for measure, value in best(history, checkpoint["step"], metric).items():
                split = "validation" if measure == VALIDATION else "test"
                of_score = {"split": split, "measure": measure, "value": value, "rows": data.rows[split]}
                values.append(of_run | checkpoint | of_score)
    if not values:
        return pl.DataFrame()
    more = [pl.col("trained_on", "dataset", "preset_size", "paper_size", "step", "epoch", "rows", "tokens").min()]
    by_run = pl.DataFrame(values, schema=VALUES | _PLACE | {"is_end": pl.Boolean}, orient="row")
    by_run = by_run.with_columns(pl.col("trained_on", "dataset").min().over("trained_fingerprint"))
    aggregated = over_seeds(by_run, [*COLUMN, "measure", "checkpoint", "is_end"], more)
    if against is not None:
        columns = [  # of the published table; there is none unless the score was chosen like those there
            f"{task_of(line)} {line['checkpoint']}" if line["measure"] == BEST else ""
            for line in aggregated.iter_rows(named=True)
        ]
        aggregated = published.beside(aggregated, columns, against)
    labelled = label(aggregated, {run.key: run.settings for run, _ in of_runs})
    which = pl.when("is_end").then(pl.lit("end")).otherwise(pl.lit("half"))
    is_both = pl.col("is_end").n_unique().over(*TABLE, "column", "checkpoint") > 1
    named = pl.when(is_both).then(pl.format("{} ({})", "checkpoint", which)).otherwise("checkpoint")
    return mark(labelled.with_columns(checkpoint=named), ["checkpoint"], ["measure"])


def checkpoints(record: RunRecord, history: pl.DataFrame) -> list[dict[str, Any]]:
    """The checkpoints of a run, halfway through its schedule and at its end (`is_end`).

    Each has its name as `checkpoint`, the last `step`, and the `epoch`, which is None if the schedule is in steps.
    """
    steps, epochs, config = record.outcome.steps, record.config.epochs, record.config
    chosen = []
    for halves in (1, 2):
        step, epoch = steps * halves // 2, None if epochs is None else epochs * halves / 2
        if epochs and not config.validate_every_steps:  # validated after epochs, of which the first may be longer
            near = step + steps // (4 * epochs)
            step = max([step, *history["step"].filter(history["step"] <= near)])
        name = f"@{step:,} steps" if epoch is None else f"@{epoch:,.1f}".removesuffix(".0")
        chosen.append({"checkpoint": name, "step": step, "epoch": epoch, "is_end": halves == 2})
    return chosen


def best(history: pl.DataFrame, last: int, metric: str = METRIC) -> dict[str, float]:
    """The measures of one run over its validations until step `last`, without those that its history does not have."""
    choose = max if METRICS[metric].is_share else min
    steps, validation, test, kept = (history[name].to_list() for name in ("step", "validation", "test", "kept"))
    count = bisect.bisect_right(steps, last)  # they are ascending
    if not count:
        return {}
    validation, test = validation[:count], test[:count]
    measures = {VALIDATION: choose(validation)}
    chosen = [score for score, is_kept in zip(test, kept, strict=False) if is_kept]  # the choice of the training
    if chosen and chosen[-1] is not None:
        measures[CHOSEN] = chosen[-1]
    if None not in test:
        measures[BEST] = choose(test)
    return measures


def _table(group: pl.DataFrame, interval: bool) -> Table:
    """The table of one column of the other tables, one preset and one measure."""
    first = group.row(0, named=True)
    ordered = group.sort(pl.col("epoch").is_null(), "epoch", "step", "checkpoint")
    names = ordered["checkpoint"].unique(maintain_order=True).to_list()
    notes = [_MEASURES[first["measure"]]]
    rules = ["Columns: halfway through the schedule, and at its end; the best step until then."]
    if first["measure"] == BEST:  # published scores were chosen like this
        of_source = brackets(group, interval)
        notes, rules = notes + of_source[0], rules + of_source[1]
    title, end = f"{first['column']} by epoch", f": {first['measure']}"
    return table(title, group, "checkpoint", names, interval, notes=notes, rules=rules, end=end)


def histories(registry: Registry, metric: str) -> Iterator[History]:
    """The history of each finished run, with the columns step, validation, test and kept.

    test: null if the test split was not scored. kept: whether the weights were the best so far. A run without a
    readable history is left out with a warning.
    """
    names = {"validation": f"validation_{MEASURED[metric]}", "test": f"test_{MEASURED[metric]}", "kept": "kept"}
    types = {"validation": pl.Float64, "test": pl.Float64, "kept": pl.Boolean}
    for run in described(registry):
        if run.run.status_in(run.record) != "finished":
            continue
        try:
            history = once(registry, run.run.history)
            expressions = {name: pl.col(of) if of in history.columns else pl.lit(None) for name, of in names.items()}
            expressions["validation"] = pl.col(names["validation"])  # an error if it is missing
            columns = [column.cast(types[name]).alias(name) for name, column in expressions.items()]
            yield run, history.select(pl.col("step").cast(pl.Int64), *columns).sort("step")
        except (RunError, pl.exceptions.PolarsError):
            what = "history.parquet is missing or damaged, so there is no learning curve"
            logger.warning(f"{LEFT_OUT}{run.run.name}: {what}")


def learning(of_runs: list[History], metric: str) -> list[Panel]:
    """The panels of the learning curves of runs."""
    score, test = pl.col("score"), scored(pl.col("test"))
    heights = np.repeat(np.arange(len(of_runs)), [history.height for _, history in of_runs])
    runs = pl.DataFrame([run.columns | {"metric": metric, "split": "validation"} for run, _ in of_runs], VALUES)
    values = pl.concat([history for _, history in of_runs]).hstack(runs[heights].drop("value"))
    more = [pl.col("trained_on").min(), score.min().alias("least"), score.max().alias("most")]
    more.append(pl.when(test.null_count() == 0).then(test.mean()).alias("test"))
    curves = over_seeds(values.rename({"validation": "value", "step": "x"}), [*DATA, "split", "metric", "x"], more)
    labelled = label(curves, {run.key: run.settings for run, _ in of_runs})
    return [Panel(title, "steps", lines) for title, lines in split(labelled)]

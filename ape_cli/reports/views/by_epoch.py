"""Scores at checkpoints of the schedule, halfway and at the end, from the history of each finished run.

Source: Algebraic Positional Encodings, table 3: the best by epoch until 150 and until 300 of 300 epochs.

A checkpoint sees the validations of a run until then, and says three things of them: the best validation accuracy,
which chose the weights; the test accuracy at that step, which chose nothing; and the best test accuracy, which is
chosen on the test set. What is best is best in one run: mean and deviation over seeds come after. The test split of
sequences is not looked at while a run trains, so they have the first alone. Scores are fractions.

The same for cross-entropy, in nats: the lowest on validation, the test cross-entropy of the weights that validation
accuracy chose, and the lowest on the test set. Exact match is not measured while a run trains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from ape_cli.core.errors import ApeError, UsageError, pick
from ape_cli.reports import line_plots, paper
from ape_cli.reports.aggregation import over_seeds
from ape_cli.reports.columns import COLUMN, LINES, arrange
from ape_cli.reports.curves import MEASURED, History, Panel, histories, label, learning
from ape_cli.reports.evaluations import METRICS, SMALLER_IS_BETTER, measured, task_of
from ape_cli.reports.legend import LINE_STYLES
from ape_cli.reports.plots import Plot
from ape_cli.reports.tables import Table, brackets, cell, standing_notes
from ape_cli.reports.views import Options, View
from ape_cli.runs.registry import Registry

METRIC = "token_accuracy"  # what training chooses by; of images the top-1 accuracy
VALIDATION, CHOSEN, BEST = "validation", "test, chosen on validation", "test, best by epoch"
_CHOSEN = """The test {} where validation accuracy was best until then: the test set has chosen nothing. At the end it \
is that of the weights that were kept."""
_MEASURES = {  # what they are, by the metric
    "token_accuracy": {
        VALIDATION: "The best validation accuracy until then: it chose the weights, so it is biased upwards.",
        CHOSEN: _CHOSEN.format("accuracy"),
        BEST: "The best test accuracy until then: chosen on the test set itself, so it is optimistic.",
    },
    "cross_entropy": {
        VALIDATION: """The lowest validation cross-entropy until then. The weights were chosen by validation accuracy, \
not by this.""",
        CHOSEN: _CHOSEN.format("cross-entropy"),
        BEST: "The lowest test cross-entropy until then: chosen on the test set itself, so it is optimistic.",
    },
}
_THEIRS = """Its table says dev scores, its text test-set results, and neither on which split its epochs were chosen: \
they may have been chosen and reported on the same images."""
_NOT_THEIRS = "The paper has no number of these runs: its table 3 is of CIFAR-10, 32 x 32, until epochs 150 and 300."
_PLACE = {"checkpoint": pl.String, "step": pl.Int64, "epoch": pl.Float64, "measure": pl.String}


@dataclass(frozen=True)
class Epochs:
    """What the histories of the finished runs tell."""

    lines: pl.DataFrame  # one for each cell, checkpoint and measure
    histories: list[History]


class ByEpoch(View[Epochs]):
    """Finds the scores at checkpoints. Its figure is the learning curves."""

    about = "halfway through the schedule and at its end, as in the paper's table 3"
    by = "epoch"
    title = "Learning curves"
    comparison = "of the weights that were kept"
    rank = 30
    caption = f"""These are validation scores of finished runs. A line is the mean over seeds. A band reaches
from the smallest to the largest score. {LINE_STYLES} A dotted line is the test split, which decides nothing."""

    def rejects(self, options: Options) -> Iterator[UsageError]:
        """Refuses what the history of a run does not tell."""
        yield from super().rejects(options)
        metric = pick("metric", options.metric, METRICS)
        if metric not in MEASURED:
            yield UsageError(
                f"{METRICS[metric][0]} is not measured while a run trains, so there is none by epoch",
                got=f"--metric {metric}",
                allowed=", ".join(MEASURED),
                fix=f"leave --metric or {options.asked.partition(' ')[0]} out",
            )
        for option, given, only in (("decode", options.decode, "teacher"), ("split", options.split, "test")):
            if given != only:
                what = "scores by epoch are those that runs were chosen by, on every split that they looked at"
                yield UsageError(what, got=f"--{option} {given}", fix=f"leave --{option} out")

    def read(self, registry: Registry, options: Options) -> tuple[Epochs, list[str]]:
        """The histories of the finished runs. Where it is not `needed`, an unmeasured metric has none of them."""
        if not options.needed and options.metric not in MEASURED:
            return Epochs(pl.DataFrame(), []), []
        pick("metric", options.metric, MEASURED)
        bad: list[str] = []
        found = list(histories(registry, options.metric, bad))
        made = lines(found, options.metric, options.against)
        if options.needed and made.is_empty():
            raise ApeError(
                "there are no scores by epoch: no finished run has a history",
                got=" ".join(filter(None, (str(registry.folder), str(registry.chosen)))),
                fix="train one first: `ape train --scheme orthogonal-grid --task images`",
            )
        return Epochs(made, found), bad

    def frame(self, found: Epochs) -> pl.DataFrame:
        """The lines, with `checkpoint`, `step`, `epoch` (null where a run was set in steps) and `measure`."""
        theirs = [name for name in found.lines.columns if name.startswith("paper_") and name not in LINES]
        return arrange(found.lines, _PLACE, theirs)

    def tables(self, found: Epochs, *, interval: bool = False) -> list[Table]:
        """For each column of the other tables and each preset one a measure: schemes down, checkpoints across."""
        if found.lines.is_empty():
            return []
        groups = found.lines.partition_by("structure", "preset", "column", maintain_order=True)
        measures = (VALIDATION, CHOSEN, BEST)
        return [
            _table(group.filter(measure=m), interval) for group in groups for m in measures if m in group["measure"]
        ]

    def plot(self, found: Epochs, options: Options) -> Plot | None:
        """Learning curves: a panel for each column of the tables, validation scores over steps."""
        if options.metric in MEASURED:
            return curves_plot(learning(found.histories), options.metric)
        return Plot([], None, f"no learning curves: {METRICS[options.metric][0]} is not measured while a run trains")


def curves_plot(panels: list[Panel], metric: str) -> Plot | None:
    """A figure of learning curves."""
    return line_plots.plot(panels, metric, "validation ")


def lines(found: list[History], metric: str, against: str | None) -> pl.DataFrame:
    """A line for each cell, checkpoint and measure; empty without histories.

    As those of `columns.LINES`, with `checkpoint`, `step`, `epoch` (null where a run was set in steps) and `measure`,
    and with `row`, `column` and `rank` (`curves.label`).
    """
    if against is not None:
        pick("comparison", against, ["paper"])
    values: list[dict[str, Any]] = []
    for of_run, about, history in found:
        trained = {"dataset": of_run["trained_on"], "fingerprint": of_run["trained_fingerprint"]}
        for place in checkpoints(about):
            for measure, value in best(history, place["step"], metric).items():
                split = "validation" if measure == VALIDATION else "test"
                of_score = {"metric": metric, "decode": "teacher", "split": split, "measure": measure, "value": value}
                values.append({**of_run, **trained, **place, **of_score})
    if not values:
        return pl.DataFrame()
    more = [pl.col(c).last() for c in ("trained_on", "dataset", "paper_size", "step", "epoch")]
    schema = LINES | _PLACE | {"value": pl.Float64, "seed": pl.Int64}
    made = over_seeds(pl.DataFrame(values, schema=schema, orient="row"), [*COLUMN, "measure", "checkpoint"], more)
    made = made.select(*LINES, *_PLACE)
    if against is not None:
        made = paper.beside(made, [_theirs(line) for line in made.iter_rows(named=True)])
    return label(made)


def _theirs(line: dict[str, Any]) -> str:
    """A line's column in the paper's table: of what was chosen as theirs was, and of nothing else."""
    return f"{task_of(line)} {line['checkpoint']}" if line["measure"] == BEST else ""


def checkpoints(about: dict[str, Any]) -> list[dict[str, Any]]:
    """Half of a run's schedule, and all of it: `checkpoint`, its name; `step`, the last one; `epoch`."""
    steps, epochs = about["result"]["steps"], about["config"]["epochs"]
    found = []
    for halves in (1, 2):
        step, epoch = steps * halves // 2, None if epochs is None else epochs * halves / 2
        name = f"@{step:,} steps" if epoch is None else f"@{epoch:,.1f}".removesuffix(".0")
        found.append({"checkpoint": name, "step": step, "epoch": epoch})
    return found


def best(history: pl.DataFrame, last: int, metric: str = METRIC) -> dict[str, float]:
    """The measures of one run's validations until step `last`; those that its history does not tell are left out."""
    choose = min if metric in SMALLER_IS_BETTER else max
    until = history.filter(pl.col("step") <= last)
    if until.is_empty():
        return {}
    validation, test = until["validation"].to_list(), until["test"].to_list()
    found = {VALIDATION: choose(validation)}
    kept = until.filter("kept")["test"].to_list()  # as training chose
    if kept and kept[-1] is not None:
        found[CHOSEN] = kept[-1]
    if None not in test:
        found[BEST] = choose(test)
    return found


def _table(group: pl.DataFrame, interval: bool) -> Table:
    first = group.row(0, named=True)
    name, unit = measured(first["metric"], group["task"])
    places = group.sort(pl.col("epoch").is_null(), "epoch", "step")
    names = places["checkpoint"].unique(maintain_order=True).to_list()
    cells = {(line["row"], line["checkpoint"]): cell(line) for line in group.iter_rows(named=True)}
    notes = [
        *standing_notes(group, interval),
        "Across: half of the schedule, and all of it.",
        _MEASURES[first["metric"]][first["measure"]],
    ]
    if any(made.paper for made in cells.values()):
        notes += [*brackets(group, interval), _THEIRS]
    elif "paper_mean" in group.columns and first["measure"] == BEST:
        notes.append(_NOT_THEIRS)
    rows = group["row"].unique(maintain_order=True)
    body = [(row, [cells.get((row, name)) for name in names]) for row in rows]
    return Table(f"{first['column']} by epoch, {name}: {first['measure']}", notes, names, body, unit, interval)

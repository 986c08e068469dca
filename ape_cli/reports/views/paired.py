"""Comparison of two schemes in pairs: `ape report --compare A B`.

On one column of the tables (a task, order, dataset and preset) a pair is one seed that both schemes have. The data, its
order and the split are the same for both. The line of a column has these statistics of the differences A - B: their
mean, its 95% interval over seeds by Student's paired t (which assumes that they are normally distributed), on how many
seeds each scheme is better, and the exact p-value of the sign-flip test (`stats.sign_flip`, which does not assume
that). With n pairs this p-value is at least 2 / 2^n, which is 0.25 for three seeds.

Over all tasks of a preset a pair is one task, with the mean of the mean differences of its columns. The seeds and the
orders of a task are repeated measures of one task. They make its mean more certain, but they do not say anything about
other tasks. (Demšar 2006, Statistical comparisons of classifiers over multiple data sets, JMLR 7, section 3: datasets
are the sample.) Signs are flipped by task, and tasks are taken to be independent under the null hypothesis that neither
scheme is better. Tasks differ in scale, and a task with large differences has more weight in the mean, so there is no
interval over tasks. The number of tasks on which each scheme is better does not depend on the scale. Scores on a
dataset that was not used for training have their own line, and are left out here.

Perplexities are compared on the logarithm, where all of this is computed. The results are then transformed: means over
seeds and tasks are geometric, the difference becomes their ratio, and the interval is one of the ratio.

Units: fractions, or nats for cross-entropy. p-values are not corrected for the number of columns.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import polars as pl

from ape_cli.core.errors import ApeError, UsageError
from ape_cli.reports import aggregation, evaluations, stats
from ape_cli.reports.choices import called
from ape_cli.reports.evaluations import COLUMN, METRICS, chosen_columns, scored
from ape_cli.reports.tables import Table, chosen_notes, column_rank, number, of_preset, settings, with_row_names
from ape_cli.reports.views import Options, View
from ape_cli.runs.registry import Registry

LINES: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(("a", "b"), pl.String),
    "over": pl.String,  # the kind of pair: "seeds", or "tasks" in the line over all tasks
    **dict.fromkeys(("task", "order", "preset", "decode", "split", "metric"), pl.String),
    **dict.fromkeys(("mean_a", "mean_b"), pl.Float64),  # only over pairs
    **dict.fromkeys(("difference", "std", "low", "high"), pl.Float64),  # the difference is a - b, or the ratio a / b
    **dict.fromkeys(("better_a", "better_b", "pairs"), pl.Int64),
    **dict.fromkeys(("p", "least_p"), pl.Float64),  # p is null beyond `stats.MOST_FLIPPED` pairs
    **dict.fromkeys(("only_a", "only_b"), pl.String),  # seeds without a pair
    **dict.fromkeys(("column", "structure", "form"), pl.String),
    **dict.fromkeys(("trained_on", "trained_fingerprint", "dataset", "fingerprint"), pl.String),
}
# further columns of lines, for tables (`tables.with_row_names`)
_BEHIND: dict[str, type[pl.DataType]] = dict.fromkeys(("settings_a", "settings_b", "shared"), pl.String)
_ALL = "all tasks"
_OF_DIFFERENCES = [
    "Interval: the 95% interval over seeds of the mean difference, by Student's paired t.",
    "It assumes that differences are normally distributed.",
]
_OF_RATIOS = [
    """Interval: the 95% interval over seeds of the ratio, by Student's paired t, computed on the logarithm and then \
transformed.""",
    "It assumes that logarithms of ratios are normally distributed. p is of these logarithms, too.",
]


class Paired(View[pl.DataFrame]):
    """Shows lines of `LINES`. Its page has only its own tables."""

    about = "two rows of the tables in pairs by seed, and over all tasks: --compare A B"
    compares = True
    on_page = False
    title = "Scores"
    unused = ("interval", "against", "plots", "axis", "counts")  # the tables always have the interval

    def read(self, registry: Registry, options: Options) -> tuple[pl.DataFrame, list[str]]:
        """Read the scores and pair them. Also returns a line of text for each column without a pair.

        Raises `ApeError` if there is no score or no pair.
        """
        values, bad = evaluations.selected(registry, options)
        assert options.compare, "`rejects` asks for two rows"
        paired, alone = lines(values, *options.compare)
        return paired, bad + alone

    def frame(self, result: pl.DataFrame) -> pl.DataFrame:
        """The lines of `read`, with the chosen settings of both rows if there are any.

        For perplexities, `difference` is called `ratio`, and there is no deviation.
        """
        sides = [(side, chosen_columns(result[f"settings_{side}"])) for side in ("a", "b")]
        chosen = [column.alias(f"{column.name}_{side}") for side, of_side in sides for column in of_side]
        shown = result.drop(_BEHIND).with_columns(chosen)
        return shown.rename({"difference": "ratio"}).drop("std") if _is_ratio(result) else shown

    def tables(self, result: pl.DataFrame, *, interval: bool = False) -> list[Table]:
        """A table for each preset. Its rows are the columns of the other tables, and then all tasks together."""
        return [_table(group, of_preset(group, result)) for group in result.partition_by("preset", maintain_order=True)]


def lines(values: pl.DataFrame, a: str, b: str) -> tuple[pl.DataFrame, list[str]]:
    """Pair scores (`evaluations.selected`).

    Returns lines of `LINES`, and a line of text for each column without a pair.

    `a` and `b` are names of rows in the tables, for example `rope` or `rope (decay=0.98)`. Raises `UsageError` if a row
    is unknown or if both are the same, and `ApeError` if there is no pair.
    """
    named = with_row_names(aggregation.aggregate(values))
    of_a, of_b = called(a, named), called(b, named)
    if of_a.items() & of_b.items():
        raise UsageError("a row compared with itself", got=a, allowed="two different rows of the tables")
    rows_a, rows_b = set(of_a.values()), set(of_b.values())
    if len(rows_a) == len(rows_b) == 1:  # one table, or the same names in all
        (a,), (b,) = rows_a, rows_b
    names = dict.fromkeys(of_a.items(), a) | dict.fromkeys(of_b.items(), b)
    columns: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}  # the lines of the two rows in each column
    for line in sorted(named.iter_rows(named=True), key=_place):
        if name := names.get(((line["is_image"], line["structure"], line["preset"]), line["row"])):
            columns.setdefault(tuple(line[k] for k in COLUMN), {})[name] = line
    paired, alone = [], []
    for of_row in columns.values():
        line = next(iter(of_row.values()))
        values_of = {name: {seed["seed"]: seed["value"] for seed in of_row[name]["by_seed"]} for name in of_row}
        ours, theirs = values_of.get(a, {}), values_of.get(b, {})
        only = {a: sorted(ours.keys() - theirs.keys()), b: sorted(theirs.keys() - ours.keys())}
        if not (both := sorted(ours.keys() & theirs.keys())):
            seeds = "; ".join(f"{name}: {_words(of_name) or 'no seed'}" for name, of_name in only.items())
            alone.append(f"{line['column']}, preset {line['preset']}: no seed in common ({seeds})")
            continue
        sides = {"a": a, "b": b, "over": "seeds", "only_a": _words(only[a]), "only_b": _words(only[b])}
        sides |= {"settings_a": of_row[a]["settings"], "settings_b": of_row[b]["settings"]}
        paired.append(line | sides | _paired([(ours[seed], theirs[seed]) for seed in both], line["metric"]))
    if not paired:
        fix = "train both with the same `seed` on the same data, and evaluate both in the same way"
        raise ApeError(f"{a} and {b} have no pairs to compare", got="\n           ".join(alone), fix=fix)
    found = pl.DataFrame([*paired, *_over_tasks(paired)], schema=LINES | _BEHIND, orient="row")
    return found.with_columns(scored(pl.col("mean_a", "mean_b", "difference", "low", "high"))), alone


def _is_ratio(found: pl.DataFrame) -> bool:
    """Whether the differences of lines are ratios."""
    return METRICS[found["metric"][0]].exponential


def _place(line: dict[str, Any]) -> tuple[Any, ...]:
    """The sort key of a column: presets come first, then the order of the tables."""
    return line["preset"], line["structure"], *column_rank(line)


def _paired(pairs: list[tuple[float, float]], metric: str) -> dict[str, Any]:
    """The statistics of pairs of values (`evaluations.Metric`). A pair is a seed or a task."""
    differences = [a - b for a, b in pairs]
    mean = statistics.fmean(differences)
    std, half = stats.spread(differences)
    up, down = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return {
        "mean_a": statistics.fmean(a for a, _ in pairs),
        "mean_b": statistics.fmean(b for _, b in pairs),
        "difference": mean,
        "std": std,
        "low": None if half is None else mean - half,
        "high": None if half is None else mean + half,
        "better_a": up if METRICS[metric].is_share else down,
        "better_b": down if METRICS[metric].is_share else up,
        "pairs": len(pairs),
        "p": stats.sign_flip(differences),
        "least_p": stats.least_p(len(pairs)),
    }


def _over_tasks(lines_of_columns: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A line for each preset with several tasks. A pair is a task, with the means over its columns."""
    for preset in dict.fromkeys(line["preset"] for line in lines_of_columns):
        tasks: dict[str, list[dict[str, Any]]] = {}
        for line in lines_of_columns:
            if line["preset"] == preset and line["fingerprint"] == line["trained_fingerprint"]:
                tasks.setdefault(line["task"], []).append(line)
        if len(tasks) < 2:
            continue
        shared = {k: lines_of_columns[0][k] for k in ("a", "b", "decode", "split", "metric")}
        pairs = [
            (statistics.fmean(line["mean_a"] for line in task), statistics.fmean(line["mean_b"] for line in task))
            for task in tasks.values()
        ]
        of_tasks = _paired(pairs, shared["metric"]) | {"low": None, "high": None}
        yield shared | {"preset": preset, "over": "tasks", "column": _ALL} | of_tasks


def _words(seeds: list[int]) -> str:
    """Seeds as text."""
    return ", ".join(map(str, seeds))


def _table(group: pl.DataFrame, preset: str) -> Table:
    """The table of one preset."""
    first = group.row(0, named=True)
    a, b, (name, unit) = first["a"], first["b"], evaluations.measured(first["metric"], group["task"])
    ratio = _is_ratio(group)
    means, effect = ("geometric means", "ratio") if ratio else ("means", "difference")
    notes = [
        f"{settings(group)}; {means} over seeds that both have, and their {effect}.",
        *(_OF_RATIOS if ratio else _OF_DIFFERENCES),
        f"Better: the number of pairs on which {a} is better, and the number on which {b} is.",
        "p: two-sided p-value of an exact sign-flip test, not corrected for the number of lines.",
        "Least p: the smallest p-value for this number of pairs. It is below 0.05 from six pairs on.",
    ]
    sides = [group.select("column", s, f"settings_{s}").drop_nulls().rows() for s in ("a", "b")]
    notes[1:1] = chosen_notes(group, [cell for side in sides for cell in side])
    if _ALL in group["column"]:
        notes.append("All tasks: a pair is a task, with the mean of its lines. Tasks are assumed to be independent.")
        if (group["fingerprint"] != group["trained_fingerprint"]).any():
            notes.append("Data that was not used for training is left out.")
    alone = [
        f"{line['column']}: {line[only]} of {name}"
        for line in group.iter_rows(named=True)
        for only, name in (("only_a", a), ("only_b", b))
        if line[only]
    ]
    if alone:
        notes.append(f"Seeds that only one of the two has are left out: {'; '.join(alone)}.")
    heads = [a, b, effect, "interval", "better", "pairs", "p", "least p"]
    rows = [(line["column"], _cells(line, unit)) for line in group.iter_rows(named=True)]
    return Table(f"{a} against {b}{preset}, {name}", notes, heads, rows, unit, head="task")


def _cells(line: dict[str, Any], unit: str) -> list[str | None]:
    """The cells of a line as text."""
    interval = None
    if line["low"] is not None:
        interval = "[" + ", ".join(number(line[end], unit, 2, "+") for end in ("low", "high")) + "]"
    return [
        number(line["mean_a"], unit, 2),
        number(line["mean_b"], unit, 2),
        number(line["difference"], unit, 2, "+"),
        interval,
        f"{line['better_a']} : {line['better_b']}",
        str(line["pairs"]),
        None if line["p"] is None else f"{line['p']:.3g}",
        f"{line['least_p']:.3g}",
    ]

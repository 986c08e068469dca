"""Comparison of two schemes in pairs: `ape report --compare A B`.

On one column of the tables (a task, order, dataset and preset) a pair is one seed that both schemes have. The data, its
order and the split are the same for both. The line of a column has these statistics of the differences A - B: their
mean, its 95% interval over seeds by Student's paired t (which assumes that they are normally distributed), on how many
seeds each scheme is better, and the exact p-value of the sign-flip test (`stats.sign_flip`, which does not assume
that). With n pairs this p-value is at least 2 / 2^n, which is 0.25 for three seeds.

Over all tasks of a preset, on which each row has one name and so the same settings, a pair is one task, with the mean
of the mean differences of its columns. If a row has several names, each has a table of its own. The seeds and the
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

import logging
import statistics
from collections.abc import Iterator
from typing import Any

import polars as pl

from ape_cli.core.errors import LEFT_OUT, ApeError
from ape_cli.reports import aggregation, best_by, evaluations, stats
from ape_cli.reports.evaluations import COLUMN, COLUMNS, METRICS, PLACE, Values, chosen_columns, scored
from ape_cli.reports.layout import KEYS, TABLE, label, two_rows
from ape_cli.reports.tables import Table, number, settings
from ape_cli.reports.views import Options, View
from ape_cli.runs.registry import Registry

logger = logging.getLogger(__name__)
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
_CHOICE = ("tried", "tuning_seeds", "is_default", "setting", "trials", "moved")
# further columns of lines, for tables (`layout.label`)
_BEHIND: dict[str, type[pl.DataType]] = dict.fromkeys(("shared", "of_preset"), pl.String)
_BEHIND |= {f"{name}_{side}": COLUMNS[name][0] for side in ("a", "b") for name in _CHOICE}
_TABLE = ["preset", "a", "b"]  # these identify a table
_ALL = "all tasks"
_INTERVAL = {  # whether the effect is a ratio
    False: """Interval: the 95% interval over seeds of the mean difference, by Student's paired t, which assumes that \
differences are normally distributed.""",
    True: """Interval: the 95% interval over seeds of the ratio, by Student's paired t of the logarithms, which are \
assumed to be normally distributed, and then transformed. p is of these logarithms, too.""",
}


class Paired(View[pl.DataFrame]):
    """Shows lines of `LINES`. Its page has only its own tables."""

    about = "two rows of the tables in pairs by seed, and over all tasks: --compare A B"
    compares = True
    on_page = False
    title = "Scores"
    unused = ("interval", "against", "plots", "axis", "counts")  # the tables always have the interval

    def read(self, registry: Registry, options: Options) -> pl.DataFrame:
        """Read the scores and pair them. It warns of each column without a pair.

        Raises `ApeError` if there is no score or no pair.
        """
        assert options.compare, "`rejects` asks for two rows"
        return lines(evaluations.selected(registry, options), *options.compare)

    def frame(self, result: pl.DataFrame) -> pl.DataFrame:
        """The lines of `read`, with the chosen settings of both rows if there are any.

        For perplexities, `difference` is called `ratio`, and there is no deviation.
        """
        chosen = [*chosen_columns(result, "_a"), *chosen_columns(result, "_b")]
        shown = result.select(*LINES, *chosen)
        return shown.rename({"difference": "ratio"}).drop("std") if _is_ratio(result) else shown

    def tables(self, result: pl.DataFrame, *, interval: bool = False) -> list[Table]:
        """A table for each preset and settings. Its rows are the columns of the other tables, and then all tasks."""
        return [_table(group) for group in result.partition_by(_TABLE, maintain_order=True)]


def lines(values: Values, a: str, b: str) -> pl.DataFrame:
    """Pair scores (`evaluations.selected`). Returns lines of `LINES`, and warns of each column without a pair.

    `a` and `b` are names of rows in the tables, for example `rope` or `rope (decay=0.98)`. Raises `UsageError` if a row
    is unknown or if both are the same, and `ApeError` if there is no pair.
    """
    of_tables = aggregation.aggregate(values)
    rows = two_rows(a, b, of_tables)
    sides = [rows.get((*(line[k] for k in TABLE), line["row"])) for line in of_tables.iter_rows(named=True)]
    both = of_tables.with_columns(side=pl.Series(sides, dtype=pl.String)).drop_nulls("side").select(pl.exclude(PLACE))
    both = label(both, values.settings, [*KEYS, "fingerprint"], ["preset"])
    columns: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}  # the lines of the two rows in each column
    for line in both.sort("preset", "rank").iter_rows(named=True):
        columns.setdefault(tuple(line[k] for k in COLUMN), {})[line["side"]] = line
    paired, alone = [], []
    for of_side in columns.values():
        ours, theirs = (
            {seed["seed"]: seed["value"] for seed in of_side[side]["by_seed"]} if side in of_side else {}
            for side in ("a", "b")
        )
        line, only = next(iter(of_side.values())), [sorted(ours.keys() - theirs.keys()), sorted(theirs.keys() - ours)]
        if not (seeds := sorted(ours.keys() & theirs.keys())):
            told = "; ".join(
                f"{name}: {', '.join(map(str, of)) or 'no seed'}" for name, of in zip((a, b), only, strict=True)
            )
            alone.append(f"{line['column']}, preset {line['preset']}: no seed in common ({told})")
            continue
        own = {f"only_{side}": ", ".join(map(str, of)) for side, of in zip("ab", only, strict=True)}
        own |= {"over": "seeds"}
        own |= {side: of_side[side]["row"] for side in ("a", "b")}
        own |= {f"{name}_{side}": of_side[side][name] for side in ("a", "b") for name in _CHOICE}
        paired.append(line | own | _paired([(ours[seed], theirs[seed]) for seed in seeds], line["metric"]))
    if not paired:
        fix = "train both with the same `seed` on the same data, and evaluate both in the same way"
        raise ApeError(f"{a} and {b} have no pairs to compare", got="; ".join(alone), fix=fix)
    for text in alone:
        logger.warning(LEFT_OUT + text)
    pairs = pl.DataFrame(paired, schema=LINES | _BEHIND, orient="row")
    tables = pairs.partition_by(_TABLE, maintain_order=True)
    over_tasks = [line for table in tables for line in _over_tasks(table.rows(named=True))]
    pairs = pl.concat([pairs, pl.DataFrame(over_tasks, schema=LINES | _BEHIND, orient="row")])
    return pairs.with_columns(scored(pl.col("mean_a", "mean_b", "difference", "low", "high")))


def _is_ratio(lines: pl.DataFrame) -> bool:
    """Whether the differences of lines are ratios."""
    return METRICS[lines["metric"][0]].exponential


def _paired(pairs: list[tuple[float, float]], metric: str) -> dict[str, Any]:
    """The statistics of pairs of values (`evaluations.Metric`). A pair is a seed or a task."""
    differences = [_exact(a - b) for a, b in pairs]
    mean = _exact(statistics.fmean(differences))
    std, half = stats.spread(differences)
    up, down = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    low, high = (None, None) if half is None else (mean - half, mean + half)
    if METRICS[metric].is_share and low is not None and high is not None:  # where a difference can be
        low, high = max(low, -1.0), min(high, 1.0)
    return {
        "mean_a": statistics.fmean(a for a, _ in pairs),
        "mean_b": statistics.fmean(b for _, b in pairs),
        "difference": mean,
        "std": std,
        "low": low,
        "high": high,
        "better_a": up if METRICS[metric].is_share else down,
        "better_b": down if METRICS[metric].is_share else up,
        "pairs": len(pairs),
        "p": stats.sign_flip(differences),
        "least_p": stats.least_p(len(pairs)),
    }


def _exact(difference: float) -> float:
    """A difference, which is 0 if it is one of rounding only."""
    return 0.0 if abs(difference) <= stats.ROUNDING else difference


def _over_tasks(lines_of_table: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The line over all tasks of a table that has several. A pair is a task, with the means over its columns."""
    tasks: dict[str, list[dict[str, Any]]] = {}
    for line in lines_of_table:
        if line["fingerprint"] == line["trained_fingerprint"]:
            tasks.setdefault(line["task"], []).append(line)
    if len(tasks) < 2:
        return
    shared = {k: lines_of_table[0][k] for k in (*_TABLE, "decode", "split", "metric", "shared", "of_preset")}
    pairs = [
        (statistics.fmean(line["mean_a"] for line in task), statistics.fmean(line["mean_b"] for line in task))
        for task in tasks.values()
    ]
    of_tasks = _paired(pairs, shared["metric"]) | {"low": None, "high": None}
    yield shared | {"over": "tasks", "column": _ALL} | of_tasks


def _table(group: pl.DataFrame) -> Table:
    """The table of one preset and settings."""
    first = group.row(0, named=True)
    a, b, (name, unit) = first["a"], first["b"], evaluations.measured(first["metric"], group["task"])
    ratio = _is_ratio(group)
    means, effect = ("Geometric means", "ratio") if ratio else ("Means", "difference")
    of_rows = [
        group.with_columns(row=pl.col(side), **{x: pl.col(f"{x}_{side}") for x in _CHOICE}) for side in ("a", "b")
    ]
    chosen, of_choice = best_by.notes(pl.concat(of_rows))
    shown, of_settings = settings(group, f"{means} over shared seeds")
    notes = [*shown, *chosen]
    rules = [
        *of_settings,
        *of_choice,
        _INTERVAL[ratio],
        f"Better: the number of pairs on which {a} is better, and the number on which {b} is.",
        "p: two-sided p-value of an exact sign-flip test, not corrected for the number of lines.",
        "Least p: the smallest p-value possible with this number of pairs; below 0.05 from six pairs on.",
    ]
    if _ALL in group["column"]:
        rules.append("""All tasks: a pair is a task, with the mean of its lines on the data used for training. Tasks \
are assumed to be independent.""")
    alone = any(line["only_a"] or line["only_b"] for line in group.iter_rows(named=True))
    notes += ["Seeds that only one of the two has are left out."] * alone
    heads = [a, b, effect, "interval", "better", "pairs", "p", "least p"]
    rows = [(line["column"], _cells(line, unit)) for line in group.iter_rows(named=True)]
    return Table(f"{a} against {b}{first['of_preset']}, {name}", notes, heads, rows, unit, head="task", rules=rules)


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

"""Reports: every evaluation in a registry, aggregated over seeds, as the paper's tables.

A cell is one scheme (with what was set differently from its preset) on one task, order and dataset:
the mean over seeds, the sample standard deviation, the number of seeds, and the 95% interval of the
mean (`stats.py`), which speaks of other seeds of training on the same data. As in the paper, every score
within one standard deviation (the best one's) of the best in its column is underlined. Runs that
differ in anything but the seed are never averaged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import polars as pl

from ape_cli import paper, stats, tasks
from ape_cli.config import PRESETS, Config
from ape_cli.errors import ApeError, pick
from ape_cli.record import DECODINGS, variant_text
from ape_cli.registry import Registry
from ape_cli.run import Run
from ape_cli.schema import SPLITS

METRICS = {"token_accuracy": "token accuracy", "exact_match": "exact match", "cross_entropy": "cross-entropy"}
SMALLER_IS_BETTER = {"cross_entropy"}

_COLUMNS = ["copy", "reverse", "repeat"]  # in the paper's order, what is not here comes after
_COLUMNS += [f"{t}/{o}" for t in ("tree-copy", "tree-rotate", "c3", "tree-ops") for o in ("breadth", "depth")]
_ROWS = ["none", "sinusoidal", "relative", "tree", "rope", "orthogonal-seq", "orthogonal-tree"]

LINES = {
    "task": pl.String,
    "order": pl.String,
    "scheme": pl.String,
    "variant": pl.String,
    "configuration": pl.String,
    "attention": pl.String,
    "preset": pl.String,
    "decode": pl.String,
    "split": pl.String,
    "metric": pl.String,
    "mean": pl.Float64,
    "std": pl.Float64,
    "seeds": pl.Int64,
    "best": pl.Boolean,
    "structure": pl.String,
    "form": pl.String,
    "trained_on": pl.String,
    "trained_fingerprint": pl.String,
    "dataset": pl.String,
    "fingerprint": pl.String,
    "paper_size": pl.Boolean,
    "low": pl.Float64,
    "high": pl.Float64,
}


@dataclass(frozen=True)
class Cell:
    """One score of a table. Fractions, or nats for cross-entropy."""

    mean: float
    std: float | None
    seeds: int
    best: bool  # within one standard deviation of the best
    paper: tuple[float, float | None] | None  # mean and deviation, as fractions
    half: float | None = None  # of the 95% interval of the mean


@dataclass(frozen=True)
class Table:
    title: str
    notes: list[str]
    columns: list[str]
    rows: Sequence[tuple[str, Sequence[Cell | str | None]]]  # text is a number, in no need of escapes
    percent: bool
    interval: bool = False  # beside a mean stands half of its interval, not its deviation
    head: str = "scheme"


def described(registry: Registry, bad: list[str]) -> Iterator[tuple[Run, dict[str, Any], dict[str, Any]]]:
    """The readable runs, each with its run.json and what tables say of it; `bad` gets a line about each other one."""
    for run, about in registry.sound(bad):
        config, trained = about["config"], about["dataset"]
        apart_from_seed = json.dumps(config | {"seed": 0})
        configuration, attention = _identity(apart_from_seed, trained["fingerprint"])
        of_run = {
            "task": trained["task"],
            "order": trained["order"],
            "scheme": config["scheme"],
            "variant": variant_text(about),
            "configuration": configuration,
            "attention": attention,
            "preset": config["preset"],
            "seed": config["seed"],
            "structure": trained["structure"],
            "form": _form(trained),
            "trained_on": trained["name"],
            "trained_fingerprint": trained["fingerprint"],
            "paper_size": _is_paper_size(config["preset"], trained),
        }
        yield run, about, of_run


def scores(registry: Registry) -> tuple[pl.DataFrame, list[str]]:
    """One line for each run, evaluation and metric; and a line of text for each run that is unreadable."""
    lines, bad = [], list[str]()
    for run, _, of_run in described(registry, bad):
        evaluations, damaged = run.evaluations()
        bad += [f"{run.name}: {line}" for line in damaged]
        for evaluation in evaluations:
            of_evaluation = {name: evaluation[name] for name in ("decode", "split", "dataset", "fingerprint")}
            lines += [
                {**of_run, **of_evaluation, "metric": metric, "value": value}
                for metric in METRICS
                if (value := evaluation["overall"].get(metric)) is not None
            ]
    schema = {k: v for k, v in LINES.items() if k not in ("mean", "std", "seeds", "best", "low", "high")}
    return pl.DataFrame(lines, schema=schema | {"value": pl.Float64, "seed": pl.Int64}, orient="row"), bad


@cache
def _identity(config: str, fingerprint: str) -> tuple[str, str]:
    """The digest of a configuration apart from its seed, and its attention; seeds ask for the same again."""
    checked = Config.model_validate_json(config)
    return checked.digest(fingerprint, without=("seed",)), checked.attention


def _form(trained: dict[str, Any]) -> str:
    """What makes a task another than the paper's: `branching 3, binarised`."""
    parameters = trained["parameters"]
    parts = [f"branching {parameters['branching']}"] if parameters.get("branching", 2) != 2 else []
    return ", ".join(parts + ["binarised"] * bool(parameters.get("binarise")))


def _is_paper_size(preset: str, trained: dict[str, Any]) -> bool:
    """Whether a run has the paper's own model, rows and sizes of words or trees."""
    if preset != "paper" or trained["task"] not in tasks.names():
        return False
    own = tasks.make(trained["task"], trained["order"]).parameters
    return bool(trained["parameters"] == own and trained["rows"] == PRESETS["paper"].rows)


# what a column is, what a cell is beside it, and names that may change without changing either
COLUMN = ["task", "order", "preset", "decode", "split", "metric", "structure", "form"]
COLUMN += ["trained_fingerprint", "fingerprint"]
CELL = ["configuration", "scheme", "variant", "attention"]
_NAMES = ["trained_on", "dataset", "paper_size"]


def once(values: pl.DataFrame) -> pl.DataFrame:
    """Each run's last value in each column.

    A dataset may have been moved or renamed, and evaluated again: the fingerprint says what it is.
    """
    return values.unique([*COLUMN, *CELL, "seed"], keep="last", maintain_order=True)


def aggregate(values: pl.DataFrame) -> pl.DataFrame:
    """Lines of `LINES`: mean, deviation, interval and number over seeds, and what is best in its column."""
    return over_seeds(once(values), COLUMN, [pl.col(c).last() for c in _NAMES]).select(list(LINES))


def over_seeds(values: pl.DataFrame, column: list[str], more: Sequence[pl.Expr]) -> pl.DataFrame:
    """Mean, deviation, interval and number of `value` over seeds in each `CELL` of a column; what is best in it.

    `more`: what else is taken from the lines of a cell.
    """
    lines = values.group_by([*column, *CELL], maintain_order=True).agg(
        *more,
        pl.col("value").mean().alias("mean"),
        pl.col("value").std().alias("std"),
        pl.len().cast(pl.Int64).alias("seeds"),
    )
    widths = {n: stats.half_width(n) for n in lines["seeds"].unique()}
    half = pl.col("seeds").replace_strict(widths, return_dtype=pl.Float64) * pl.col("std")
    lines = lines.with_columns((pl.col("mean") - half).alias("low"), (pl.col("mean") + half).alias("high"))
    sign = pl.when(pl.col("metric").is_in(list(SMALLER_IS_BETTER))).then(-1.0).otherwise(1.0)
    lines = lines.with_columns((sign * pl.col("mean")).alias("score"))
    top = lines.group_by(column).agg(
        pl.col("score").max().alias("top"), pl.col("std").sort_by("score").last().fill_null(0.0).alias("slack")
    )
    lines = lines.join(top, on=column, nulls_equal=True, maintain_order="left")
    return lines.with_columns((pl.col("score") >= pl.col("top") - pl.col("slack") - 1e-12).alias("best"))


def lines(
    registry: Registry, *, metric: str, decode: str, split: str, preset: str | None, against: str | None
) -> tuple[pl.DataFrame, list[str]]:
    """The aggregated lines that are asked for, and a line of text for each run that is unreadable."""
    if against is not None:
        pick("comparison", against, ["paper"])
    values, bad = wanted(registry, metric=metric, decode=decode, split=split, preset=preset)
    found = aggregate(values)
    if against is not None:
        found = paper.beside(found, [_column(line) for line in found.iter_rows(named=True)])
    return found, bad


def check(*, metric: str, decode: str, split: str, preset: str | None) -> None:
    """That there can be such scores; else a `UsageError`."""
    pick("metric", metric, METRICS)
    pick("split", split, SPLITS)
    pick("decoding", decode, DECODINGS)
    if preset is not None:
        pick("preset", preset, PRESETS)


def wanted(
    registry: Registry, *, metric: str, decode: str, split: str, preset: str | None
) -> tuple[pl.DataFrame, list[str]]:
    """The scores that are asked for. An empty choice is an `ApeError` that says what to run."""
    check(metric=metric, decode=decode, split=split, preset=preset)
    values, bad = scores(registry)
    if values.is_empty():
        raise ApeError(
            "there is nothing to report: no evaluated run",
            got=f"{registry.folder}",
            fix="train one first: `ape train --scheme rope --task copy`, then `ape report`",
        )
    chosen = values.filter(
        pl.col("metric") == metric,
        pl.col("decode") == decode,
        pl.col("split") == split,
        pl.lit(True) if preset is None else pl.col("preset") == preset,
    )
    if chosen.is_empty():
        there = values.select("metric", "decode", "split", "preset").unique().sort(pl.all()).rows()
        raise ApeError(
            "no evaluation is like this",
            got=f"metric {metric}, decode {decode}, split {split}, preset {preset or 'any'}",
            allowed="; ".join(", ".join(row) for row in there),
            fix="evaluate the runs so: `ape eval --split … --decode …`, or ask for what there is",
        )
    return chosen, bad


def _column(line: dict[str, Any]) -> str:
    name = f"{line['task']}/{line['order']}" if line["order"] else str(line["task"])
    return f"{name} ({line['form']})" if line["form"] else name


def tables(found: pl.DataFrame, *, interval: bool = False) -> list[Table]:
    """Lines as tables: one for each preset and kind of structure, schemes down, tasks across."""
    groups = named(found).partition_by("structure", "preset", maintain_order=True)
    return [_table(group, interval) for group in groups]


def named(found: pl.DataFrame) -> pl.DataFrame:
    """The lines, in the order of their tables, each with the `row` and the `column` that it has in its table."""
    groups = found.partition_by("structure", "preset", maintain_order=True)
    made = []
    for group in sorted(groups, key=lambda g: (g["structure"][0], g["preset"][0])):
        names, places = _column_names(group), dict[tuple[str, str], None]()
        for line in group.iter_rows(named=True):
            column = names[tuple(line[k] for k in _DATA)]
            row = line["scheme"] + (f" ({line['variant']})" if line["variant"] else "")
            if (row, column) in places:  # the same words for another configuration: a preset or a scheme has changed
                row += f" #{line['configuration']}"
            places[row, column] = None
        rows, columns = zip(*places, strict=True)
        made.append(group.with_columns(pl.Series("row", rows), pl.Series("column", columns)))
    return pl.concat(made)


def row_rank(line: dict[str, Any]) -> tuple[int, str]:
    """Where a row stands among the others of its table, by one of its named lines."""
    return _rank(_ROWS, line["scheme"]), line["row"]


def column_rank(line: dict[str, Any]) -> tuple[int, str]:
    """Where a column stands among the others of its table, by one of its named lines."""
    return _rank(_COLUMNS, _column(line)), line["column"]


def _table(group: pl.DataFrame, interval: bool) -> Table:
    cells: dict[tuple[str, str], Cell] = {}
    order: dict[str, tuple[int, str]] = {}
    rows: dict[str, tuple[int, str]] = {}
    against = "paper_mean" in group.columns
    for line in group.iter_rows(named=True):
        row, column = line["row"], line["column"]
        order[column] = column_rank(line)
        rows[row] = row_rank(line)
        cells[row, column] = cell(line)
    columns = sorted(order, key=order.__getitem__)
    first = group.row(0, named=True)
    kind = {"seq": "Sequence tasks", "tree(2)": "Tree tasks"}.get(first["structure"], f"Tasks on {first['structure']}")
    seeds = sorted({c.seeds for c in cells.values()})
    percent = first["metric"] not in SMALLER_IS_BETTER
    notes = standing_notes(first, seeds, interval)
    if against:
        size = "" if group["paper_size"].all() else " at its own size, which is not that of these runs"
        deviation = " ± standard deviation" if interval else ""
        notes.append(f"In brackets: the paper's number{deviation}, over 3 seeds{size}.")
    body = [(row, [cells.get((row, column)) for column in columns]) for row in sorted(rows, key=rows.__getitem__)]
    return Table(f"{kind}, {METRICS[first['metric']]}", notes, columns, body, percent, interval)


def cell(line: dict[str, Any]) -> Cell:
    paper = None if line.get("paper_mean") is None else (line["paper_mean"], line["paper_std"])
    half = None if line["high"] is None else line["high"] - line["mean"]
    return Cell(line["mean"], line["std"], line["seeds"], line["best"], paper, half)


def standing_notes(line: dict[str, Any], seeds: list[int], interval: bool) -> list[str]:
    """What stands under every table of scores. `seeds`: how many there are in its cells."""
    spread = "half of its 95% interval (Student's t)" if interval else "standard deviation"
    return [
        f"{settings(line)}; mean ± {spread} over {_count(seeds)}.",
        "Underlined: within one standard deviation of the best in the column.",
    ]


def settings(line: dict[str, Any]) -> str:
    """What all lines of a table have in common, for the note under it."""
    unit = "nats a token" if line["metric"] in SMALLER_IS_BETTER else "%"
    what = f"{METRICS[line['metric']]} in {unit}, {line['decode']} decoding, {line['split']} split"
    return f"Preset {line['preset']}; {what}"


def _count(seeds: list[int]) -> str:
    if seeds == [1]:
        return "1 seed"
    return f"{seeds[0]} seeds" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds (×n where fewer)"


def _rank(known: list[str], name: str) -> int:
    return known.index(name) if name in known else len(known)


_DATA = ["task", "order", "trained_fingerprint", "fingerprint"]  # what tells the columns of a table apart


def _column_names(group: pl.DataFrame) -> dict[tuple[Any, ...], str]:
    """A name for each column; datasets are named only where the task alone does not tell them apart."""
    columns = group.unique(_DATA, maintain_order=True)
    names: dict[tuple[Any, ...], str] = {}
    for line in columns.iter_rows(named=True):
        name = _column(line)
        alike = columns.filter(pl.col("task") == line["task"], pl.col("order").eq_missing(line["order"]))
        if alike["trained_fingerprint"].n_unique() > 1:
            name += f" [{line['trained_on']}]"
        if line["fingerprint"] != line["trained_fingerprint"]:
            name += f" on {line['dataset']}"
        if name in names.values():
            name += f" {line['fingerprint'][:6]}"
        names[tuple(line[k] for k in _DATA)] = name
    return names

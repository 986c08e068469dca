"""Reports: every evaluation in a registry, aggregated over seeds, as the paper's tables.

A cell is one scheme (with what was set differently from its preset) on one task, order and dataset:
the mean over seeds, the sample standard deviation, the number of seeds. As in the paper, every score
within one standard deviation (the best one's) of the best in its column is underlined. Runs that
differ in anything but the seed are never averaged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import polars as pl

from ape_cli import tasks
from ape_cli.config import PRESETS, Config
from ape_cli.errors import ApeError, pick
from ape_cli.record import DECODINGS, variant_text
from ape_cli.registry import Registry
from ape_cli.schema import SPLITS

METRICS = {"token_accuracy": "token accuracy", "exact_match": "exact match", "cross_entropy": "cross-entropy"}
_SMALLER_IS_BETTER = {"cross_entropy"}

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
}


@dataclass(frozen=True)
class Cell:
    """One score of a table. Fractions, or nats for cross-entropy."""

    mean: float
    std: float | None
    seeds: int
    best: bool  # within one standard deviation of the best
    paper: tuple[float, float | None] | None  # mean and deviation, as fractions


@dataclass(frozen=True)
class Table:
    title: str
    notes: list[str]
    columns: list[str]
    rows: list[tuple[str, list[Cell | None]]]
    percent: bool


def scores(registry: Registry) -> tuple[pl.DataFrame, list[str]]:
    """One line for each run, evaluation and metric; and a line of text for each run that is unreadable."""
    lines, bad = [], list[str]()
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
        evaluations, damaged = run.evaluations()
        bad += [f"{run.name}: {line}" for line in damaged]
        for evaluation in evaluations:
            of_evaluation = {name: evaluation[name] for name in ("decode", "split", "dataset", "fingerprint")}
            lines += [
                {**of_run, **of_evaluation, "metric": metric, "value": value}
                for metric in METRICS
                if (value := evaluation["overall"].get(metric)) is not None
            ]
    schema = {k: v for k, v in LINES.items() if k not in ("mean", "std", "seeds", "best")}
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
_COLUMN = ["task", "order", "preset", "decode", "split", "metric", "structure", "form"]
_COLUMN += ["trained_fingerprint", "fingerprint"]
_CELL = ["configuration", "scheme", "variant", "attention"]
_NAMES = ["trained_on", "dataset", "paper_size"]


def aggregate(values: pl.DataFrame) -> pl.DataFrame:
    """Lines of `LINES`: mean, deviation and number over seeds, and what is best in its column."""
    # a dataset may have been moved or renamed, and evaluated again: the fingerprint says what it is
    once = values.unique([*_COLUMN, *_CELL, "seed"], keep="last", maintain_order=True)
    lines = once.group_by([*_COLUMN, *_CELL], maintain_order=True).agg(
        *(pl.col(c).last() for c in _NAMES),
        pl.col("value").mean().alias("mean"),
        pl.col("value").std().alias("std"),
        pl.len().cast(pl.Int64).alias("seeds"),
    )
    sign = pl.when(pl.col("metric").is_in(list(_SMALLER_IS_BETTER))).then(-1.0).otherwise(1.0)
    lines = lines.with_columns((sign * pl.col("mean")).alias("score"))
    top = lines.group_by(_COLUMN).agg(
        pl.col("score").max().alias("top"), pl.col("std").sort_by("score").last().fill_null(0.0).alias("slack")
    )
    lines = lines.join(top, on=_COLUMN, nulls_equal=True, maintain_order="left")
    lines = lines.with_columns((pl.col("score") >= pl.col("top") - pl.col("slack") - 1e-12).alias("best"))
    return lines.select(list(LINES))


def lines(
    registry: Registry, *, metric: str, decode: str, split: str, preset: str | None, against: str | None
) -> tuple[pl.DataFrame, list[str]]:
    """The aggregated lines that are asked for. An empty choice is an `ApeError` that says what to run."""
    pick("metric", metric, METRICS)
    pick("split", split, SPLITS)
    pick("decoding", decode, DECODINGS)
    if preset is not None:
        pick("preset", preset, PRESETS)
    values, bad = scores(registry)
    if values.is_empty():
        raise ApeError(
            "there is nothing to report: no evaluated run",
            got=f"{registry.folder}",
            fix="train one first: `ape train --scheme rope --task copy`, then `ape report`",
        )
    wanted = values.filter(
        pl.col("metric") == metric,
        pl.col("decode") == decode,
        pl.col("split") == split,
        pl.lit(True) if preset is None else pl.col("preset") == preset,
    )
    if wanted.is_empty():
        there = values.select("metric", "decode", "split", "preset").unique().sort(pl.all()).rows()
        raise ApeError(
            "no evaluation is like this",
            got=f"metric {metric}, decode {decode}, split {split}, preset {preset or 'any'}",
            allowed="; ".join(", ".join(row) for row in there),
            fix="evaluate the runs so: `ape eval --split … --decode …`, or ask for what there is",
        )
    found = aggregate(wanted)
    if against is not None:
        pick("comparison", against, ["paper"])
        found = found.with_columns(*_paper_columns(found))
    return found, bad


def _paper_columns(found: pl.DataFrame) -> list[pl.Series]:
    published = paper_scores()
    means, stds = [], []
    for line in found.iter_rows(named=True):
        kind = (line["metric"], line["decode"], line["split"])
        plain = not line["variant"] and kind == ("token_accuracy", "teacher", "test")
        own = line["fingerprint"] == line["trained_fingerprint"]
        score = published.get((line["scheme"], _column(line))) if plain and own else None
        means.append(None if score is None else score[0])
        stds.append(None if score is None else score[1])
    return [pl.Series("paper_mean", means, pl.Float64), pl.Series("paper_std", stds, pl.Float64)]


def paper_scores() -> dict[tuple[str, str], tuple[float, float | None]]:
    """(scheme, column) -> mean and deviation as fractions, from tables 1 and 2 of the paper."""
    tables = json.loads(resources.files("ape_cli").joinpath("paper_tables.json").read_text(encoding="utf-8"))
    return {
        (scheme, column): (mean / 100, None if std is None else std / 100)
        for table in (tables["table1"], tables["table2"])
        for scheme, cells in table["rows"].items()
        for column, (mean, std) in zip(table["columns"], cells, strict=True)
        if mean is not None
    }


def _column(line: dict[str, Any]) -> str:
    name = f"{line['task']}/{line['order']}" if line["order"] else str(line["task"])
    return f"{name} ({line['form']})" if line["form"] else name


def tables(found: pl.DataFrame) -> list[Table]:
    """Lines as tables: one for each preset and kind of structure, schemes down, tasks across."""
    made = []
    groups = found.partition_by("structure", "preset", maintain_order=True)
    for group in sorted(groups, key=lambda g: (g["structure"][0], g["preset"][0])):
        made.append(_table(group))
    return made


def _table(group: pl.DataFrame) -> Table:
    cells: dict[tuple[str, str], Cell] = {}
    order: dict[str, tuple[int, str]] = {}
    rows: dict[str, tuple[int, str]] = {}
    names = _column_names(group)
    against = "paper_mean" in group.columns
    for line in group.iter_rows(named=True):
        key = (line["task"], line["order"], line["trained_fingerprint"], line["fingerprint"])
        column, row = names[key], line["scheme"] + (f" ({line['variant']})" if line["variant"] else "")
        if (row, column) in cells:  # the same words for another configuration: a preset or a scheme has changed
            row += f" #{line['configuration']}"
        order[column] = (_rank(_COLUMNS, _column(line)), column)
        rows[row] = (_rank(_ROWS, line["scheme"]), row)
        paper = (line["paper_mean"], line["paper_std"]) if against and line["paper_mean"] is not None else None
        cells[row, column] = Cell(line["mean"], line["std"], line["seeds"], line["best"], paper)
    columns = sorted(order, key=order.__getitem__)
    first = group.row(0, named=True)
    kind = {"seq": "Sequence tasks", "tree(2)": "Tree tasks"}.get(first["structure"], f"Tasks on {first['structure']}")
    seeds = sorted({c.seeds for c in cells.values()})
    percent = first["metric"] not in _SMALLER_IS_BETTER
    unit = "%" if percent else "nats a token"
    what = f"{METRICS[first['metric']]} in {unit}, {first['decode']} decoding, {first['split']} split"
    notes = [
        f"Preset {first['preset']}; {what}; mean ± standard deviation over {_count(seeds)}.",
        "Underlined: within one standard deviation of the best in the column.",
    ]
    if against:
        size = "" if group["paper_size"].all() else " at its own size, which is not that of these runs"
        notes.append(f"In brackets: the paper's number, over 3 seeds{size}.")
    body = [(row, [cells.get((row, column)) for column in columns]) for row in sorted(rows, key=rows.__getitem__)]
    return Table(f"{kind}, {METRICS[first['metric']]}", notes, columns, body, percent)


def _count(seeds: list[int]) -> str:
    if seeds == [1]:
        return "1 seed"
    return f"{seeds[0]} seeds" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds (×n where fewer)"


def _rank(known: list[str], name: str) -> int:
    return known.index(name) if name in known else len(known)


def _column_names(group: pl.DataFrame) -> dict[tuple[Any, ...], str]:
    """A name for each column; datasets are named only where the task alone does not tell them apart."""
    keys = ["task", "order", "trained_fingerprint", "fingerprint"]
    columns = group.unique(keys, maintain_order=True)
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
        names[tuple(line[k] for k in keys)] = name
    return names

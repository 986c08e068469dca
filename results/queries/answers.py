"""Test rows that are drawn again, and what counting and guessing reach on them."""

from __future__ import annotations

from collections import Counter
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np
import polars as pl

from ape_cli import tasks
from results import claims
from results.plans import RESULTS


@cache
def drawn(task: str, count: int = 1_000, **options: Any) -> list[dict[str, Any]]:
    """Test rows of a task. `tree-ops-part` is found in `results/ingredients`."""
    folder = str(RESULTS / "ingredients" / "ape_cli" / "tasks")
    usual, tasks.__path__ = tasks.__path__, [*tasks.__path__, folder]
    try:
        return tasks.make(task, **options).sample(rows=range(count), split="test", seed=42).to_pylist()
    finally:
        tasks.__path__ = usual


def single_nodes(*operators: str, count: int = 1_000, **options: Any) -> float:
    """The percentage of answers that are a single node, among the test rows of some operators of `tree-ops`."""
    rows = drawn("tree-ops", count, **options)
    lengths = [len(row["target_ids"]) for row in rows if not operators or row["op"] in operators]
    return 100 * lengths.count(1) / len(lengths)


def whole_trees() -> float:
    """The percentage of the rows of `extract` with inner pointers whose answer is the whole tree."""
    rows = drawn("tree-ops-part", operator="extract", pointer="inner", depth_mean=4)
    return 100 * fmean(len(row["source_ids"]) == len(row["target_ids"]) + 2 for row in rows)  # operator and pointer


def hard_extractions() -> float:
    """The percentage of the rows of `tree-ops` that extract more than one node."""
    return 100 * fmean(r["op"] == "extract" and len(r["target_ids"]) > 1 for r in drawn("tree-ops", depth_mean=4))


@cache
def most_frequent_modular() -> float:
    """How often the most frequent answer is right on longer expressions of `modular`."""
    rows = drawn("modular", 6_000, modulus=3, sizes=(claims.LARGEST, *claims.BEYOND))
    answers = Counter(tuple(row["target_ids"]) for row in rows if row["size"] > claims.LARGEST)
    return 100 * max(answers.values()) / answers.total()


def cut_paths() -> tuple[float, float]:
    """The percentages of the preprint's test trees that a `tree` of size 7 cuts, and that then have equal positions."""
    rows, equal = drawn("tree-copy", order="breadth"), 0
    for row in rows:
        kept = {(min(d, 7), p % 2 ** min(d, 7)) for p in row["source_positions"] for d in [p.bit_length() - 1]}
        equal += len(kept) < len(row["source_positions"])  # the last seven steps of two nodes are equal
    return 100 * fmean(row["size"] > 7 for row in rows), 100 * equal / len(rows)


def guessing(length_mean: float, length_std: float) -> float:
    """How often the most frequent of the remaining symbols of a word is the next one.

    A model without positions can do no better. Words are over an alphabet of 20 symbols. The end token is guessed when
    no symbol remains.
    """
    rng = np.random.default_rng(0)
    right = total = 0
    for length in np.rint(rng.normal(length_mean, length_std, 1_000)).astype(int):
        symbols = rng.integers(0, 20, length)
        left = np.bincount(symbols, minlength=20)
        for symbol in symbols:
            right += int(left.argmax() == symbol)
            left[symbol] -= 1
        right, total = right + 1, total + length + 1
    return 100 * right / total


@cache
def floor(sweep: str, column: str, metric: str = "exact_match", baseline: str = "") -> float:
    """What counting reaches on a dataset, from `floors.csv`; the best baseline, unless one is given."""
    lines = pl.read_csv(RESULTS / "floors.csv").filter(sweep=sweep, column=column)
    return 100 * float(lines.filter(baseline=baseline or pl.col("baseline"))[metric].max())


def floor_table() -> str:
    """The table of docs/explanation/tasks.md: what counting reaches in exact match."""
    lines = pl.read_csv(RESULTS / "floors.csv").filter(sweep="tasks")
    shown = ("most frequent answer", "previous answer", "repeated answer")
    table = [f"| task, preset `small` | {' | '.join(shown)} | best of those counted |", f"|---{'|---:' * 4}|"]
    for task in ("addition", "associative-recall", "flip-flop", "modular", "list-ops", "group-word"):
        column = min((column for column in set(lines["column"]) if column.startswith(task)), key=len)
        scores = dict(lines.filter(column=column).select("baseline", "exact_match").iter_rows())
        row = [scores.get(name) for name in shown] + [max(scores.values())]
        cells = ["—" if score is None else f"{100 * score:.1f}" for score in row]
        table.append(f"| `{task}` | {' | '.join(cells)} |")
    return "\n".join(table)

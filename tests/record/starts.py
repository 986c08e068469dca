"""Facts about the start of the operators, from the raw evaluations: near the identity, or as RoPE's rotations."""

from __future__ import annotations

import math
import statistics
from collections import Counter

from ape_cli.reports.stats import critical
from ape_cli.runs.registry import open_registry
from tests.record.scores import RUNS, evaluations

COLUMNS = [f"{task}/{order}" for task in ("tree-rotate", "c3", "tree-ops") for order in ("breadth", "breadth-to-depth")]
Row = tuple[str, str]


def interval(column: str, ours: Row, theirs: Row, preset: str = "small") -> tuple[float, float, float, int]:
    """Returns the mean difference of the cross-entropy, the ends of its interval, and the number of pairs."""
    found = evaluations()
    a, b = (found.get((preset, column, *row), {}) for row in (ours, theirs))
    nats = [[of[seed][0]["overall"]["cross_entropy"] for seed in sorted(a.keys() & b.keys())] for of in (a, b)]
    values = [x - y for x, y in zip(*nats, strict=True)]
    half = (
        critical(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    )
    mean = statistics.fmean(values)
    return mean, mean - half, mean + half, len(values)


def effects(ours: Row, theirs: Row) -> tuple[list[str], list[str]]:
    """Returns the columns in which the first row is better by the rule, and those in which it is worse."""
    found = {column: interval(column, ours, theirs) for column in COLUMNS}
    return [c for c, of in found.items() if of[2] < 0], [c for c, of in found.items() if of[1] > 0]


def ratio(column: str, ours: Row, theirs: Row) -> str:
    return f"{math.exp(interval(column, ours, theirs)[0]):.2f}"


def of_starts() -> dict[str, list[str]]:
    """Facts about starting from RoPE at preset small, by page."""
    rope, learned, seq, tree = ("rope", ""), ("rope", "learned=True"), ("orthogonal-seq", ""), ("orthogonal-tree", "")
    from_rope = {row: (row[0], "init=rope") for row in (seq, tree)}
    counts = {row: tuple(map(len, effects(from_rope[row], row))) for row in (seq, tree)}
    same, near, angles = (
        tuple(map(len, effects(*pair))) for pair in ((from_rope[seq], learned), (seq, rope), (learned, rope))
    )
    pairs = {interval(column, from_rope[row], row)[3] for column in COLUMNS for row in (seq, tree)}
    assert pairs == {6}
    worst = max(COLUMNS, key=lambda column: interval(column, from_rope[seq], seq)[0])
    assert worst == "tree-ops/breadth-to-depth"
    devices = Counter(
        (about.config.scheme, about.device) for _, about in open_registry(RUNS / "init.parquet").readable()
    )
    assert {key: n for key, n in devices.items() if key[1] != "cpu"} == {("rope", "cuda"): 9}
    most = max(math.exp(interval(column, from_rope[tree], tree)[0]) for column in COLUMNS)
    assert most < 1.05
    summary = (
        "of six columns (`small`, 6 seeds, perplexity), `orthogonal-tree` is better in {} and worse in {}, and "
        "`orthogonal-seq` is better in {} and worse in {}"
    )
    loss = f"{ratio(worst, from_rope[seq], seq)} times the perplexity on `{worst}`"
    return {
        "README": [summary.format(*counts[tree], *counts[seq]), loss],
        "init": [
            "`orthogonal-tree` is better from RoPE in {} of the six columns and worse in {}".format(*counts[tree]),
            "`orthogonal-seq` is better in {} and worse in {}".format(*counts[seq]),
            loss,
            "better than `rope (learned=true)` in {} columns and worse in {}".format(*same),
            "better than `rope` in {} columns and worse in {}".format(*near),
            "are better than fixed ones in {} columns and worse in {}".format(*angles),
            f"{37_600 // 800} times the steps",
            "nine of the runs of `rope (learned=true)` on a GPU",
        ],
    }

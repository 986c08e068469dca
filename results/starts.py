"""Does starting from RoPE help? Pairs of rows that differ in how their operators start, paired by seed (`init.toml`).

A pair is one seed that both rows have, with the same data in the same order. A cell is the mean difference, with its
95% interval by Student's paired t: points of token accuracy or exact match, or the ratio of the perplexities, for
which differences and intervals are those of the logarithm.

The rule was written before the runs were looked at: a start *helps* in a column if the interval of the perplexity's
ratio is below 1, *hurts* if it is above 1, and otherwise nothing is shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ape_cli.reports import published
from ape_cli.reports.descriptions import described, has_preset_data
from ape_cli.reports.evaluations import task_of
from ape_cli.runs.record import evaluation_name
from ape_cli.runs.registry import Registry
from results.worth import Worth

ORDERS = ("breadth", "breadth-to-depth")
# the trees are mirrored at `small`, and rotated to the right at `medium`, as in the published paper
COLUMNS = {
    "small": [f"{task}/{order}" for order in ORDERS for task in ("tree-rotate", "c3", "tree-ops")],
    "medium": [
        f"{task}/{order}{' (rotation right)' * (task == 'tree-rotate')}"
        for order in ORDERS
        for task in ("tree-rotate", "c3", "tree-ops")
    ],
}
SEQ, TREE, LEARNED = "orthogonal-seq", "orthogonal-tree", "rope (learned=true)"
PAIRS = {  # the row, and the row that it is compared with
    "`orthogonal-tree`: from RoPE, not near the identity": (f"{TREE} (init=rope)", TREE),
    "`orthogonal-seq`: from RoPE, not near the identity": (f"{SEQ} (init=rope)", SEQ),
    "`orthogonal-seq` from RoPE, not `rope (learned=true)`": (f"{SEQ} (init=rope)", LEARNED),
    "`orthogonal-seq` near the identity, not `rope`": (SEQ, "rope"),
    "`rope` with learned angles, not fixed ones": (LEARNED, "rope"),
    "`orthogonal-tree` from RoPE: own planes for each branch and head": (
        "orthogonal-tree-apart",
        f"{TREE} (init=rope)",
    ),
    "`orthogonal-tree` from RoPE: each frequency twice": ("orthogonal-tree-twice", f"{TREE} (init=rope)"),
}
METRICS = ("cross_entropy", "token_accuracy", "exact_match")

Scores = Mapping[tuple[str, str], Mapping[int, Mapping[str, float]]]  # by column and row, then by seed


def scores(registry: Registry, preset: str) -> Scores:
    """The test scores of the finished runs of a preset on its own data."""
    rows = {row for pair in PAIRS.values() for row in pair}
    by_row: dict[tuple[str, str], dict[int, Mapping[str, float]]] = {}
    for run, record, of, _ in described(registry):
        key = task_of(of), published.load("neurips").row(of["scheme"], of["variant"])
        if of["preset"] != preset or key[0] not in COLUMNS[preset] or key[1] not in rows:
            continue
        own = run.evaluation(evaluation_name(record.dataset.fingerprint, "test", "teacher"))
        if own is not None and record.status == "finished" and has_preset_data(preset, record.dataset):
            by_row.setdefault(key, {})[record.config.seed] = own["overall"]
    return by_row


def difference(column: str, pair: tuple[str, str], metric: str, scores: Scores) -> Worth | None:
    """The differences of a pair of rows in a column, over the seeds that both have; None if they share none."""
    a, b = (scores.get((column, row), {}) for row in pair)
    return Worth.of([a[seed][metric] - b[seed][metric] for seed in sorted(a.keys() & b.keys())])


def text(of: Worth, metric: str, maximum: int) -> str:
    """A cell. An interval without 0, or without 1 for a ratio, is in bold."""
    ends = [] if of.half is None else [of.mean - of.half, of.mean + of.half]
    if metric == "cross_entropy":
        mean, *shown = (f"×{math.exp(value):.3f}" for value in (of.mean, *ends))
    else:
        mean, *shown = (f"{round(100 * value, 2) + 0.0:+.2f}" for value in (of.mean, *ends))
    cell = f"{mean} ({shown[0]} to {shown[1]})" if shown else mean
    return (f"**{cell}**" if of.is_shown else cell) + f", n = {of.seeds}" * (of.seeds < maximum)


def parts(registry: Registry) -> dict[str, str]:
    """The tables of each preset and metric, by the names of their files."""
    made = {}
    for preset, columns in COLUMNS.items():
        of_preset = scores(registry, preset)
        for metric in METRICS:
            cells = {(name, c): difference(c, pair, metric, of_preset) for name, pair in PAIRS.items() for c in columns}
            maximum = max((cell.seeds for cell in cells.values() if cell), default=0)
            lines = [f"| difference | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
            for name in PAIRS:
                row = [cells[name, column] for column in columns]
                if any(row):
                    lines.append(f"| {name} | {' | '.join(text(c, metric, maximum) if c else '' for c in row)} |")
            if not maximum:
                continue
            named = "perplexity" if metric == "cross_entropy" else metric.replace("_", "-")
            made[f"init-{preset}-{named}.md"] = "\n".join(lines) + "\n"
    return made

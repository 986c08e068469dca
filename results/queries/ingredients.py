"""What the ingredients of the orthogonal schemes are worth, and their starts.

A row is a scheme and its settings, as `small(column, *row)` takes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean

from ape_cli.runs.record import settings_text
from results import worth
from results.numbers import ORDERS, TREE_TASKS, Preset, Scores, runs, small
from results.plans import registered


def gains(ours: tuple[str, str], theirs: tuple[str, str], columns: Iterable[str], metric: str = "") -> list[Scores]:
    """What the first row is ahead of the second in each column, by seed."""
    metric = metric or "token_accuracy"
    return [small(column, *ours, metric) - small(column, *theirs, metric) for column in columns]


INGREDIENT_TREES = ("tree-rotate/breadth", "c3/breadth-to-depth", "tree-ops/breadth-to-depth")
SEQ, TREE = ("orthogonal-seq", ""), ("orthogonal-tree", "")
COMMUTING, ONE_GENERATOR = ("orthogonal-tree-commuting", ""), ("orthogonal-tree-one-generator", "")
ROPE, SPREAD = ("rope", ""), ("rope-spread", "")
LEARNED_ROPE, LEARNED_SPREAD = ("rope", "learned=True"), ("rope-spread", "learned=True")
SEQ_FROM_ROPE, TREE_FROM_ROPE = ("orthogonal-seq", "init=rope"), ("orthogonal-tree", "init=rope")


def tuned(scheme: str, column: str) -> tuple[str, str]:
    """The row of a scheme with the learning rate of the best mean validation accuracy over six seeds."""
    by_settings: dict[str, list[float]] = {}
    for _, about in runs():
        config, data = about.config, about.dataset
        own = (config.preset, data.name, config.scheme) == ("small", f"{column.replace('/', '-')}-small", scheme)
        if own and set(about.variant) <= {"lr_peak"} and about.result:
            by_settings.setdefault(settings_text(about.variant), []).append(about.result.best_accuracy)
    assert {len(of) for of in by_settings.values()} == {6}
    assert len(by_settings) == 3
    return scheme, max(by_settings, key=lambda settings: fmean(by_settings[settings]))


def intervals() -> int:
    """The number of intervals in the table of the ingredients."""
    return len(worth.cells(worth.scores(registered("ingredients"))))


STARTS = [f"{task}/{order}" for task in TREE_TASKS[1:] for order in ORDERS[::2]]


def started(ours: tuple[str, str], theirs: tuple[str, str]) -> tuple[int, int]:
    """In how many columns of `init` the perplexity of the first row is clearly better than the second's, and worse."""
    gaps = [small.nats(column, *ours) - small.nats(column, *theirs) for column in STARTS]
    clear = [of.mean > 0 for of in gaps if of.is_clear]
    return clear.count(False), clear.count(True)


def ratio(column: str, ours: tuple[str, str], theirs: tuple[str, str], at: Preset = small) -> float:
    """The perplexity of the first row divided by that of the second: the geometric mean over seeds."""
    return math.exp((at.nats(column, *ours) - at.nats(column, *theirs)).mean)


def learned_on_gpus() -> int:
    """The number of runs of `init` with learned RoPE that were trained on a GPU."""
    datasets = {f"{column.replace('/', '-')}-small" for column in STARTS}
    own = [about for _, about in runs() if about.config.scheme == "rope" and set(about.variant) == {"learned"}]
    return sum(about.device == "cuda" and about.dataset.name in datasets for about in own)

"""Scores of the committed runs, as the facts about them need them."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ape_cli.reports import published
from ape_cli.runs.record import settings_text
from ape_cli.runs.registry import open_registry

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
RUNS = RESULTS / "record"
PAGES = {  # the text of each page of results
    path.stem: path.read_text(encoding="utf-8")
    for path in [RESULTS / "README.md", *sorted((ROOT / "docs" / "results").glob("*.md"))]
}
NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?!\w|\.\d)")
SCHEMES = ("sinusoidal", "tree", "rope", "orthogonal-seq", "orthogonal-tree")  # of trees
Key = tuple[str, str, str, str]  # preset, column, scheme, variant (settings that differ)


def preprint(scheme: str, column: str) -> published.Number:
    """Returns the number of the preprint for a scheme in one of our columns."""
    number = published.load("paper").number(scheme, "", column, "token_accuracy")
    assert number is not None
    return number


@cache
def evaluations(where: Path = RUNS) -> dict[Key, dict[int, list[dict[str, Any]]]]:
    """Returns every teacher-forced evaluation on test rows, by key and seed. The run's own dataset comes first."""
    found: dict[Key, dict[int, list[dict[str, Any]]]] = {}
    for run, about in open_registry(where).readable():
        config, data = about.config, about.dataset
        column = f"{data.task}/{data.order}" if data.order else data.task
        if (
            data.task in ("trees", "group-word", "tree-ops-part")
            or "mirror" in data.parameters
            or "truncated" in data.name
        ):
            column = data.name  # one of several datasets of its task
        variant = settings_text(about.variant)
        mine = [e for e in run.evaluations()[0] if (e["split"], e["decode"]) == ("test", "teacher")]
        mine.sort(key=lambda e: e["fingerprint"] != data.fingerprint)
        found.setdefault((config.preset, column, config.scheme, variant), {})[config.seed] = mine
    return found


def scores(column: str, scheme: str, variant: str = "", preset: str = "small", metric: str = "token_accuracy") -> list:
    """Returns the scores on the run's own dataset in percent, in the order of the seeds."""
    by_seed = evaluations()[preset, column, scheme, variant]
    return [100 * by_seed[seed][0]["overall"][metric] for seed in sorted(by_seed)]


def mean(column: str, scheme: str, variant: str = "", preset: str = "small", metric: str = "token_accuracy") -> float:
    return statistics.mean(scores(column, scheme, variant, preset, metric))


def above(ours: Iterable[Iterable[float]], theirs: Iterable[Iterable[float]]) -> bool:
    """Whether the worst seed of each of the first schemes is above the best seed of all others."""
    return min(map(min, ours)) > max(map(max, theirs))


def guessing(length_mean: float, length_std: float) -> float:
    """Returns how often the most frequent of the remaining symbols is the next one.

    A model without positions can do no better. Words are over an alphabet of 20 symbols. The end token is guessed when
    no symbol remains.
    """
    rng = np.random.default_rng(0)
    right = total = 0
    for length in np.rint(rng.normal(length_mean, length_std, 1_000)).astype(int):
        word = rng.integers(0, 20, length)
        left = np.bincount(word, minlength=20)
        for symbol in word:
            right += int(left.argmax() == symbol)
            left[symbol] -= 1
        right, total = right + 1, total + length + 1
    return right / total


def other_processors() -> list[str]:
    """Returns the facts about runs that were trained on two CPUs (small), or on a CPU and a GPU (medium)."""
    metrics = ("token_accuracy", "exact_match")
    found: dict[str, list[list[list[float]]]] = {}  # for each preset, and each run: the two metrics, on both machines
    for key, seeds in evaluations(RESULTS / "processors/runs.parquet").items():
        for seed, again in seeds.items():
            pair = evaluations()[key][seed][0], again[0]
            found.setdefault(key[0], []).append([[100 * own["overall"][m] for m in metrics] for own in pair])
    ((first, second),) = found["small"]
    gaps = [[abs(x - y) for x, y in zip(*pair, strict=True)] for pair in found["medium"]]
    tokens, exact = (
        f"{min(of):.{digits}f} to {max(of):.{digits}f}"
        for of, digits in zip(zip(*gaps, strict=True), (2, 1), strict=True)
    )
    count = {6: "Six"}[len(gaps)]
    return [
        "an older one, scored {:.2f} token accuracy and {:.1f} exact match".format(*first),
        "on an AMD processor, scored {:.2f} token accuracy and {:.1f} exact match".format(*second),
        f"{count} runs of preset `medium` were trained on both",
        f"differ by {tokens} points, and in exact match by {exact}",
    ]


def best_by_epoch() -> tuple[float, float]:
    """Returns the least and the largest gap, in points, from the kept weights' test accuracy to the best epoch's."""
    lines = (RESULTS / "tables" / "digits-by-epoch.md").read_text(encoding="utf-8").split("### ")
    ends = [
        [float(NUMBER.findall(row.split("|")[3])[0]) for row in part.splitlines() if "±" in row and row[0] == "|"]
        for part in lines[2:]
    ]
    gaps = [best - chosen for chosen, best in zip(*ends, strict=True)]
    return min(gaps), max(gaps)

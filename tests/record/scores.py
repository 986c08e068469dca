"""Scores of the committed runs, as the facts about them need them."""

from __future__ import annotations

import re
import statistics
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ape_cli.runs.record import settings_of, settings_text
from ape_cli.runs.registry import open_registry

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?!\w|\.\d)")
SCHEMES = ("sinusoidal", "tree", "rope", "orthogonal-seq", "orthogonal-tree")  # of trees
Key = tuple[str, str, str, str]  # preset, column, scheme, variant (settings that differ)


@cache
def evaluations() -> dict[Key, dict[int, list[dict[str, Any]]]]:
    """Returns every teacher-forced evaluation on test rows, by key and seed. The run's own dataset comes first."""
    found: dict[Key, dict[int, list[dict[str, Any]]]] = {}
    for run, about in open_registry(RESULTS).sound([]):
        config, data = about["config"], about["dataset"]
        column = f"{data['task']}/{data['order']}" if data["order"] else data["task"]
        several = data["task"] in ("trees", "group-word") or "mirror" in data["parameters"]
        several = several or data["name"].endswith("-truncated")
        column = data["name"] if several else column
        variant = settings_text(settings_of(about))
        mine = [e for e in run.evaluations()[0] if (e["split"], e["decode"]) == ("test", "teacher")]
        mine.sort(key=lambda e: e["fingerprint"] != data["fingerprint"])
        found.setdefault((config["preset"], column, config["scheme"], variant), {})[config["seed"]] = mine
    return found


def scores(column: str, scheme: str, variant: str = "", preset: str = "small", metric: str = "token_accuracy") -> list:
    """Returns the scores on the run's own dataset in percent, in the order of the seeds."""
    by_seed = evaluations()[preset, column, scheme, variant]
    return [100 * by_seed[seed][0]["overall"][metric] for seed in sorted(by_seed)]


def mean(column: str, scheme: str, variant: str = "", preset: str = "small", metric: str = "token_accuracy") -> float:
    return statistics.mean(scores(column, scheme, variant, preset, metric))


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
    """Returns the facts about runs that were trained on two CPUs, or on a CPU and a GPU."""
    told, gaps = [], {"token_accuracy": [], "exact_match": []}
    for again in open_registry(RESULTS / "processors"):
        ours = open_registry(RESULTS).find(again.name)
        both = []
        for run in (ours, again):
            (found,) = (
                e["overall"]
                for e in run.evaluations()[0]
                if (e["split"], e["decode"], e["fingerprint"])
                == ("test", "teacher", run.read()["dataset"]["fingerprint"])
            )
            both.append({metric: 100 * found[metric] for metric in gaps})
        if again.read()["device"] == "cpu":
            told += [
                f"{verb} {one['token_accuracy']:.2f} token accuracy and {one['exact_match']:.1f} exact match"
                for verb, one in zip(("has", "had"), both, strict=True)
            ]
        else:
            for metric, values in gaps.items():
                values.append(abs(both[0][metric] - both[1][metric]))
    count = {6: "Six"}[len(gaps["exact_match"])]
    return [
        *told,
        f"{count} runs of preset `medium` were trained on both",
        "differ by {:.2f} to {:.2f} points, and in exact match by {:.1f} to {:.1f}".format(
            *(f(values) for values in gaps.values() for f in (min, max))
        ),
    ]


def rows_by_size(column: str) -> dict[int, int]:
    """Returns the number of rows of each size in the older, wider test set."""
    (wider,) = (e for e in evaluations()["small", column, "rope", ""][42] if e["dataset"].endswith("-longer"))
    return {line["size"]: line["rows"] for line in wider["by_size"]}


def among(rows: dict[int, int], low: int, high: int) -> int:
    return sum(count for size, count in rows.items() if low <= size <= high)


def best_by_epoch() -> tuple[float, float]:
    """Returns the least and the largest gap, in points, from the kept weights' test accuracy to the best epoch's."""
    lines = (RESULTS / "tables" / "digits-by-epoch.md").read_text(encoding="utf-8").split("### ")
    ends = [
        [float(NUMBER.findall(row.split("|")[3])[0]) for row in part.splitlines() if "±" in row and row[0] == "|"]
        for part in lines[2:]
    ]
    gaps = [best - chosen for chosen, best in zip(*ends, strict=True)]
    return min(gaps), max(gaps)

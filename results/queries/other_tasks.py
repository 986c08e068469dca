"""Tasks of other papers, composite positions, natural trees and images."""

from __future__ import annotations

import itertools
import math
import re
from statistics import fmean

from ape_cli.core.vocabulary import FIRST_SYMBOL  # the id of `write`
from results.numbers import FLAT, Scores, evaluations, small
from results.plans import RESULTS
from results.queries.answers import drawn, floor

COMPOSITE = ("forest-reverse/depth", "forest-rotate/depth", "word-grid-rotate", "quadtree-expand")
GRIDS = ("box-rotate", "grid-path")
SEQUENCES = ("addition", "associative-recall", "flip-flop", "modular", "list-ops", "tree-convert")
GROUPS = ("group-word-symmetric-3", "group-word-cyclic-60", "group-word")  # the last one is alternating-5
LABELS = ("token", "anonymous")  # of natural trees


def composite_leads() -> list[float]:
    """The lead of `orthogonal` in exact match over the best other scheme, on each task with composite positions."""
    return [small.exact(c, "orthogonal").mean - small.best_other(c, "orthogonal") for c in COMPOSITE]


def first_on_sequences() -> list[str]:
    """The scheme with the best mean exact match on each task of sequences."""
    return [max(sorted(small.schemes(c)), key=lambda scheme: small.exact(c, scheme).mean) for c in SEQUENCES]


def quadtree(scheme: str, size: int) -> float:
    """The least exact match over seeds on the rows of a depth of `quadtree-expand`."""
    return min(small.by("size", size, "quadtree-expand", scheme).values())


def quadtree_rows(*sizes: int) -> int:
    """The number of test rows of some depths of `quadtree-expand`."""
    lines = small.evaluations("quadtree-expand", "rope")[42]["by_size"]
    return sum(line["rows"] for line in lines if not sizes or line["size"] in sizes)


def written(which: str) -> float:
    """How often the symbol that is written last in the source, or most often, answers a test row of `flip-flop`."""
    right = 0
    for row in drawn("flip-flop", length_mean=20, length_std=2):
        symbols = [second for first, second in itertools.pairwise(row["source_ids"]) if first == FIRST_SYMBOL]
        guess = symbols[-1] if which == "last" else max(sorted(set(symbols)), key=symbols.count)
        right += set(row["target_ids"]) == {guess}
    return 100 * right / 1_000


def most_frequent_of(pairs: int, values: int) -> float:
    """How often the most frequent of some values that are drawn uniformly is one of them, drawn uniformly."""
    draws = itertools.product(range(values), repeat=pairs)
    return 100 * fmean(max(map(draw.count, draw)) / pairs for draw in draws)


def natural(task: str, labels: str, scheme: str, settings: str = "") -> Scores:
    """The scores on functions of Python's standard library. Those with masked labels take 3,000 steps."""
    settings = settings or "steps=3000" * (task == "mask")
    return small(f"trees-stdlib-{task}-{labels}-depth", scheme, settings)


def other_natural(task: str, labels: str) -> list[Scores]:
    """The scores of the other schemes, with each size of `tree`."""
    rows = [natural(task, labels, scheme) for scheme in (*FLAT, "tree")]
    return rows + [natural(task, labels, "tree", "max_size=9") for _ in range(task != "mask")]


def best_natural(task: str, labels: str) -> float:
    return max(scores.mean for scores in other_natural(task, labels))


def counted_masks(baseline: str, labels: str) -> float:
    """What a table of counts reaches on masked labels."""
    return floor("trees", f"trees/depth (stdlib, mask, {labels} labels, binarised)", "token_accuracy", baseline)


def natural_leads() -> list[float]:
    """The leads on mirrored functions over the best other scheme, with each kind of labels."""
    return [natural("rotate", of, "orthogonal-tree").mean - best_natural("rotate", of) for of in LABELS]


def images_right(score: float) -> int:
    """The number of right test images, of 359."""
    return round(359 * score / 100)


def pixels(scheme: str, shuffled: bool = False) -> float:
    """The score of a run in which each pixel is a token, on the digits or with the pixels of each image shuffled."""
    ((_, (own, other)),) = (
        (key, seeds[42])
        for key, seeds in evaluations().items()
        if key[1:3] == ("images", scheme) and "pool_size=1" in key[3]
    )
    return 100 * float((other if shuffled else own)["overall"]["token_accuracy"])


def by_chance(right: int) -> float:
    """The p-value of a one-sided binomial test of so many right test images against one in ten."""
    return sum(math.comb(359, k) * 9 ** (359 - k) for k in range(right, 360)) / 10**359


def best_by_epoch() -> list[float]:
    """By how many points the best epoch's test accuracy is above that of the weights that validation chose."""
    text = (RESULTS / "tables" / "digits-by-epoch.md").read_text(encoding="utf-8")
    ends = [
        [
            float(re.findall(r"\d+\.\d+", row.split("|")[3])[0])
            for row in part.splitlines()
            if "±" in row and row[0] == "|"
        ]
        for part in text.split("### ")[2:]
    ]
    return [best - chosen for chosen, best in zip(*ends, strict=True)]

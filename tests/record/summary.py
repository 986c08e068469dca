"""Facts in the summary of results/README.md, each of which has a page of its own."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import get_args

from ape_cli.reports import published
from ape_cli.reports.views import verdicts
from ape_cli.runs.registry import open_registry
from tests.record.paper_tasks import FLAT, TASKS, gains, mirrored, range_of
from tests.record.scores import RESULTS, SCHEMES, evaluations, mean, preprint, scores

TF32 = "precision=tf32"
TREE = "orthogonal-tree"
COMPOSITE = ("forest-reverse/depth", "forest-rotate/depth", "word-grid-rotate", "quadtree-expand")


def theirs(scheme: str, column: str) -> float:
    return 100 * preprint(scheme, column).value


def exact(column: str, scheme: str, variant: str = "", preset: str = "small") -> float:
    return mean(column, scheme, variant, preset, "exact_match")


def best_beside(column: str, but: str, metric: str) -> float:
    """The best mean at preset small of all other schemes with their own settings."""
    others = {s for preset, of, s, variant in evaluations() if (preset, of, variant) == ("small", column, "")} - {but}
    return max(mean(column, scheme, metric=metric) for scheme in others)


def listed(values: list[float]) -> str:
    texts = [f"{value:.1f}" for value in values]
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def of_trees() -> list[str]:
    """Facts about the tasks of the paper on trees."""
    column, far = "tree-ops/breadth", "tree-ops/breadth-to-depth"
    medium = {s: scores(column, s, preset="medium", metric="exact_match") for s in SCHEMES}
    worst = min(min(medium[scheme]) for scheme in FLAT)
    assert {len(of) for of in medium.values()} == {3}
    assert [len(scores(column, s)) for s in ("rope", "orthogonal-tree", "tree")] == [6, 6, 6]
    tokens, whole = ({s: of(column, s) for s in SCHEMES} for of in (mean, exact))
    assert max(tokens, key=tokens.__getitem__) == "orthogonal-tree"
    assert max(whole, key=whole.__getitem__) == "rope"
    worth = {task: range_of(mirrored(task, scheme) for scheme in FLAT) for task in ("tree-copy", "tree-ops")}
    apart = max(abs(mirrored(task, scheme)) for task in TASKS for scheme in ("tree", "orthogonal-tree"))
    for task in TASKS:
        mixed = {s: scores(f"{task}/breadth-to-depth", s, preset="medium") for s in SCHEMES}
        assert min(*mixed["tree"], *mixed["orthogonal-tree"]) > max(max(mixed[s]) for s in FLAT)
    rotated, cut = "tree-rotate/breadth", f"max_size=7, {TF32}"
    own = {s: mean(rotated, s, TF32, "paper") for s in SCHEMES}
    spread = max(own.values()) - min(own.values())
    size = [exact(rotated, s, v, "paper") for s, v in (("orthogonal-tree", TF32), ("tree", TF32), ("tree", cut))]
    whole_own = [exact(rotated, s, TF32, "paper") for s in SCHEMES]
    ahead = mean(column, "tree", TF32, "paper") - mean(column, "orthogonal-tree", TF32, "paper")
    of_tree = scores(column, "tree", preset="medium")
    assert abs(ahead) < max(of_tree) - min(of_tree)
    risen = mean(far, "sinusoidal", preset="medium"), mean(far, "sinusoidal", TF32, "paper")
    deep = [scores("tree-ops/depth", s, preset="medium", metric="exact_match") for s in ("orthogonal-seq", TREE)]
    assert min(deep[0]) > max(deep[1])
    assert abs(whole["rope"] - whole["orthogonal-seq"]) < 1
    return [
        f"(its best seed scores {max(medium['orthogonal-tree']):.1f}, their worst {worst:.1f})",
        f"the same order is worth {worth['tree-copy']} points to flat schemes on `tree-copy`, and at most {apart:.1f}",
        f"is worth {worth['tree-copy']} points to flat schemes on `tree-copy` and {worth['tree-ops']} on `tree-ops`",
        f"change by at most {apart:.1f} points",
        *of_leads(),
        *of_the_published_depth(),
        f"five schemes are within {math.ceil(10 * spread) / 10:.1f} points on `{rotated}`",
        "at the preprint's size, `sinusoidal` rises from {:.2f} to {:.2f} on one of these tasks (one seed)".format(
            *risen
        ),
        "at the preprint's size it scores {:.2f} here (one seed; the preprint reports {:.2f})".format(
            own["sinusoidal"], theirs("sinusoidal", rotated)
        ),
        "first by token accuracy ({:.2f}; `rope` scores {:.2f}), and `rope` is first by exact match ({:.2f}; "
        "`orthogonal-tree` scores {:.2f})".format(
            tokens["orthogonal-tree"], tokens["rope"], whole["rope"], whole["orthogonal-tree"]
        ),
        "`orthogonal-tree` scores {:.1f}, `tree` {:.1f}, and `tree` with the mean depth as its size {:.1f}".format(
            *size
        ),
        f"though {min(whole_own):.1f} to {max(whole_own):.1f} in exact match",
        "the larger size closes {:.1f} of the {:.1f} points".format(*of_the_bound()),
        f"at `medium`, it is worth {range_of(mirrored('tree-copy', s, 'medium') for s in FLAT)}",
    ]


def of_the_bound() -> tuple[float, float]:
    """How much of the gap of a cut `tree` the larger size closes, and the gap: exact match with seed 42 at medium."""
    cells = [(TREE, ""), ("tree", ""), ("tree", "max_size=7")]
    best, own, cut = (scores("tree-rotate/breadth", *cell, "medium", "exact_match")[0] for cell in cells)
    return own - cut, best - cut


def of_leads() -> list[str]:
    """Facts about the lead of `orthogonal-tree` on trees that are written in another order than they are read."""
    over_flat, over_tree = [], []
    for task in TASKS:
        means = {s: mean(f"{task}/breadth-to-depth", s, preset="medium") for s in SCHEMES}
        over_flat.append(means["orthogonal-tree"] - max(means[s] for s in FLAT))
        over_tree.append(means["orthogonal-tree"] - means["tree"])
    low, high = min(over_tree), max(over_tree)
    return [
        f"leads the best flat scheme by {range_of(over_flat)} points, and `tree` by only {low:.1f} to {high:.1f}",
    ]


def perplexity(column: str, scheme: str) -> float:
    """The mean perplexity over three seeds at preset medium."""
    found = evaluations()["medium", column, scheme, ""].values()
    assert len(found) == 3
    return statistics.fmean(math.exp(each[0]["overall"]["cross_entropy"]) for each in found)


def of_the_published_depth() -> list[str]:
    """The fact about the published `depth` columns, which fit sources that are written breadth first."""
    source, ratios = published.load("neurips"), dict[str, list[float]]()
    for order in ("breadth-to-depth", "depth"):
        for scheme, task in itertools.product(FLAT, ("tree-copy", "c3", "tree-ops")):
            number = source.number(scheme, "", f"{task}/breadth-to-depth", "perplexity")
            assert number is not None
            ratios.setdefault(order, []).append(perplexity(f"{task}/{order}", scheme) / number.value)
    mixed, same = (f"{min(of):.2f} to {max(of):.2f} times" for of in ratios.values())
    return [
        (
            f"the perplexities of the flat schemes on three tasks are {mixed} the published ones, and with source and "
            f"target in the same order {same}"
        )
    ]


def of_words() -> list[str]:
    """Facts about the tasks of the paper on words, and the locality bias."""
    plain = scores("reverse", "none")[:3]  # the seeds that also have runs with the bias
    biased = [sum(of) / 3 for of in (plain, scores("reverse", "none", "decay=0.98"))]
    columns = ("tree-rotate/depth", "c3/breadth", "tree-ops/breadth")
    apart = max(abs(sum(gains(column, "orthogonal-tree")) / 3) for column in columns)
    return [
        "with words of 100 symbols {:.2f} (3 seeds; the preprint reports {:.2f})".format(
            mean("copy", "sinusoidal", preset="medium"), theirs("sinusoidal", "copy")
        ),
        "it raises `none` from {:.2f} to {:.2f} on `reverse`".format(*biased),
        f"`orthogonal-tree` stays within {math.ceil(100 * apart) / 100:.2f} points of its means",
    ]


def _copied(scheme: str) -> float:
    """The score on copied functions, which is the same with both kinds of labels to two digits."""
    (score,) = {round(mean(f"trees-stdlib-copy-{labels}-depth", scheme), 2) for labels in ("token", "anonymous")}
    return score


def of_other_tasks() -> list[str]:
    """Facts about composite positions, natural trees and images."""
    own = [exact(column, "orthogonal") for column in COMPOSITE]
    others = [best_beside(column, "orthogonal", "exact_match") for column in COMPOSITE]
    assert {len(scores(column, "orthogonal")) for column in COMPOSITE} == {3}
    pair = [scores(COMPOSITE[1], s, metric="exact_match") for s in ("orthogonal", "orthogonal-seq")]
    gained = sorted(x - y for x, y in zip(*pair, strict=True))
    natural = [f"trees-stdlib-rotate-{labels}-depth" for labels in ("token", "anonymous")]
    trees = [mean(column, "orthogonal-tree") for column in natural]
    lead = [ours - other for ours, other in zip(own, others, strict=True)]
    beside = [x - best_beside(c, "orthogonal-tree", "token_accuracy") for x, c in zip(trees, natural, strict=True)]
    assert _copied("orthogonal-tree") < min(_copied(scheme) for scheme in FLAT[1:]), "no lead"
    (points,) = {f"{value:.0f}" for value in beside}
    return [
        f"`orthogonal-tree` also leads on mirrored Python functions, by {points} points, and",
        f"by {range_of(lead)} points of exact match",
        f"scores {listed(own)}, and the best of the other schemes {listed(others)}",
        f"the gain ranges from {gained[0]:.1f} to {gained[-1]:.1f} points over seeds",
        "`orthogonal-tree` scores {:.2f} with `token` labels and {:.2f} with `anonymous` ones".format(*trees),
        "the best of the other schemes scores {:.2f} and {:.2f}".format(
            *(best_beside(column, "orthogonal-tree", "token_accuracy") for column in natural)
        ),
        f"`none` scores {mean('images', 'none'):.2f}, and one test image is {100 / 359:.2f} points",
    ]


def of_the_verdicts() -> list[str]:
    """The number of each verdict."""
    registry, counts = open_registry(RESULTS), []
    for name in ("neurips", "paper"):
        cells = [c for c in verdicts.read(registry, published.load(name)) if c.number.metric != "bleu"]
        found = [c.follows for c in cells if name == "paper" or c.number.metric == "perplexity"]
        counts.append([len(found), *(found.count(word) for word in get_args(verdicts.Word))])
    (of, same, why, cause_open, none), preprint_counts = counts
    assert why == 0
    return [
        (
            f"Of the {of} perplexities in tables 2a and 2b of the published paper, {same} are reproduced, {cause_open} "
            f"differ for an open reason, and {none} were not run"
        ),
        "of the {} numbers in its preprint, {} are reproduced, {} differ for a likely reason, {} differ for an open "
        "one, and {} were not run.".format(*preprint_counts),
    ]


def of_the_summary() -> list[str]:
    """All facts of the summary that are not on another page word for word."""
    return [*of_trees(), *of_words(), *of_other_tasks(), *of_the_verdicts()]

"""The tables of the preprint: words, trees, the locality bias and the rotations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from statistics import fmean

from ape_cli.reports import published
from ape_cli.reports.views import verdicts
from results.numbers import (
    FLAT,
    ORDERS,
    SCHEMES,
    TREE_COLUMNS,
    TREE_TASKS,
    Preset,
    Scores,
    evaluations,
    medium,
    paper,
    preprint,
    runs,
    small,
    up,
)


def word_pairs() -> list[int]:
    """For each pair of schemes in a column of table 1: 0 if they are equal, 1 if all seeds agree, else 2."""
    answers = []
    for column in ("copy", "reverse", "repeat"):
        for first, second in itertools.combinations((*FLAT, "relative"), 2):
            signs = {(gap > 0) - (gap < 0) for gap in (small(column, first) - small(column, second)).values()}
            answers.append(0 if signs == {0} else 1 if signs in ({1}, {-1}) else 2)
    return answers


def relative_behind() -> float:
    """By how many points or more `relative` is below the others on `repeat`."""
    gap = min(small("repeat", scheme).mean for scheme in FLAT) - small("repeat", "relative").mean
    return math.floor(10 * gap) / 10


def gained_by_size(metric: str) -> list[float]:
    """What `tree` gains from the largest depth as its size, over the mean depth, in each column of table 2."""
    return [
        (small(column, "tree", "", metric).three - small(column, "tree", "max_size=4", metric)).mean
        for column in TREE_COLUMNS
    ]


def size_gains() -> list[float]:
    """The same at preset medium with seed 42, in the columns whose source is written breadth first."""
    columns = [f"{task}/{order}" for task in TREE_TASKS for order in ORDERS[::2]]
    return [medium(c, "tree").first - medium(c, "tree", "max_size=7").first for c in columns]


def cut_gap() -> tuple[float, float]:
    """How much of the gap of a cut `tree` the larger size closes, and the gap: exact match with seed 42 at medium."""
    rows = [("orthogonal-tree", ""), ("tree", ""), ("tree", "max_size=7")]
    best, own, cut = (medium.exact("tree-rotate/breadth", *row).first for row in rows)
    return own - cut, best - cut


def best_columns() -> list[str]:
    """The scheme with the best mean in each column of table 2."""
    return [max(SCHEMES, key=lambda scheme: small(column, scheme).mean) for column in TREE_COLUMNS]


def lost(order: str) -> list[float]:
    """By how many points two flat schemes are below `breadth` in another order, on two tasks."""
    cells = itertools.product(("tree-rotate", "tree-ops"), FLAT[1:])
    return [small(f"{task}/breadth", s).mean - small(f"{task}/{order}", s).mean for task, s in cells]


def by_operator(operator: str, metric: str = "token_accuracy") -> dict[tuple[str, str], float]:
    """The mean score on an operator of `tree-ops`, for each order and scheme."""
    cells = itertools.product(ORDERS, SCHEMES)
    return {(o, s): small.by("op", operator, f"tree-ops/{o}", s, metric=metric).mean for o, s in cells}


def exact_above_tokens() -> int:
    """In how many cells of the two extracting operators exact match is higher than token accuracy."""
    return sum(
        by_operator(operator, "exact_match")[cell] > score
        for operator in ("extract", "flip-extract")
        for cell, score in by_operator(operator).items()
    )


def flat_behind(task: str) -> int:
    """By how many points or more flat schemes are below `orthogonal-tree` with another order of source and target."""
    column = f"{task}/breadth-to-depth"
    return math.floor(medium(column, "orthogonal-tree").mean - max(medium(column, s).mean for s in FLAT))


def leads_over_flat() -> list[float]:
    """The lead of `orthogonal-tree` over the best flat scheme in each task, with another order of source and target."""
    columns = [f"{task}/breadth-to-depth" for task in TREE_TASKS]
    return [medium(c, "orthogonal-tree").mean - max(medium(c, s).mean for s in FLAT) for c in columns]


def leads_over_tree() -> list[float]:
    """The same over `tree`."""
    columns = [f"{task}/breadth-to-depth" for task in TREE_TASKS]
    return [medium(c, "orthogonal-tree").mean - medium(c, "tree").mean for c in columns]


ROTATIONS = {"mirror": "tree-rotate/{}", "root": "tree-rotate-{}-root", "search-tree": "tree-rotate-{}-search-tree"}


def below_preprint(form: str, order: str, scheme: str) -> float:
    """By how many points a form of `tree-rotate` is below the preprint, with seed 42."""
    return preprint(f"tree-rotate/{order}", scheme) - medium(ROTATIONS[form].format(order), scheme).first


def beyond_two_deviations(form: str, order: str, scheme: str) -> float:
    """By how many points it is more than two standard deviations away from the preprint; at most 0 if it is not."""
    spread = published.load("paper").number(scheme, "", f"tree-rotate/{order}", "token_accuracy").spread or 0
    return abs(below_preprint(form, order, scheme)) - 200 * spread


def near(form: str, order: str) -> list[str]:
    """The schemes, without `sinusoidal`, that are within two standard deviations of the preprint."""
    return [s for s in SCHEMES[1:] if beyond_two_deviations(form, order, s) <= 0]


def same_order(task: str, scheme: str, preset: Preset = small) -> Scores:
    """What the same order of source and target is worth: `depth` minus `breadth-to-depth`."""
    return preset(f"{task}/depth", scheme) - preset(f"{task}/breadth-to-depth", scheme)


def bias(column: str, scheme: str) -> Scores:
    """What the locality bias is worth, for the seeds 42 to 44."""
    own = small(column, scheme).three
    if scheme.startswith("orthogonal"):
        return own - small(column, scheme, "decay=1")
    return small(column, scheme, "decay=0.98") - own


BIASED_TREES = ("tree-rotate/depth", "c3/breadth", "tree-ops/breadth")
BIASED = [
    *((column, scheme) for column in ("reverse", "repeat") for scheme in (*FLAT, "relative")),
    *((column, scheme) for column in BIASED_TREES for scheme in SCHEMES),
]  # the cells of the schemes that have other positions


def agreeing() -> list[tuple[str, str]]:
    """The cells in which the locality bias changes all seeds in the same direction."""
    return [cell for cell in BIASED if len({gain > 0 for gain in bias(*cell).values()}) == 1]


def at_epoch(epoch: int) -> float:
    """The validation accuracy of `sinusoidal` on `tree-rotate/breadth` at the preprint's size after some epochs."""
    key = ("paper", "sinusoidal", 42, "tree-rotate", "breadth")
    (run,) = (
        run
        for run, about in runs()
        for config, data in [(about.config, about.dataset)]
        if (config.preset, config.scheme, config.seed, data.task, data.order) == key
    )
    return 100 * float(run.history().filter(step=157 * epoch)["validation_token_accuracy"].item())


def paper_spread() -> float:
    """A bound on how far the schemes are apart on `tree-rotate/breadth` at the preprint's size."""
    means = [paper("tree-rotate/breadth", scheme).mean for scheme in SCHEMES]
    return up(max(means) - min(means), 1)


def by_depth_7(scheme: str, settings: str = "", *, beyond: bool) -> float:
    """Token accuracy at the preprint's size on test trees of `tree-rotate/breadth` of depth 7 or less, or beyond it."""
    lines = paper.evaluations("tree-rotate/breadth", scheme, settings)[42]["by_size"]
    chosen = [line for line in lines if (line["size"] > 7) == beyond]
    return (
        100 * sum(line["token_accuracy"] * line["tokens"] for line in chosen) / sum(line["tokens"] for line in chosen)
    )


def easy_tokens() -> float:
    """The percentage of the target tokens of `tree-ops` whose answer is the tree or nearly the tree."""
    lines = small.evaluations("tree-ops/breadth", "rope")[42]["by_op"]
    return 100 * sum(o["tokens"] for o in lines if o["op"] in ("truncate", "no-op")) / sum(o["tokens"] for o in lines)


def perplexity_ratios(order: str) -> list[float]:
    """Our perplexities of flat schemes on three tasks, counted alike, divided by the published `depth` columns."""
    source, ratios = published.load("neurips"), []
    for scheme in FLAT:
        for task in ("tree-copy", "c3", "tree-ops"):
            number = source.number(scheme, "", f"{task}/breadth-to-depth", "perplexity")
            assert number is not None
            seeds = evaluations()["medium", f"{task}/{order}", scheme, ""].values()
            assert len(seeds) == 3
            ratios.append(fmean(verdicts.score(of[0]["overall"], number, source) for of in seeds) / number.value)
    return ratios


def at_depth_6(scheme: str) -> float:
    """The token accuracy at depth 6 in the first picture of the README."""
    return small.by("size", 6, "tree-rotate/breadth-to-depth", scheme, metric="token_accuracy").mean


def evidence(
    columns: Iterable[str],
    *own: str,
    others: Iterable[str] = (),
    preset: Preset = small,
    metric: str = "exact_match",
    last: str = "best of the others",
) -> str:
    """A table of the mean scores of some schemes, and of the best other scheme with its name. `last`: its column."""
    heads = ["task", *(f"`{scheme}`" for scheme in own), last]
    lines = [f"| {' | '.join(heads)} |", f"|---{'|---:' * (len(own) + 1)}|"]
    for column in columns:
        means = {s: preset(column, s, "", metric).mean for s in (*own, *(others or preset.schemes(column) - {*own}))}
        best = max(sorted(means.keys() - {*own}), key=means.__getitem__)
        cells = [*(f"{means[scheme]:.1f}" for scheme in own), f"{means[best]:.1f} (`{best}`)"]
        lines.append(f"| `{column}` | {' | '.join(cells)} |")
    return "\n".join(lines)

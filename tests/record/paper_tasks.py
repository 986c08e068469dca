"""DatasetInfo about the runs on the preprint's tasks: trees, the locality bias, medium and the preprint's size."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable

from ape_cli import tasks
from ape_cli.reports.stats import least_p
from ape_cli.runs.registry import open_registry
from tests.record.scores import RUNS, SCHEMES, evaluations, mean, preprint, scores

TASKS, ORDERS = ("tree-copy", "tree-rotate", "c3", "tree-ops"), ("breadth", "depth", "breadth-to-depth")
COLUMNS = [f"{task}/{order}" for task in TASKS for order in ORDERS]
FLAT = ("sinusoidal", "rope", "orthogonal-seq")


def of_bounds() -> list[str]:
    """Returns the facts about trees that are cut at the preprint's mean depth, 7."""
    rows = tasks.make("tree-copy", "breadth").sample(rows=range(1_000), split="test", seed=42)
    shared = 0
    for places in rows["source_positions"].to_pylist():
        kept = {(min(d, 7), place % 2 ** min(d, 7)) for place in places for d in [place.bit_length() - 1]}
        shared += len(kept) < len(places)  # the last seven steps of two nodes are equal
    cut = sum(depth > 7 for depth in rows["size"].to_pylist())
    return [
        f"`tree` cuts paths in {cut / 1_000:.0%} of the preprint's test trees, and gives",
        f"gives different nodes one position in {shared / 1_000:.0%} (`tree-copy`)",
    ]


def of_words() -> list[str]:
    """Returns the facts about pairs of schemes with positions in table 1."""
    same = equal = count = 0
    for column in ("copy", "reverse", "repeat"):
        for pair in itertools.combinations(("sinusoidal", "relative", "rope", "orthogonal-seq"), 2):
            one, other = (scores(column, scheme) for scheme in pair)
            signs = {(x > y) - (x < y) for x, y in zip(one, other, strict=True)}
            count, same, equal = count + 1, same + (signs in ({1}, {-1})), equal + (signs == {0})
    seeds = len(scores("copy", "rope"))
    words = {6: "six"}[seeds]
    means = {c: {s: mean(c, s) for s in ("sinusoidal", *FLAT[1:], "relative")} for c in ("copy", "reverse", "repeat")}
    low = means["repeat"].pop("relative")
    gap = min(means["repeat"].values()) - low
    assert max(max(of.values()) - min(of.values()) for of in means.values()) < 1
    rope, own = (mean("repeat", scheme) for scheme in ("rope", "orthogonal-seq"))
    return [
        f"`relative` is {math.floor(10 * gap) / 10:.1f} points or more below the others on `repeat`",
        f"Of {count} pairs of such schemes in a column, {equal} are equal. In {same} of the other {count - equal}, the",
        f"has the same sign with all {words} seeds (sign-flip test: p = {least_p(seeds):.3f} each)",
        f"`rope` is above `orthogonal-seq` on `repeat` ({rope:.2f} and {own:.2f})",
    ]


def mirrored(task: str, scheme: str, preset: str = "small") -> float:
    """Returns by how many points `depth` is above `breadth-to-depth`, over the seeds that both have."""
    whole, mixed = (evaluations()[preset, f"{task}/{order}", scheme, ""] for order in ORDERS[1:])
    own = [
        [100 * runs[seed][0]["overall"]["token_accuracy"] for seed in whole.keys() & mixed] for runs in (whole, mixed)
    ]
    return statistics.mean(own[0]) - statistics.mean(own[1])


def range_of(values: Iterable[float]) -> str:
    found = sorted(values)
    return f"{found[0]:.0f} to {found[-1]:.0f}"


def by_operator(op: str, metric: str = "token_accuracy") -> dict[tuple[str, str], float]:
    """Returns the mean score on an operator over seeds, in percent, for each order and scheme."""
    found = {}
    for order, scheme in itertools.product(ORDERS, SCHEMES):
        runs = evaluations()["small", f"tree-ops/{order}", scheme, ""].values()
        values = [next(o[metric] for o in own["by_op"] if o["op"] == op) for own, *_ in runs]
        found[order, scheme] = 100 * statistics.mean(values)
    return found


def gains(column: str, scheme: str) -> list[float]:
    """Returns by how many points the locality bias raises token accuracy, for each seed of the sweep."""
    own, other = (
        evaluations()["small", column, scheme, variant] for variant in ("", f"decay={1 if 'orth' in scheme else 0.98}")
    )
    sign = 1 if "orth" in scheme else -1
    return [
        sign * 100 * (own[seed][0]["overall"]["token_accuracy"] - other[seed][0]["overall"]["token_accuracy"])
        for seed in (42, 43, 44)
    ]


def of_the_bias() -> list[str]:
    """Returns the facts about the locality bias on trees."""
    columns, scheme = ("tree-rotate/depth", "c3/breadth", "tree-ops/breadth"), "orthogonal-tree"
    apart = max(abs(statistics.mean(gains(column, scheme))) for column in columns)
    for column in columns:
        assert min(mean(column, scheme), mean(column, scheme, "decay=1")) > max(
            mean(column, other, variant)
            for other in SCHEMES
            if other != scheme
            for variant in ("", "decay=1" if "orth" in other else "decay=0.98")
        )
    words = [(column, s) for column in ("reverse", "repeat") for s in ("sinusoidal", "relative", *FLAT[1:])]
    cells = words + [(column, s) for column in columns for s in SCHEMES]
    agree = {cell: statistics.mean(gains(*cell)) for cell in cells if abs(sum(g > 0 for g in gains(*cell)) - 1.5) > 1}
    changed = {
        scheme: "{:+.1f}, {:+.1f} and {:+.1f}".format(*gains("c3/breadth", scheme))
        for scheme in ("tree", "orthogonal-seq")
    }

    def change(scheme: str, *given: str) -> str:
        (verb,) = {"gains" if agree[column, scheme] > 0 else "loses" for column in given}
        sizes = [
            f"{abs(agree[column, scheme]):.2f}{' points' * (not n and verb == 'gains')} on"
            for n, column in enumerate(given)
        ]
        told = [f"{size} `{column}`" for size, column in zip(sizes, given, strict=True)]
        return f"`{scheme}` {verb} {', '.join(told[:-1])}{' and ' * (len(told) > 1)}{told[-1]}."

    phrases = [
        change("sinusoidal", "reverse", "c3/breadth", "tree-ops/breadth"),
        change("rope", "repeat"),
        change("tree", "tree-rotate/depth", "tree-ops/breadth"),
    ]
    assert len(agree) == 6, "each of them is named"
    of_relative, seeds = statistics.mean(gains("repeat", "relative")), gains("repeat", "relative")
    earlier = [scores("tree-rotate/depth", "tree", f"{decay}max_size=4")[:3] for decay in ("", "decay=0.98, ")]
    gained = [biased - plain for plain, biased in zip(*earlier, strict=True)]
    assert min(gained) > 0
    return [
        f"within {math.ceil(100 * apart) / 100:.2f} points of its means with it",
        f"In {len(agree)} of the {len(cells)} cells of the schemes that have other positions",
        *phrases,
        f"`relative` gains {of_relative:.2f} points on `repeat`, but not with each seed",
        "({:+.1f}, {:+.1f} and {:+.1f})".format(*seeds),
        f"`tree` gained {statistics.mean(gained):.2f} points on `tree-rotate/depth` with each seed",
        f"the three seeds of `tree` by {changed['tree']}",
        f"those of `orthogonal-seq` by {changed['orthogonal-seq']}",
        f"p-value of the exact sign-flip test is {2 / 2**3}",
    ]


def single_nodes() -> float:
    """Returns the share of single nodes among the subtrees that test rows extract."""
    table = tasks.make("tree-ops", depth_mean=4).sample(rows=range(1_000), split="test", seed=42).to_pylist()
    lengths = [len(row["target_ids"]) for row in table if row["op"] in ("extract", "flip-extract")]
    return lengths.count(1) / len(lengths)


def of_the_size_of_tree() -> list[str]:
    """Returns the facts about `tree` with the largest depth and with the mean depth, on all tasks of table 2."""

    def gained(metric: str) -> str:
        more = [
            statistics.mean(scores(column, "tree", metric=metric)[:3])
            - statistics.mean(scores(column, "tree", "max_size=4", metric=metric)[:3])
            for column in COLUMNS
        ]
        return f"{min(more):.1f} to {max(more):.1f} points more"

    for column in COLUMNS:
        for variant in ("", "max_size=4"):
            assert list(evaluations()["small", column, "tree", variant])[:3] == [42, 43, 44]
    return [f"it scores {gained('token_accuracy')} token accuracy", f"and {gained('exact_match')} exact match"]


def of_trees() -> list[str]:
    """Returns the facts about table 2."""
    best = [max(SCHEMES, key=lambda scheme: mean(column, scheme)) for column in COLUMNS]
    copies = {scheme: mean("tree-copy/breadth-to-depth", scheme) for scheme in FLAT}
    tree = max(abs(mirrored(task, scheme)) for task in TASKS for scheme in ("tree", "orthogonal-tree"))
    worth = {task: range_of(mirrored(task, scheme) for scheme in FLAT) for task in TASKS}
    pairs = [(task, scheme) for task in ("tree-rotate", "tree-ops") for scheme in FLAT[1:]]
    below = {o: [mean(f"{t}/breadth", s) - mean(f"{t}/{o}", s) for t, s in pairs] for o in ORDERS}
    extract, flip = by_operator("extract"), by_operator("flip-extract")
    whole = [by_operator(op, "exact_match") for op in ("extract", "flip-extract")]
    higher = sum(y[cell] > x[cell] for x, y in zip((extract, flip), whole, strict=True) for cell in x)
    return [
        *of_the_size_of_tree(),
        f"has the best mean in {best.count('orthogonal-tree')} of {len(COLUMNS)} columns",
        f"not: {copies['rope']:.2f} and {copies['orthogonal-seq']:.2f}",
        f"{range_of(below['breadth-to-depth'])} points below `breadth` in `breadth-to-depth`, and at most",
        f"at most {max(below['depth']):.1f} points below it in `depth`",
        f"worth {worth['tree-copy']} points to the flat schemes",
        f"{worth['tree-rotate']} on `tree-rotate`, {worth['c3']} on `c3` and {worth['tree-ops']} on `tree-ops`",
        f"differ by at most {tree:.1f} points",
        f"token accuracy is at most {max(extract.values()):.1f} for `extract` and {max(flip.values()):.1f}",
        f"higher than token accuracy in {higher} of these {2 * len(flip)} cells",
        f"because {single_nodes():.0%} of these answers are a single node",
    ]


def shuffled(scheme: str = "", variant: str = "") -> set[str]:
    """Returns the scores of image runs on shuffled pixels, for all runs or for one scheme and variant."""
    kinds = evaluations().items()
    runs = (
        own
        for (_, column, *kind), seeds in kinds
        for own in seeds.values()
        if column == "images"
        if scheme in ("", kind[0]) and variant in kind[1]
    )
    others = (e for own in runs for e in own if e["dataset"].endswith("-shuffled"))
    return {f"{100 * e['overall']['token_accuracy']:.2f}" for e in others}


def _at_depth(column: str, scheme: str, variant: str, beyond: bool) -> float:
    """Returns the token accuracy at the preprint's size on test trees of depth 7 or less, or beyond it, in percent."""
    (own, *_) = evaluations()["paper", column, scheme, variant][42]
    lines = [line for line in own["by_size"] if (line["size"] > 7) == beyond]
    return 100 * sum(line["token_accuracy"] * line["tokens"] for line in lines) / sum(line["tokens"] for line in lines)


def of_the_paper_s_size() -> list[str]:
    """Returns the facts about the runs at the preprint's size: their scores, and the first epochs of one of them."""
    column, tf32, cut = "tree-rotate/breadth", "precision=tf32", "max_size=7, precision=tf32"

    def each(column: str, metric: str) -> dict[str, float]:
        return {s: mean(column, s, tf32, "paper", metric) for s in SCHEMES}

    tokens, exact = each(column, "token_accuracy"), each(column, "exact_match")
    order = ["orthogonal-tree", "tree", "orthogonal-seq", "rope", "sinusoidal"]
    assert sorted(exact, key=exact.__getitem__, reverse=True) == order
    low, apart = min(tokens.values()), math.ceil(10 * (max(tokens.values()) - min(tokens.values()))) / 10
    theirs = {s: 100 * preprint(s, column).value for s in SCHEMES}
    assert all(tokens[s] > theirs[s] for s in SCHEMES)
    assert f"{_at_depth(column, 'tree', cut, beyond=False):.2f}" == "100.00"
    deep = [_at_depth(column, s, v, beyond=True) for s, v in (("tree", cut), ("rope", tf32), ("tree", tf32))]
    cut_exact = mean(column, "tree", cut, "paper", "exact_match")
    assert exact["orthogonal-tree"] - exact["tree"] < (exact["orthogonal-tree"] - cut_exact) / 2, "most of it"
    sums, whole = each("tree-ops/breadth", "token_accuracy"), each("tree-ops/breadth", "exact_match")
    behind = 100 * (preprint("orthogonal-tree", "tree-ops/breadth").value - preprint("tree", "tree-ops/breadth").value)
    ranked = ["rope", "orthogonal-seq", "sinusoidal", "orthogonal-tree", "tree"]
    assert sorted(whole, key=whole.__getitem__, reverse=True) == ranked
    far = "tree-ops/breadth-to-depth"
    wanted = ("paper", "sinusoidal", 42, "tree-rotate", "breadth")
    (run,) = (
        run
        for run, about in open_registry(RUNS).readable()
        if (
            *(getattr(about.config, k) for k in ("preset", "scheme", "seed")),
            *(getattr(about.dataset, k) for k in ("task", "order")),
        )
        == wanted
    )
    history = run.history()
    five, ten = (100 * history["validation_token_accuracy"][i] for i in (0, 1))
    assert history["step"].to_list()[:2] == [785, 1570]
    cells = [("c3/breadth", scheme) for scheme in ("orthogonal-seq", "sinusoidal")]
    here, medium = ([mean(*cell, *of) for cell in cells] for of in ((tf32, "paper"), ("", "medium")))
    whole_c3 = [mean(*cell, tf32, "paper", "exact_match") for cell in cells]
    return [
        "`orthogonal-seq` scores {:.2f} and `sinusoidal` {:.2f}, where they score {:.2f} and {:.2f} at preset".format(
            *here, *medium
        ),
        "In exact match they score {:.1f} and {:.1f}".format(*whole_c3),
        f"predict {low:.2f}% or more of the tokens correctly, within {apart:.1f} points",
        "{:.1f} for `orthogonal-tree`, {:.1f} for `tree`, {:.1f} for `orthogonal-seq`, {:.1f} for `rope` and "
        "{:.1f} for `sinusoidal`".format(*(exact[s] for s in order)),
        "Apart from `sinusoidal`, they score {:.1f} to {:.1f} points above the preprint".format(
            *(f(tokens[s] - theirs[s] for s in SCHEMES if s != "sinusoidal") for f in (min, max))
        ),
        f"it reaches {five:.1f} after 5 of the 200 epochs",
        f"and {ten:.1f} after 10.",
        f"an exact match of {cut_exact:.1f}",
        "it scores {:.2f}, `rope` {:.2f}, and `tree` with the largest depth {:.2f}".format(*deep),
        f"by {sums['tree'] - sums['orthogonal-tree']:.1f} points of token accuracy",
        (
            f"while the preprint has it {behind:.1f} points behind. In exact match it is "
            f"{whole['orthogonal-tree'] - whole['tree']:.1f} points behind"
        ),
        "{:.1f} for `rope`, {:.1f} for `orthogonal-seq` and {:.1f} for `sinusoidal`, {:.1f} for `orthogonal-tree` and "
        "{:.1f} for `tree`".format(*(whole[s] for s in ranked)),
        "`sinusoidal` scores {:.2f}, compared with {:.2f} at preset `medium`".format(
            mean(far, "sinusoidal", tf32, "paper"), mean(far, "sinusoidal", preset="medium")
        ),
    ]

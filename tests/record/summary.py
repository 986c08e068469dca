"""Facts in the summary of results/README.md, each of which has a page of its own."""

from __future__ import annotations

import math

from ape_cli.reports import paper
from tests.record.paper_tasks import FLAT, TASKS, gains, mirrored, range_of
from tests.record.scores import SCHEMES, evaluations, mean, scores

TF32 = "precision=tf32"
COMPOSITE = ("forest-reverse/depth", "forest-rotate/depth", "word-grid-rotate", "quadtree-expand")


def theirs(scheme: str, column: str) -> float:
    return 100 * paper.scores()[scheme, column][0]


def exact(column: str, scheme: str, variant: str = "", preset: str = "small") -> float:
    return mean(column, scheme, variant, preset, "exact_match")


def best_beside(column: str, but: str, metric: str) -> float:
    """The best mean at preset small of all rows but those of a scheme."""
    rows = [row for preset, of, *row in evaluations() if (preset, of) == ("small", column) and row[0] != but]
    return max(mean(column, *row, metric=metric) for row in rows)


def listed(values: list[float]) -> str:
    texts = [f"{value:.1f}" for value in values]
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def of_trees() -> list[str]:
    """Facts about the tasks of the paper on trees."""
    column, far = "tree-ops/breadth", "tree-ops/breadth-to-depth"
    medium = {s: scores(column, s, preset="medium", metric="exact_match") for s in SCHEMES}
    worst = min(min(medium[scheme]) for scheme in FLAT)
    assert {len(of) for of in medium.values()} == {3}
    assert [len(scores(column, s)) for s in ("rope", "orthogonal-tree", "tree")] == [6, 6, 3]
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
    above = [own[s] - theirs(s, rotated) for s in SCHEMES if s != "sinusoidal"]
    size = [exact(rotated, s, v, "paper") for s, v in (("orthogonal-tree", TF32), ("tree", TF32), ("tree", cut))]
    ahead = mean(column, "tree", TF32, "paper") - mean(column, "orthogonal-tree", TF32, "paper")
    return [
        f"(its best seed scores {max(medium['orthogonal-tree']):.1f}, their worst {worst:.1f})",
        f"is worth {worth['tree-copy']} points to them on `tree-copy` and {worth['tree-ops']} on `tree-ops`",
        f"change by at most {apart:.1f} points",
        "`sinusoidal` scores {:.2f} at `medium`, but {:.2f} at the paper's size".format(
            mean(far, "sinusoidal", preset="medium"), mean(far, "sinusoidal", TF32, "paper")
        ),
        "at the paper's size it scores {:.2f} (one seed; the paper reports {:.2f})".format(
            own["sinusoidal"], theirs("sinusoidal", rotated)
        ),
        "first by token accuracy ({:.2f}; `rope` scores {:.2f}), and `rope` is first by exact match ({:.2f}; "
        "`orthogonal-tree` scores {:.2f})".format(
            tokens["orthogonal-tree"], tokens["rope"], whole["rope"], whole["orthogonal-tree"]
        ),
        "`orthogonal-tree` scores {:.1f}, `tree` {:.1f}, and `tree` with the mean depth as its size {:.1f}".format(
            *size
        ),
        f"other than `sinusoidal` score {min(above):.1f} to {max(above):.1f} points more on `{rotated}`",
        "`tree` on `tree-ops` scores {:.2f} (`breadth`) and {:.2f} (`breadth-to-depth`) at `medium`; the paper reports "
        "{:.2f} and {:.2f}".format(
            *(mean(c, "tree", preset="medium") for c in (column, far)), *(theirs("tree", c) for c in (column, far))
        ),
        f"`tree` is {ahead:.1f} points ahead of `orthogonal-tree` on `{column}` (one seed)",
        f"in the paper it is {theirs('orthogonal-tree', column) - theirs('tree', column):.1f} points behind",
    ]


def of_words() -> list[str]:
    """Facts about the tasks of the paper on words, and the locality bias."""
    near = [("rope", c) for c in ("copy", "reverse", "repeat")] + [("orthogonal-seq", c) for c in ("copy", "reverse")]
    near += [("orthogonal-seq", "repeat"), ("relative", "copy"), ("relative", "repeat")]
    most = max(abs(mean(column, scheme, preset="medium") - theirs(scheme, column)) for scheme, column in near)
    plain = scores("reverse", "none")[:3]  # the seeds that also have runs with the bias
    biased = [sum(of) / 3 for of in (plain, scores("reverse", "none", "decay=0.98"))]
    columns = ("tree-rotate/depth", "c3/breadth", "tree-ops/breadth")
    apart = max(abs(sum(gains(column, "orthogonal-tree")) / 3) for column in columns)
    return [
        "with the paper's words {:.2f} (3 seeds; the paper reports {:.2f})".format(
            mean("copy", "sinusoidal", preset="medium"), theirs("sinusoidal", "copy")
        ),
        f"are within {math.ceil(10 * most) / 10:.1f} points of the paper in all three columns",
        "`relative` on `reverse` scores {:.2f} (`medium`); the paper reports {:.2f}".format(
            mean("reverse", "relative", preset="medium"), theirs("relative", "reverse")
        ),
        "it raises `none` from {:.2f} to {:.2f} on `reverse`".format(*biased),
        f"`orthogonal-tree` stays within {math.ceil(100 * apart) / 100:.2f} points of its means",
    ]


def of_other_tasks() -> list[str]:
    """Facts about composite positions, natural trees and images."""
    own = [exact(column, "orthogonal") for column in COMPOSITE]
    others = [best_beside(column, "orthogonal", "exact_match") for column in COMPOSITE]
    assert {len(scores(column, "orthogonal")) for column in COMPOSITE} == {3}
    pair = [scores(COMPOSITE[1], s, metric="exact_match") for s in ("orthogonal", "orthogonal-seq")]
    gained = sorted(x - y for x, y in zip(*pair, strict=True))
    natural = [f"trees-stdlib-rotate-{labels}-depth" for labels in ("token", "anonymous")]
    trees = [mean(column, "orthogonal-tree") for column in natural]
    return [
        f"scores {listed(own)}, and the best of the other schemes {listed(others)}",
        f"the gain ranges from {gained[0]:.1f} to {gained[-1]:.1f} points over seeds",
        "`orthogonal-tree` scores {:.2f} with `token` labels and {:.2f} with `anonymous` ones".format(*trees),
        "the best of the other schemes scores {:.2f} and {:.2f}".format(
            *(best_beside(column, "orthogonal-tree", "token_accuracy") for column in natural)
        ),
        f"`none` scores {mean('images', 'none'):.2f}, and one test image is {100 / 359:.2f} points",
    ]


def of_the_summary() -> list[str]:
    """All facts of the summary that are not on another page word for word."""
    return [*of_trees(), *of_words(), *of_other_tasks()]

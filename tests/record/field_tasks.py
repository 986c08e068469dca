"""DatasetInfo about the runs on tasks of other papers, composite structures and natural trees."""

from __future__ import annotations

import itertools
import math
import statistics

import polars as pl

from ape_cli.runs.record import RunRecord
from ape_cli.runs.registry import open_registry
from tests.record.scores import RESULTS, RUNS, SCHEMES, evaluations, mean, scores

SEQUENCES = ["addition", "associative-recall", "flip-flop", "modular", "list-ops", "tree-convert"]
GROUPS = ["group-word-symmetric-3", "group-word-cyclic-60", "group-word-small"]  # the last one is alternating-5
FLOORS = pl.read_csv(RESULTS / "floors.csv")


def of_tasks() -> list[str]:
    """Returns the facts about tasks of other papers and composite structures."""
    schemes: dict[str, list[str]] = {}
    for preset, column, scheme, variant in evaluations():
        if preset == "small" and not variant:
            schemes.setdefault(column, []).append(scheme)

    def exact(column: str, scheme: str) -> float:
        return mean(column, scheme, metric="exact_match")

    def best(column: str, but: str = "") -> float:
        return max(exact(column, scheme) for scheme in schemes[column] if scheme != but)

    def listed(values: list[float]) -> str:
        texts = [f"{value:.1f}" for value in values]
        return f"{', '.join(texts[:-1])} and {texts[-1]}"

    composite = ["forest-reverse/depth", "forest-rotate/depth", "word-grid-rotate", "quadtree-expand"]
    trees, grids = ["tree-query/depth", "list-ops-tree/depth"], ["box-rotate", "grid-path"]
    first = [max(schemes[column], key=lambda scheme: exact(column, scheme)) for column in SEQUENCES]
    assert set(first) == {"orthogonal-seq", "rope"}
    words = ["no", "one", "two", "three", "four", "five", "six", "seven"]
    most, rest = (words[first.count(scheme)] for scheme in ("orthogonal-seq", "rope"))
    recall = [exact("associative-recall", scheme) for scheme in ("none", "sinusoidal", "t5")]
    recalled = scores("associative-recall", "orthogonal-seq", metric="exact_match")
    second = [found[0] for found in evaluations()["small", "quadtree-expand", "orthogonal", ""].values()]
    deeper = {size: [line for one in second for line in one["by_size"] if line["size"] == size] for size in (2, 3)}
    assert not any(line["exact_match"] for line in deeper[3])
    rising = [run for run, about in open_registry(RUNS).readable() if _is(about, "forest-rotate", "orthogonal-seq")]
    assert [run.read().outcome.best_step for run in rising] == [800] * 3
    by_size = evaluations()["small", "quadtree-expand", "rope", ""][42][0]["by_size"]
    shallow = sum(line["rows"] for line in by_size if line["size"] <= 1) / sum(line["rows"] for line in by_size)
    flat = [
        found[0]["by_size"]
        for scheme in ("sinusoidal", "rope", "orthogonal-seq")
        for found in evaluations()["small", "quadtree-expand", scheme, ""].values()
    ]
    assert not any(line["exact_match"] for lines in flat for line in lines if line["size"] > 1)
    learned = min(line["exact_match"] for lines in flat for line in lines if line["size"] <= 1)
    gaps = [exact(column, "orthogonal") - best(column, "orthogonal") for column in composite]
    assert min(gaps) == gaps[1]
    rotated = {s: scores(composite[1], s, metric="exact_match") for s in ("orthogonal", "orthogonal-seq")}
    each = [own - other for own, other in zip(*rotated.values(), strict=True)]
    for column in ("flip-flop", "list-ops"):
        mine, theirs = (scores(column, s, metric="exact_match") for s in ("orthogonal-seq", "rope"))
        assert min(mine) > max(theirs), "ahead with each seed"
    return [
        f"It scores {listed([exact(column, 'orthogonal') for column in composite])} on",
        f"The best of the other schemes scores {listed([best(column, 'orthogonal') for column in composite])}. These",
        f"by {gaps[1]:.2f} points on average on `forest-rotate`",
        "({:.1f}, {:.1f} and {:.1f} with the three seeds)".format(*each),
        f"and by {math.floor(min(gaps[:1] + gaps[2:]))} points or more on the others",
        f"learns {100 * min(line['exact_match'] for line in deeper[2]):.1f}% or more of the rows of depth 2",
        f"none of the {deeper[3][0]['rows']} rows of depth 3",
        f"{shallow:.0%} of the test rows have depth 0 or 1",
        f"at least {math.floor(100 * learned)}% of the rows of each of these depths",
        "`orthogonal-tree` scores {:.1f} on `tree-query`. The best of the other schemes scores {:.1f}.".format(
            exact(trees[0], "orthogonal-tree"), best(trees[0], "orthogonal-tree")
        ),
        "`orthogonal-grid` scores {:.1f} on `box-rotate` and {:.1f} on `grid-path`. The best of the other schemes "
        "scores {:.1f} and {:.1f}.".format(
            *(exact(column, "orthogonal-grid") for column in grids), *(best(c, "orthogonal-grid") for c in grids)
        ),
        f"`orthogonal-seq` has the best mean in {most} of {words[len(first)]} columns, and `rope` in the other {rest}.",
        f"`orthogonal-seq` scores {listed(recalled)} with the seeds",
        "is right in {:.1f}% of the test rows".format(floor("associative-recall (queries 1)")),
        f"in {100 * most_frequent_of(4, 6):.1f}% on average",
        "`none`, `sinusoidal` and `t5` score about the same ({:.1f}, {:.1f} and {:.1f})".format(*recall),
        "is right in 68.9% of the test rows, and the one that is written most often in 59.8%",  # see test_flip_flop.py
        f"On `list-ops`, the best score is {best('list-ops'):.1f}, and on `list-ops-tree` {best(trees[1]):.1f}:",
        f"On `modular`, the best score is {best('modular'):.1f},",
        f"the most frequent answer scores {floor('modular (modulus 3)'):.1f}.",
        *of_groups(),
    ]


def of_groups() -> list[str]:
    """Returns the facts about words over groups."""
    schemes = ("none", "sinusoidal", "rope", "orthogonal-seq", "t5")
    whole = max(mean(column, scheme, metric="exact_match") for column in GROUPS for scheme in schemes)
    best = [max(mean(column, scheme) for scheme in schemes) for column in GROUPS]
    forms = ["group-word (group symmetric-3)", "group-word (group cyclic-60)", "group-word"]
    counted = [floor(form, "token_accuracy") for form in forms]
    return [
        f"no scheme gets more than {math.ceil(whole)}% of the words completely right",
        "the best scheme scores {:.1f} on S3, {:.1f} on Z60 and {:.1f} on A5".format(*best),
        "by the symbol alone scores {:.1f}, {:.1f} and {:.1f}".format(*counted),
    ]


def floor(column: str, metric: str = "exact_match") -> float:
    """Returns the best score of counting on a dataset of tasks.toml, in percent."""
    return 100 * FLOORS.filter(sweep="tasks", column=column)[metric].max()


def most_frequent_of(pairs: int, values: int) -> float:
    """Returns how often the most frequent of some values that are drawn uniformly is one of them, drawn uniformly."""
    draws = itertools.product(range(values), repeat=pairs)
    return statistics.mean(max(map(draw.count, draw)) / pairs for draw in draws)


def _is(about: RunRecord, task: str, scheme: str) -> bool:
    return (about.dataset.task, about.config.scheme, about.variant) == (task, scheme, {})


def of_natural_trees() -> list[str]:
    """Returns the facts about the functions of Python's standard library."""

    def by_seed(task: str, labels: str) -> dict[str, dict[int, float]]:
        """The token accuracy of each seed of each row: a scheme, or `tree` for the mean size."""
        variant = "steps=3000" if task == "mask" else ""
        rows = [(scheme, variant) for scheme in SCHEMES] + [("tree", "max_size=9")] * (task != "mask")
        runs = {row: evaluations()["small", f"trees-stdlib-{task}-{labels}-depth", *row] for row in rows}
        return {
            f"{scheme} {size}".strip(): {seed: 100 * own[0]["overall"]["token_accuracy"] for seed, own in found.items()}
            for (scheme, size), found in ((row, runs[row]) for row in rows)
            for size in [size.removeprefix("steps=3000")]
        }

    both = ("token", "anonymous")
    pairs = {}
    for task in ("rotate", "mask"):
        for labels in both:
            rivals = by_seed(task, labels)
            own = rivals.pop("orthogonal-tree")
            for seed, score in own.items():
                assert score > max(found[seed] for found in rivals.values() if seed in found), "ahead with each seed"
            means = (statistics.mean(found.values()) for found in rivals.values())
            pairs[task, labels] = statistics.mean(own.values()), max(means)
    copies = [
        {row: statistics.mean(found.values()) for row, found in by_seed("copy", labels).items()} for labels in both
    ]
    assert {f"{means[scheme]:.2f}" for means in copies for scheme in ("rope", "orthogonal-seq")} == {"100.00"}
    for task in ("copy", "rotate"):
        for labels in both:
            found = by_seed(task, labels)
            assert all(found["tree max_size=9"][seed] > score for seed, score in found["tree"].items())
    columns = [f"trees/depth (stdlib, mask, {labels} labels, binarised)" for labels in both]
    counted = {
        name: [100 * FLOORS.filter(column=c, baseline=baseline)["token_accuracy"].item() for c in columns]
        for name, baseline in (("family", "parent and children"), ("line", "symbols before and after"))
    }
    masked = [by_seed("mask", labels) for labels in both]
    below = {row for row, found in masked[0].items() if statistics.mean(found.values()) < counted["family"][0]}
    assert below == {"sinusoidal"}
    assert min(statistics.mean(found.values()) for found in masked[1].values()) > counted["family"][1]
    told = [
        "{:.2f} and {:.2f}; the best of the other schemes scores {:.2f} and {:.2f}".format(
            *(pairs[task, labels][n] for n in (0, 1) for labels in both)
        )
        for task in ("rotate", "mask")
    ]
    return [
        *told,
        "`orthogonal-tree` scores {:.2f} and {:.2f}".format(*(means["orthogonal-tree"] for means in copies)),
        "(parent, left child, right child) scores {:.2f} and {:.2f}".format(*counted["family"]),
        "by (previous, next token) {:.2f} and {:.2f}".format(*counted["line"]),
    ]

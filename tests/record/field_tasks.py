"""Facts about the runs on the standard tasks, the composite structures and natural trees."""

from __future__ import annotations

import math

import pyarrow as pa

from ape_cli import tasks
from tests.record.scores import SCHEMES, evaluations, mean, scores

SEQUENCES = ["addition", "associative-recall", "flip-flop", "group-word", "modular", "list-ops", "tree-convert"]


def of_tasks() -> list[str]:
    """Returns the facts about the standard tasks and the composite structures."""
    schemes: dict[str, list[str]] = {}
    for preset, column, scheme, _ in evaluations():
        if preset == "small":
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
    plain = {column: max(exact(column, "none"), exact(column, "sinusoidal")) for column in SEQUENCES}
    ahead = max(exact(column, "t5") - plain[column] for column in SEQUENCES if column != "group-word")
    words = ["no", "one", "two", "three", "four", "five", "six", "seven"]
    most, rest = (words[first.count(scheme)] for scheme in ("orthogonal-seq", "rope"))
    by_size = evaluations()["small", "quadtree-expand", "rope", ""][42][0]["by_size"]
    shallow = sum(line["rows"] for line in by_size if line["size"] <= 1) / sum(line["rows"] for line in by_size)
    flat = [
        found[0]["by_size"]
        for scheme in ("sinusoidal", "rope", "orthogonal-seq")
        for found in evaluations()["small", "quadtree-expand", scheme, ""].values()
    ]
    assert not any(line["exact_match"] for lines in flat for line in lines if line["size"] > 1)
    learned = min(line["exact_match"] for lines in flat for line in lines if line["size"] <= 1)
    answers = tasks.make("modular", **tasks.load("modular").preset_options["small"])
    names = [answers.id_names[row[0]] for row in _test_rows(answers)["target_ids"].to_pylist()]
    (seeds,) = {len(scores(column, scheme)) for column in SEQUENCES for scheme in schemes[column]}
    return [
        f"They have preset `small`. Each cell has {_seeds(seeds)}",
        f"It has {listed([exact(column, 'orthogonal') for column in composite])} on",
        f"The best of the other schemes has {listed([best(column, 'orthogonal') for column in composite])}. These",
        f"by {min(exact(c, 'orthogonal') - best(c, 'orthogonal') for c in composite):.0f} points or more",
        f"{shallow:.0%} of the test rows have depth 0 or 1",
        f"at least {math.floor(100 * learned)}% of the rows of each of these depths",
        "`orthogonal-tree` has {:.1f} on `tree-query` and {:.1f} on `list-ops-tree`. The best of the other schemes has "
        "{:.1f} and {:.1f}.".format(
            *(exact(column, "orthogonal-tree") for column in trees), *(best(c, "orthogonal-tree") for c in trees)
        ),
        "`orthogonal-grid` has {:.1f} on `box-rotate` and {:.1f} on `grid-path`. The best of the other schemes has "
        "{:.1f} and {:.1f}.".format(
            *(exact(column, "orthogonal-grid") for column in grids), *(best(c, "orthogonal-grid") for c in grids)
        ),
        f"`orthogonal-seq` has the best mean in {most} of seven columns, and `rope` in the other {rest}.",
        f"has {listed(scores('associative-recall', 'orthogonal-seq', metric='exact_match'))} with the seeds",
        f"learns `group-word` ({exact('group-word', 't5'):.1f})",
        f"at most {math.ceil(ahead)} points above the better of `none` and `sinusoidal`",
        f"On `list-ops`, the best score is {best('list-ops'):.1f}:",
        f"On `modular`, the best score is {best('modular'):.1f}, and `none` has {exact('modular', 'none'):.1f}.",
        f"is 0 in {names.count('0') / len(names):.1%} of the test rows",
    ]


def of_natural_trees() -> list[str]:
    """Returns the facts about the functions of Python's standard library."""

    def scored(task: str, labels: str) -> dict[str, float]:
        return {scheme: mean(f"trees-stdlib-{task}-{labels}-depth", scheme) for scheme in SCHEMES}

    found = {}
    for task in ("rotate", "mask"):
        for labels in ("token", "anonymous"):
            by_scheme = scored(task, labels)
            own = by_scheme.pop("orthogonal-tree")
            assert own > max(by_scheme.values())
            column = f"trees-stdlib-{task}-{labels}-depth"
            others = zip(*(scores(column, scheme) for scheme in by_scheme), strict=True)
            pairs = zip(scores(column, "orthogonal-tree"), others, strict=True)
            assert all(mine > max(rest) for mine, rest in pairs), "ahead with each seed"
            found[task, labels] = own, max(by_scheme.values())
    copies = [scored("copy", labels) for labels in ("token", "anonymous")]
    assert {f"{scores[scheme]:.2f}" for scores in copies for scheme in ("rope", "orthogonal-seq")} == {"100.00"}
    assert all(min(scores, key=scores.__getitem__) == "tree" for scores in copies)
    told = [
        "{:.2f} and {:.2f}; the best of the other schemes has {:.2f} and {:.2f}".format(
            found[task, "token"][0], found[task, "anonymous"][0], found[task, "token"][1], found[task, "anonymous"][1]
        )
        for task in ("rotate", "mask")
    ]
    (seeds,) = {
        len(scores(f"trees-stdlib-{task}-token-depth", s)) for task in ("copy", "rotate", "mask") for s in SCHEMES
    }
    whole = mean("trees-stdlib-mask-anonymous-depth", "orthogonal-tree", metric="exact_match")
    return [
        f"`results/trees.sh` makes the datasets. Each cell has {_seeds(seeds)}.",
        *told,
        "`orthogonal-tree` has {:.2f} and {:.2f}, and `tree` has {:.2f} and {:.2f}".format(
            *(scores[scheme] for scheme in ("orthogonal-tree", "tree") for scores in copies)
        ),
        f"no scheme has more than {math.ceil(max(whole, *_exact('mask', 'anonymous')))}% of the targets",
    ]


def _seeds(count: int) -> str:
    return ["", "one seed so far", "two seeds so far", "three seeds"][count]


def _exact(task: str, labels: str) -> list[float]:
    """Returns the exact match of all schemes on functions of the standard library."""
    return [mean(f"trees-stdlib-{task}-{labels}-depth", scheme, metric="exact_match") for scheme in SCHEMES]


def _test_rows(task: tasks.Task) -> pa.Table:
    return task.sample(rows=range(1_000), split="test", seed=42)

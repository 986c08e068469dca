"""Facts about runs of tables 1 and 2 that were trained again, and their scores at larger sizes."""

from __future__ import annotations

from functools import cache
from statistics import fmean

from ape_cli import tasks
from ape_cli.runs.registry import open_registry
from tests.record.paper_tasks import FLAT, ORDERS, TASKS
from tests.record.scores import RESULTS, RUNS, SCHEMES, above, evaluations

AGAIN = RESULTS / "generalise/runs.parquet"
SEEDS = 3
UNSEEN = (9, 10)  # depths above those of training; 6 to 8 are rare in training
COUNTED = ["step", "loss", "validation_loss"]  # of a run's history


@cache
def by_size(column: str, scheme: str, metric: str = "exact_match") -> dict[int, list[float]]:
    """The scores on 1,000 rows of each larger size, in percent: one for each seed, by size."""
    found: dict[int, list[float]] = {}
    for _, larger in evaluations(AGAIN)["small", column, scheme, ""].values():
        for line in larger["by_size"]:
            assert line["rows"] == 1_000
            found.setdefault(line["size"], []).append(100 * line[metric])
    assert {len(of) for of in found.values()} == {SEEDS}
    return found


def at(column: str, scheme: str, size: int, metric: str = "exact_match") -> float:
    return fmean(by_size(column, scheme, metric)[size])


def deeper(column: str, scheme: str) -> list[float]:
    """Exact match on the unseen depths in percent, for each seed."""
    return [fmean(of) for of in zip(*(by_size(column, scheme)[depth] for depth in UNSEEN), strict=True)]


def trained_again() -> list[str]:
    """Which runs repeat the recorded losses, and how far the scores of the others are apart."""
    recorded = {about.run: (run, about) for run, about in open_registry(RUNS).readable()}
    same, apart = 0, []
    for run, about in open_registry(AGAIN).readable():
        before, about_before = recorded[about.run]
        repeats = run.history()[COUNTED].equals(before.history()[COUNTED])
        assert repeats == ("AMD" not in (about_before.processor or {}).get("name", "")), about.run
        scores = [
            100 * e["overall"]["token_accuracy"]
            for one in (run, before)
            for e in one.evaluations()[0]
            if (e["fingerprint"], e["split"]) == (about.dataset.fingerprint, "test")
        ]
        assert len(scores) == 2
        same += repeats
        if not repeats:
            apart.append(abs(scores[0] - scores[1]))
    return [
        f"{same} of the {same + len(apart)} runs repeat the recorded losses exactly",
        f"The other {len(apart)} were recorded on an AMD processor",
        f"differs by {fmean(apart):.2f} points of token accuracy from the recorded one on average",
        f"and by at most {max(apart):.1f}",
    ]


def of_words() -> list[str]:
    """What is said of longer words."""
    positions = ("sinusoidal", "relative", "rope", "orthogonal-seq")
    for scheme in ("relative", "orthogonal-seq"):
        assert {score for of in by_size("copy", scheme).values() for score in of} == {100}
    assert not any(score for of in by_size("copy", "sinusoidal").values() for score in of)
    right = {
        (column, scheme, size)
        for column in ("reverse", "repeat")
        for scheme in ("none", *positions)
        for size, of in by_size(column, scheme).items()
        if any(of)
    }
    assert right == {("repeat", "rope", 30), ("reverse", "relative", 30)}
    assert [round(10 * score) for score in by_size("reverse", "relative")[30]] == [0, 0, 1], "words of 1,000"
    copied = [at("copy", "rope", size) for size in (50, 80)]
    tokens = [at("reverse", "rope", size, "token_accuracy") for size in (30, 40, 60)]
    return [
        "`rope` copies {:.1f}% of those of 50 symbols and {:.1f}% of those of 80".format(*copied),
        f"`rope` repeats {at('repeat', 'rope', 30):.1f}% of the words of 30 symbols",
        "falls from {:.1f}% at length 30 to {:.1f}% at 40, and is {:.1f}% at 60".format(*tokens),
    ]


def of_trees() -> list[str]:
    """What is said of deeper trees."""
    own, mixed = "orthogonal-tree", ORDERS[2]
    rest = [scheme for scheme in SCHEMES if scheme != own]
    found = {
        (task, order, scheme): deeper(f"{task}/{order}", scheme)
        for task in TASKS
        for order in ORDERS
        for scheme in SCHEMES
    }
    rows = tasks.make("tree-ops", order="breadth", sizes=UNSEEN).sample(rows=range(4_000), split="test", seed=42)
    single = 100 * fmean(len(row["target_ids"]) == 1 for row in rows.to_pylist())
    mean = {key: fmean(of) for key, of in found.items()}
    for order in ORDERS:
        assert not any(score for scheme in rest for score in found["c3", order, scheme])
        assert not any(found["tree-copy", order, "tree"])
    assert not any(score for scheme in rest for score in found["tree-copy", mixed, scheme])
    assert min(found["tree-copy", mixed, own]) > 84
    for order in ORDERS[:2]:
        assert set(found["tree-copy", order, "orthogonal-seq"]) == {100}
        ops = {scheme: found["tree-ops", order, scheme] for scheme in SCHEMES}
        others = [of for scheme, of in ops.items() if scheme not in FLAT[1:]]
        assert above((ops[scheme] for scheme in FLAT[1:]), others)
        assert all(abs(score - single) < 1 for of in others for score in of)
    assert max(mean["tree-ops", mixed, scheme] for scheme in SCHEMES) == mean["tree-ops", mixed, own]
    copied, right = ({order: mean[task, order, own] for order in ORDERS} for task in ("tree-copy", "c3"))
    rotated = [at(f"tree-rotate/{mixed}", own, depth) for depth in (6, 7, 8)]
    best = [mean["tree-ops", order, scheme] for order in ORDERS[:2] for scheme in FLAT[1:]]
    return [
        f"on `c3`, its seeds range from {min(found['c3', mixed, own]):.1f} to {max(found['c3', mixed, own]):.1f}%",
        f"copies {copied[mixed]:.1f}% of the trees and gets {right[mixed]:.1f}% of `c3` right",
        f"it copies {copied['breadth']:.1f}% of these trees breadth first and {copied['depth']:.1f}% depth first",
        f"on `c3`, it gets {right['breadth']:.1f} and {right['depth']:.1f}% right",
        "`rope` copies {:.1f} and {:.1f}%".format(*(mean["tree-copy", order, "rope"] for order in ORDERS[:2])),
        "from {:.1f}% at depth 6 to {:.1f}% at depth 7 and {:.1f}% at depth 8".format(*rotated),
        f"no mean is above {max(s for (task, _, _), s in mean.items() if task == 'tree-rotate'):.2f}%",
        f"{single:.0f}% of the answers are a single node",
        f"`rope` and `orthogonal-seq` get {min(best):.1f} to {max(best):.1f}% right",
        f"no scheme gets more than {mean['tree-ops', mixed, own]:.1f}%",
    ]


def of_different_orders() -> list[str]:
    """What results/README.md says."""
    scores = [fmean(deeper(f"{task}/{ORDERS[2]}", "orthogonal-tree")) for task in ("tree-copy", "c3")]
    return ["of depths 9 and 10 right ({:.1f} and {:.1f}%; trained up to 8".format(*scores)]


def of_larger_sizes() -> list[str]:
    return [*trained_again(), *of_words(), *of_trees()]

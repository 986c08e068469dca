"""Facts about sizes above those of training, from the runs of the sweeps `depth` and `length`."""

from __future__ import annotations

from functools import cache
from statistics import fmean

from ape_cli import tasks
from ape_cli.sweep.planning import PlannedTrial
from results import claims, record
from tests.record.paper_tasks import TASKS
from tests.record.scores import above

DEPTHS = (6, 7, 8, 9)  # above those of training, of which 5 is the largest
SEQUENCES = ("orthogonal-seq", "lie", "rope")


def other_sizes(item: PlannedTrial) -> dict[int, float]:
    """Exact match in percent by size, on the test set of other sizes that the sweep evaluates on."""
    assert item.run is not None
    (own,) = (e for e in item.run.evaluations()[0] if e.get("test_only") and e["decode"] == "teacher")
    return {line["size"]: 100 * line["exact_match"] for line in own["by_size"]}


@cache
def by_depth() -> dict[tuple[str, str], list[dict[int, float]]]:
    """Exact match in percent by depth, a line for each seed, by task and scheme."""
    found: dict[tuple[str, str], list[dict[int, float]]] = {}
    for choice in record.planned("depth").choices:
        for item in choice.runs:
            found.setdefault((item.data.task, item.config.scheme), []).append(other_sizes(item))
    assert {len(of) for of in found.values()} == {3}
    return found


def unseen(task: str, scheme: str) -> list[float]:
    """The mean over the depths above those of training, for each seed."""
    return [fmean(of[depth] for depth in DEPTHS) for of in by_depth()[task, scheme]]


def at(task: str, scheme: str, depth: int) -> float:
    return fmean(of[depth] for of in by_depth()[task, scheme])


def ahead(task: str, ours: tuple[str, ...], theirs: set[str]) -> bool:
    """Whether the worst seed of each of the first schemes is above the best seed of all others."""
    return above(*([unseen(task, s) for s in schemes] for schemes in (ours, theirs)))


def of_depth() -> list[str]:
    """What the page of the sweep says."""
    schemes = {scheme for _, scheme in by_depth()}
    tree = "orthogonal-tree"
    assert ahead("tree-copy", SEQUENCES, schemes - set(SEQUENCES))
    assert min(unseen("tree-copy", "orthogonal-seq")) == 100
    assert ahead("c3", (tree,), schemes - {tree})
    assert ahead("tree-ops", SEQUENCES, schemes - set(SEQUENCES))
    learnt = {(task, s) for task, s in by_depth() if at(task, s, 5) >= 90}
    assert learnt == {("c3", tree), *(("tree-copy", s) for s in schemes - {"none", "tree"})}
    best = max(at("tree-ops", scheme, 5) for scheme in schemes)
    own, others = (fmean(unseen("c3", s)) for s in (tree, "orthogonal-seq"))
    assert others == max(fmean(unseen("c3", s)) for s in schemes - {tree})
    most = max(fmean(unseen("tree-rotate", s)) for s in schemes)
    known = [at("tree-copy", scheme, 5) for scheme in (tree, "sinusoidal")]
    return [
        f"copy {known[0]:.1f} and {known[1]:.1f}% of the trees of depth 5",
        f"{own:.2f} ({at('c3', tree, 6):.1f} at depth 6, {at('c3', tree, 9):.1f} at depth 9)",
        f"the others at most {others:.2f}",
        f"gets {at('c3', tree, 5):.1f}% of the trees of depth 5",
        f"from {at('tree-rotate', tree, 5):.1f} at depth 5 to {at('tree-rotate', tree, 6):.1f} at depth 6",
        f"No mean is above {most:.2f}",
        f"at most {best:.1f} at depth 5",
    ]


@cache
def cells() -> claims.Scores:
    """The scores of the sweep `length`."""
    return claims.scores(record.planned("length"))


@cache
def decoders() -> dict[str, dict[str, list[claims.Score]]]:
    """The scores of the finished cells of the decoder with plain positions, for each seed, by task and scheme."""
    found: dict[str, dict[str, list[claims.Score]]] = {}
    for cell, of in cells().items():
        if (cell.model, cell.positions) == ("decoder", "plain") and (seeds := claims.finished(of)):
            assert len(seeds) == 3
            found.setdefault(cell.task, {})[cell.scheme] = list(seeds.values())
    return found


def copied() -> dict[str, float]:
    """The percentage of longer words that decoders copy, by scheme, the best first."""
    means = {scheme: 100 * fmean(s.unseen for s in of) for scheme, of in decoders()["copy"].items()}
    return dict(sorted(means.items(), key=lambda one: -one[1]))


def with_randomised() -> list[str]:
    """What the page of the sweep says about randomised positions."""
    pairs = claims.claims()["randomised positions help"]
    word, total = claims.verdict(pairs, cells())
    assert word == "not seen"
    both: dict[claims.Cell, tuple[float, float]] = {}  # exact match at 40 with seed 42: plain, and randomised
    for pair in pairs:
        for column in pair.columns:
            ours, theirs = (cells().get(claims.Cell(*side, *column), {}).get(42) for side in (pair.ours, pair.theirs))
            if ours and theirs and column[0] in ("copy", "reverse"):
                both[claims.Cell(*pair.ours, *column)] = (100 * theirs.trained, 100 * ours.trained)
    lower = sum(ours < theirs for theirs, ours in both.values())
    copied = {cell.scheme: of for cell, of in both.items() if (cell.task, cell.model) == ("copy", "encoder-decoder")}
    good = {scheme: ours for scheme, (_, ours) in copied.items() if ours >= 90}
    assert set(good) == {"rope", "t5", "orthogonal-seq"}
    assert all(theirs >= 99 for scheme, (theirs, _) in copied.items() if scheme != "alibi")
    worst = max(ours for scheme, (_, ours) in copied.items() if scheme not in good)
    beyond = {
        (scheme, positions): of
        for scheme in good
        for positions in ("plain", "randomised")
        if (of := claims.finished(cells()[claims.Cell(scheme, positions, "copy", "encoder-decoder")]))
    }
    assert {len(of) for of in beyond.values()} == {3}
    assert {score.unseen for score in beyond["orthogonal-seq", "plain"].values()} == {1}
    gains = {
        scheme: [
            beyond[scheme, "randomised"][seed].unseen - beyond[scheme, "plain"][seed].unseen for seed in (42, 43, 44)
        ]
        for scheme in good
    }
    assert min(gains["t5"]) > 0 > max(gains["orthogonal-seq"])
    assert sum(gain > 0 for gain in gains["rope"]) == 2
    means = {key: 100 * fmean(score.unseen for score in of.values()) for key, of in beyond.items()}
    single = ("transformer-xl", "kerple", "relative")
    at = [[*filter(None, cells()[claims.Cell(s, "plain", "copy", "encoder-decoder")].values())] for s in single]
    assert [len(of) for of in at] == [1, 1, 1]
    return [
        f"{total.settled - total.learnt} of the 90 comparisons cannot count",
        f"in {lower} of {len(both)} columns of `copy` and `reverse`",
        f"`orthogonal-seq` copy at least {min(good.values()):.1f}%, and the others at most {worst:.1f}%",
        "`rope` copies {:.1f}%, and `t5` {:.1f}%".format(*(means[scheme, "plain"] for scheme in ("rope", "t5"))),
        f"help `t5` ({means['t5', 'randomised']:.1f}%)",
        f"`orthogonal-seq` ({means['orthogonal-seq', 'randomised']:.1f}%)",
        f"better with them ({means['rope', 'randomised']:.1f}% on average)",
        "`transformer-xl` copies {:.1f}%, `kerple` {:.1f}% and `relative` {:.1f}% of these words".format(
            *(100 * of.unseen for (of,) in at)
        ),
    ]


def of_length() -> list[str]:
    """What the page of the sweep says about decoders."""
    trained = {
        (task, scheme): 100 * fmean(s.trained for s in of)
        for task, schemes in decoders().items()
        for scheme, of in schemes.items()
    }
    first = tuple(copied())[:3]
    assert first == ("alibi", "kerple", "fire")
    seeds = {scheme: [100 * s.unseen for s in of] for scheme, of in decoders()["copy"].items()}
    rest = {scheme: of for scheme, of in seeds.items() if scheme not in first}
    assert above((seeds[scheme] for scheme in first), rest.values())
    assert not any(seeds["rope"] + seeds["sinusoidal"])
    assert {task for (task, _), score in trained.items() if score >= 90} == {"copy"}
    best = {task: max(score for (of, _), score in trained.items() if of == task) for task in decoders()}
    reversed_ = max(100 * fmean(s.unseen for s in of) for of in decoders()["reverse"].values())
    assert best["addition"] == best["group-word"] == 0
    rows = tasks.make("modular", modulus=3, sizes=(claims.LARGEST, *claims.BEYOND)).sample(
        rows=range(6_000), split="test", seed=42
    )
    answers = [tuple(row["target_ids"]) for row in rows.to_pylist() if row["size"] > claims.LARGEST]
    guessed = 100 * max(map(answers.count, set(answers))) / len(answers)
    assert all(abs(100 * fmean(s.unseen for s in of) - guessed) < 0.3 for of in decoders()["modular"].values())
    found = copied()
    return [
        f"within 0.3 points of {guessed:.1f}",
        "copy {:.1f}, {:.1f} and {:.1f}% of the words of 50 to 200 symbols".format(*list(found.values())[:3]),
        f"`none` copies {found['none']:.1f}%, `t5` {found['t5']:.1f}%, and `sinusoidal` and `rope` none",
        f"`alibi` ranges from {min(seeds['alibi']):.1f} to {max(seeds['alibi']):.1f} over seeds",
        f"`reverse` reaches {best['reverse']:.1f} at most, and {reversed_:.1f} beyond",
    ]


def of_both() -> list[str]:
    """What results/README.md says."""
    scores = [fmean(unseen("tree-copy", s)) for s in ("orthogonal-seq", "orthogonal-tree")]
    other = fmean(unseen("c3", "orthogonal-tree"))
    rest = max(fmean(unseen("c3", s)) for task, s in by_depth() if task == "c3" and s != "orthogonal-tree")
    assert {task for task, _ in by_depth()} == set(TASKS)
    return [
        "At depths 6 to 9, `orthogonal-seq` copies {:.2f}% of the trees, and `orthogonal-tree` {:.2f}%".format(*scores),
        f"on `c3`, `orthogonal-tree` still gets {other:.2f}% right, and the others at most {rest:.2f}%",
        "copy {:.0f}, {:.0f} and {:.0f}% of the words of 50 to 200 symbols".format(*list(copied().values())[:3]),
    ]

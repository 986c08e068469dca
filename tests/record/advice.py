"""Facts on the page docs/results/which-encoding.md: what it recommends, and the numbers that it names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import fmean

from ape_cli.reports.stats import least_p
from ape_cli.runs.registry import open_registry
from tests.record.beyond import ahead, by_depth, unseen
from tests.record.beyond import copied as copied_beyond
from tests.record.costs import SHAPES, on_a_cpu, on_a_gpu
from tests.record.field_tasks import SEQUENCES
from tests.record.generalise import UNSEEN, by_size, deeper
from tests.record.paper_tasks import FLAT, ORDERS, TASKS, mirrored, range_of
from tests.record.scores import PAGES, RUNS, SCHEMES, above, evaluations, mean, scores
from tests.record.summary import COMPOSITE, TF32, best_beside, exact, listed

METRICS = ("token_accuracy", "exact_match")
GRIDS = ("box-rotate", "grid-path")
NAMED = (["rope", "orthogonal-seq"], ["orthogonal-tree", "tree"], ["orthogonal-grid"], ["orthogonal"])  # their costs


def leads(column: str, first: Iterable[str], others: Iterable[str], metric: str, preset: str = "small") -> bool:
    """Whether the worst seed of each of the first schemes is above the best seed of all others."""
    return above(
        *([scores(column, scheme, preset=preset, metric=metric) for scheme in schemes] for schemes in (first, others))
    )


def seeds(column: str, *schemes: str, preset: str = "small") -> set[int]:
    return {len(scores(column, scheme, preset=preset)) for scheme in schemes}


def span(counts: Iterable[int]) -> str:
    """One number, or the least and the largest."""
    found = sorted(set(counts))
    return " to ".join(map(str, found[:1] + found[1:][-1:]))


def of_sequences() -> list[str]:
    """Which encoding of sequences is ahead, and where."""
    both, others = ("rope", "orthogonal-seq"), ("sinusoidal", "t5", "none")
    assert len(SEQUENCES) == 6
    hard = [column for column in SEQUENCES if max(exact(column, scheme) for scheme in both) < 50]
    assert len(hard) == 2
    for column in SEQUENCES:
        assert leads(column, both, others, "exact_match")
        assert seeds(column, *both, *others) == {3}
    assert leads("flip-flop", both[1:], both[:1], "exact_match")
    gaps = []
    for column in ("reverse", "repeat"):
        assert leads(column, both[:1], both[1:], "token_accuracy", "medium")
        assert seeds(column, *both, preset="medium") == {3}
        gaps.append(mean(column, "rope", preset="medium") - mean(column, "orthogonal-seq", preset="medium"))
        for scheme in ("none", "sinusoidal", "relative", *both):
            assert not any(score for size, of in by_size(column, scheme).items() if size >= 40 for score in of)
    copied = {scheme: by_size("copy", scheme) for scheme in ("orthogonal-seq", "relative", "rope", "sinusoidal")}
    longest = max(copied["rope"])
    for scheme, found in copied.items():
        whole = all(score == 100 for of in found.values() for score in of)
        assert whole == (scheme in ("orthogonal-seq", "relative"))
    assert len(copied_beyond()) == 7, "revise what is said of decoders"
    decoders = [f"{copied_beyond()[scheme]:.1f}" for scheme in ("alibi", "kerple", "fire", "none", "t5")]
    return [
        "on six tasks (exact match, 3 seeds), two of which no encoding learns well",
        "by {:.1f} and {:.1f} points (`medium`, 3 seeds)".format(*gaps),
        f"copy all test words of up to {longest} symbols",
        "no encoding with its own settings gets a word of 40 or more symbols right (3 seeds)",
        "They copy {}, {} and {}% of the words of 50 to 200 symbols, `none` {}%, `t5` {}%, ".format(*decoders)
        + "`sinusoidal` and `rope` none (3 seeds, tuned)",
    ]


def of_trees() -> list[str]:
    """Which encoding of trees is ahead, and where."""
    own, rest = ("orthogonal-tree",), ("sinusoidal", "tree", "rope", "orthogonal-seq")
    for preset in ("small", "medium"):
        for metric in METRICS:
            for task in TASKS:
                assert leads(f"{task}/breadth-to-depth", own, rest, metric, preset)
                assert preset == "small" or leads(f"{task}/breadth-to-depth", ("tree",), FLAT, metric, preset)
            for column in (f"{task}/{order}" for task in ("tree-rotate", "c3") for order in ("breadth", "depth")):
                assert leads(column, own, rest, metric, preset)
        assert leads("tree-copy/breadth", FLAT[1:], (*own, *rest[:2]), "exact_match", preset)
        assert leads("tree-copy/depth", (*FLAT[1:], *own), rest[:2], "exact_match", preset)
        assert not leads("tree-copy/depth", FLAT[1:], own, "exact_match", preset), "orthogonal-tree is level"
        for order in ("breadth", "depth"):
            assert leads(f"tree-ops/{order}", own, rest, "token_accuracy", preset)
        assert leads("tree-ops/breadth", FLAT[1:], own, "exact_match", preset)
    mixed = [f"{task}/breadth-to-depth" for task in TASKS]
    medium, small = (
        span(count for column in mixed for count in seeds(column, *SCHEMES, preset=preset))
        for preset in ("medium", "small")
    )
    for labels in ("token", "anonymous"):
        column = f"trees-stdlib-rotate-{labels}-depth"
        assert leads(column, own, rest, "token_accuracy")
        assert seeds(column, *own, *rest) == {3}
    deep = [fmean(deeper(f"{task}/{ORDERS[2]}", *own)) for task in ("tree-copy", "c3")]
    for order in ORDERS:
        columns = {task: {s: deeper(f"{task}/{order}", s) for s in SCHEMES} for task in TASKS}
        assert max(max(of) for of in columns["tree-rotate"].values()) < 0.5
        same = {"tree-copy": FLAT[2:], "tree-ops": FLAT[1:]} if order != ORDERS[2] else {}
        for task, first in ({"tree-copy": own, "c3": own} | same).items():
            of = columns[task]
            assert above((of[s] for s in first), (of[s] for s in SCHEMES if s not in first))
    copied = [fmean(unseen("tree-copy", s)) for s in ("orthogonal-seq", *own)]
    others = {s for task, s in by_depth() if task == "c3"} - set(own)
    assert ahead("c3", own, others)
    right = [fmean(unseen("c3", *own)), max(fmean(unseen("c3", s)) for s in others)]
    worth = [range_of(mirrored(task, scheme) for scheme in FLAT) for task in ("tree-copy", "tree-ops")]
    apart = max(abs(mirrored(task, scheme)) for task in TASKS for scheme in ("tree", *own))
    return [
        f"(table2-medium.md#findings), {medium} seeds; [`small`](table2.md#scores), {small} seeds)",
        "At depths {} and {} (".format(*UNSEEN),
        "`tree-copy` and `c3` ({:.1f} and {:.1f}, the others 0)".format(*deep),
        "({:.2f}, `orthogonal-tree` {:.2f}), and".format(*copied),
        "on `c3` ({:.2f}, the others at most {:.2f})".format(*right),
        f"is worth {worth[0]} points of token accuracy to",
        f"on `tree-copy`, and {worth[1]} on `tree-ops` (`small`, {small} seeds)",
        f"change by at most {apart:.1f} points",
    ]


def of_grids_and_products() -> list[str]:
    """What the encodings of grids and products are worth, and what they were compared with."""
    compared = {scheme for preset, column, scheme, _ in evaluations() if column in GRIDS}
    assert compared == {"none", "sinusoidal", "rope", "orthogonal-seq", "orthogonal-grid"}
    for columns, own in ((GRIDS, "orthogonal-grid"), (COMPOSITE, "orthogonal")):
        for column in columns:
            others = {s for preset, of, s, _ in evaluations() if of == column and s != own}
            assert leads(column, [own], others, "exact_match")
            assert seeds(column, own, *others) == {3}
    rows = [row for _, column, *row in evaluations() if column == "images" and "pool_size" not in row[1]]
    assert {len(scores("images", *row)) for row in rows} == {3}
    images = [mean("images", *row) for row in rows]
    assert max(images) - min(images) < 1
    grids, products = (
        [
            listed([exact(column, own) for column in columns]),
            listed([best_beside(column, own, "exact_match") for column in columns]),
        ]
        for columns, own in ((GRIDS, "orthogonal-grid"), (COMPOSITE, "orthogonal"))
    )
    pair = [scores(COMPOSITE[1], s, metric="exact_match") for s in ("orthogonal", "orthogonal-seq")]
    gained = sorted(x - y for x, y in zip(*pair, strict=True))
    return [
        "{} on two tasks, the others at most {} (exact match, 3 seeds)".format(*grids),
        "{} on four tasks, the others at most {} (exact match, 3 seeds)".format(*products),
        f"The second gain is {gained[0]:.1f} to {gained[-1]:.1f} points",
    ]


def of_costs() -> list[str]:
    """Memory and time of a step of each encoding of the table, with the locality bias if it has one by default."""

    def both(benchmark: str, scheme: str) -> str:
        small, full = (on_a_cpu(benchmark, scheme, SHAPES[n], "orthogonal" in scheme) for n in (2, 0))
        return f"`{scheme}` {small:.2f} ({full:.2f})"

    told = [", ".join(both(kind, s) for s in schemes) for kind in ("step_memory", "step") for schemes in NAMED]
    columns = ("reverse", "tree-rotate/breadth")
    assert not any(on_a_gpu(scheme, column) for (scheme,) in NAMED[2:] for column in columns), "not measured"
    on_gpus = [[on_a_gpu(s, column) for s in schemes] for schemes, column in zip(NAMED[:2], columns, strict=True)]
    return [f"[{phrase}](" for phrase in told] + [f"GPU: [{x:.2f} and {y:.2f}](" for x, y in on_gpus]


def of_limits() -> list[str]:
    """What the runs do not cover."""
    rotated, ops = "tree-rotate/breadth", "tree-ops/breadth"
    full = {s: mean(rotated, s, TF32, "paper") for s in SCHEMES}
    assert {len(scores(c, s, TF32, "paper")) for c in (rotated, ops) for s in SCHEMES} == {1}
    apart = max(full.values()) - min(full.values())
    whole = [exact(rotated, s, TF32, "paper") for s in SCHEMES]
    ahead = mean(ops, "tree", TF32, "paper") - mean(ops, "orthogonal-tree", TF32, "paper")
    about = [about for _, about in open_registry(RUNS).readable()]
    rates = {(a.config.preset, a.config.lr_peak) for a in about if "lr_peak" not in a.variant}
    assert len(rates) == len(dict(rates)), "one learning rate for all encodings of a preset"
    counts = re.findall(r"results/(length|depth)\.md\).*?\| (\d+) of (\d+) \|", PAGES["README"])
    assert [int(done) < int(planned) for _, done, planned in counts] == [True, False], "`length`, `depth`: revise"
    run = {a.config.scheme for a in about}
    assert not run & {"axial-rope", "mixed-rope"}
    assert {a.dataset.task for a in about if a.config.scheme == "lie"} <= set(TASKS), "not on grids"
    assert {a.dataset.name for a in about if a.dataset.task == "images"} == {"images-digits"}
    risen = mean("c3/breadth", "sinusoidal", preset="medium"), mean("c3/breadth", "sinusoidal", TF32, "paper")
    return [
        "`sinusoidal` rises from {:.2f} at `medium` to {:.2f}".format(*risen),
        f"within {apart:.1f} points of token accuracy ({min(whole):.1f} to {max(whole):.1f} in exact match)",
        f"`tree` is {ahead:.1f} points ahead of `orthogonal-tree`",
        f"cannot give a p-value below {least_p(3)}. With six seeds it can give {least_p(6):.3f}",
    ]


def of_the_advice() -> list[str]:
    return [*of_sequences(), *of_trees(), *of_grids_and_products(), *of_costs(), *of_limits()]

"""Facts about what the ingredients of the orthogonal schemes are worth, from the raw evaluations."""

from __future__ import annotations

import math
import statistics

import pytest

from ape_cli import tasks
from ape_cli.reports.stats import critical
from ape_cli.runs.record import settings_text
from ape_cli.runs.registry import open_registry
from results.figures import sweeps
from tests.record.paper_tasks import single_nodes
from tests.record.scores import RESULTS, RUNS, SCHEMES, evaluations, mean, scores

TREES = ("tree-rotate/breadth", "c3/breadth-to-depth", "tree-ops/breadth-to-depth")
COLUMNS = ("repeat", *TREES)
SEQ, TREE = ("orthogonal-seq", ""), ("orthogonal-tree", "")
OF_SEQUENCES = {  # all steps between `rope` and `orthogonal-seq` but the start angles
    "angles": [(("rope", "learned=True"), ("rope", "")), (("rope-spread", "learned=True"), ("rope-spread", ""))],
    "basis": [
        (("orthogonal-seq", "decay=1"), ("rope-spread", "learned=True")),
        (SEQ, ("orthogonal-seq-fixed-basis", "")),
    ],
    "heads": [(SEQ, ("orthogonal-seq-shared-angles", ""))],
    "bias": [(SEQ, ("orthogonal-seq", "decay=1"))],
}

Cell = tuple[str, str]


def differences(column: str, ours: Cell, theirs: Cell, metric: str = "token_accuracy") -> list[float]:
    """Returns the differences in points, for each seed that both have."""
    runs = [evaluations()["small", column, *cell] for cell in (ours, theirs)]
    seeds = sorted(runs[0].keys() & runs[1].keys())
    own = [[100 * of[seed][0]["overall"][metric] for seed in seeds] for of in runs]
    return [a - b for a, b in zip(*own, strict=True)]


def clear(found: list[float]) -> bool:
    """Returns whether the 95% interval over seeds does not contain 0."""
    return abs(statistics.fmean(found)) > half(found)


def half(found: list[float]) -> float:
    """Returns half of the width of the 95% interval."""
    return critical(len(found) - 1) * statistics.stdev(found) / math.sqrt(len(found))


def _of_branches(column: str, metric: str = "token_accuracy") -> list[float]:
    return differences(column, ("orthogonal-tree-commuting", ""), ("orthogonal-tree-one-generator", ""), metric)


def _of_the_order(column: str, metric: str = "token_accuracy") -> list[float]:
    return differences(column, TREE, ("orthogonal-tree-commuting", ""), metric)


def worth(ours: Cell, theirs: Cell, columns: tuple[str, ...] = TREES) -> list[float]:
    return [statistics.fmean(differences(column, ours, theirs)) for column in columns]


def three(values: list[float], digits: int = 0) -> str:
    return "{}, {} and {}".format(*(f"{value:.{digits}f}" for value in values))


def best_rate(column: str, scheme: str) -> str:
    """Returns the learning rate, as settings, with the best mean validation accuracy over six seeds."""
    found: dict[str, list[float]] = {}
    for _, about in open_registry(RUNS).readable():
        config, data = about.config, about.dataset
        own = (config.preset, data.name, config.scheme) == ("small", f"{column.replace('/', '-')}-small", scheme)
        if own and set(about.variant) <= {"lr_peak"} and about.result:
            found.setdefault(settings_text(about.variant), []).append(about.result.best_accuracy)
    assert {len(of) for of in found.values()} == {6}
    assert len(found) == 3
    return max(found, key=lambda settings: statistics.fmean(found[settings]))


def of_the_ingredients() -> dict[str, list[str]]:
    """Returns the facts on the page of the sweep and in results/README.md."""
    found = {
        name: worth(TREE, (scheme, settings))
        for name, (scheme, settings) in {
            "own": ("orthogonal-tree-one-generator", ""),
            "order": ("orthogonal-tree-commuting", ""),
            "bias": ("orthogonal-tree", "decay=1"),
        }.items()
    }
    start = worth(("rope-spread", ""), ("rope", ""), COLUMNS)
    seeds = {len(differences(c, TREE, ("orthogonal-tree-commuting", ""))) for c in TREES}
    seeds |= {len(differences(c, ("rope-spread", ""), ("rope", ""))) for c in COLUMNS}
    assert seeds == {6}
    for column in TREES:
        assert clear(differences(column, TREE, ("orthogonal-tree-one-generator", "")))
        commuting = differences(column, TREE, ("orthogonal-tree-commuting", ""))
        assert min(commuting) > 3, "with every seed"
        assert clear(commuting)
        assert not clear(differences(column, TREE, ("orthogonal-tree", "decay=1")))
    for column in TREES[1:]:
        gained = statistics.fmean(differences(column, SEQ, ("rope", "")))
        assert statistics.fmean(differences(column, ("rope-spread", ""), ("rope", ""))) > 0.7 * gained, "most of it"
    clear_starts = [clear(differences(column, ("rope-spread", ""), ("rope", ""))) for column in COLUMNS]
    assert clear_starts == [False, False, True, True]
    others = [(column, pair) for pairs in OF_SEQUENCES.values() for pair in pairs for column in COLUMNS]
    learning = OF_SEQUENCES["angles"]
    shown = [(column, pair) for column, pair in others if clear(differences(column, *pair))]
    assert shown == [("tree-ops/breadth-to-depth", pair) for pair in learning]
    learned = [statistics.fmean(differences(*of)) for of in ((column, *pair) for column, pair in shown)]
    most = max(abs(x) for x in found["bias"])
    chosen = [best_rate(column, "tree") for column in TREES]
    assert chosen == ["", "lr_peak=0.0007", ""]
    tuned = [worth(TREE, ("tree", rate), (c,))[0] for c, rate in zip(TREES, chosen, strict=True)]
    rates = {column: best_rate(column, "relative") for column in COLUMNS}
    assert [column for column in COLUMNS if rates[column] == "lr_peak=0.006"] == ["repeat", "tree-rotate/breadth"]
    repeat, *on_trees = (worth(SEQ, ("relative", rates[column]), (column,))[0] for column in COLUMNS)
    one = [mean(column, "orthogonal-tree-one-generator") for column in TREES]
    assert [x < mean(column, "rope") for x, column in zip(one, TREES, strict=True)] == [True, False, True]
    apart = [[a - b for a, b in zip(_of_branches(c), _of_the_order(c), strict=True)] for c in TREES]
    assert [clear(of) for of in apart] == [True, False, True]
    assert min(*apart[0], *apart[2]) > 0, "by token accuracy, the branches are worth more"
    whole = [[of(column, "exact_match") for of in (_of_the_order, _of_branches)] for column in TREES]
    assert min(a - b for a, b in zip(*whole[2], strict=True)) > 0, "by exact match, the order is worth more"
    assert not clear([a - b for a, b in zip(*whole[1], strict=True)])
    exact = [statistics.fmean(of) for of in whole[2]]
    widest = max(2 * half(differences(c, TREE, ("orthogonal-tree-commuting", ""))) for c in TREES)
    start_exact = differences("tree-rotate/breadth", ("rope-spread", ""), ("rope", ""), "exact_match")
    assert clear(start_exact)
    assert not any(clear(differences("tree-ops/breadth-to-depth", *pair, "exact_match")) for pair in learning)
    gap = mean("c3/breadth-to-depth", "orthogonal-tree", preset="medium") - mean(
        "c3/breadth-to-depth", "tree", preset="medium"
    )
    return {
        "README": [
            f"with generators that commute, `orthogonal-tree` loses {three(found['order'])} points on three tasks",
            f"which loses both, {three(found['own'])} (`small`, 6 seeds)",
            f"generators that commute cost {three(found['order'])} points",
            f"which also commutes, costs {three(found['own'])}.",
            "order is worth more than separate branches ({:.1f} and {:.1f} points)".format(*exact),
            f"({start[3]:.0f} points on `tree-ops`, {start[2]:.0f} on `c3`)",
            f"at most {math.ceil(10 * most) / 10:.1f} points to `orthogonal-tree`",
            f"up to {widest:.0f} points wide",
        ],
        "ingredients": [
            f"loses {three(found['order'], 1)} points on `tree-rotate`, `c3` and `tree-ops`",
            f"which also commutes, it loses {three(found['own'], 1)} and scores {three(one, 1)}, below",
            "the order is worth more on `tree-ops`: {:.1f} points, and the branches {:.1f}".format(*exact),
            f"by exact match on `tree-rotate`, they are worth {statistics.fmean(start_exact):.1f}",
            f"at `medium`, it is {gap:.1f} points",
            "seeds differ from {:.1f} to {:.1f} points".format(
                *(of(differences("c3/breadth-to-depth", TREE, ("orthogonal-tree-commuting", ""))) for of in (min, max))
            ),
            f"changes the means of `orthogonal-tree` by at most {math.ceil(100 * most) / 100:.2f} points",
            f"`tree` is still {three(tuned, 1)} points behind",
            f"is behind `orthogonal-seq` by {repeat:.1f} points on `repeat`, and by {three(on_trees, 1)} on",
            "gains {:.1f} and {:.1f} points on `tree-ops`".format(*learned),
            f"they are worth {start[3]:.1f} points on `tree-ops` and {start[2]:.1f} on `c3`",
        ],
    }


def extracted(
    column: str, op: str, steps: str = "", scheme: str = "orthogonal-tree", metric: str = "exact_match"
) -> float:
    """Returns the score on an operator, in percent, as a mean over seeds."""
    runs = evaluations()["small", column, scheme, steps].values()
    return 100 * statistics.fmean(next(o for o in own["by_op"] if o["op"] == op)[metric] for own, *_ in runs)


def whole_trees() -> float:
    """Returns the share of the rows of `extract` with inner pointers whose answer is the whole tree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "__path__", [*tasks.__path__, str(RESULTS / "ingredients" / "ape_cli" / "tasks")])
        made = tasks.make("tree-ops-part", operator="extract", pointer="inner", depth_mean=4)
    rows = made.sample(rows=range(1_000), split="test", seed=42).to_pylist()
    return sum(len(row["source_ids"]) == len(row["target_ids"]) + 2 for row in rows) / len(rows)  # operator and pointer


def over_seeds(column: str, steps: str, scheme: str = "orthogonal-tree") -> list[float]:
    """Returns exact match in percent of the runs with one operator, for each seed."""
    return scores(column, scheme, steps, metric="exact_match")


def of_parts() -> list[str]:
    """Returns the facts about parts of `tree-ops`, with three seeds, and one for three rows of 12,800 steps."""
    both, whole, inner = ("extract", "flip-extract"), "tree-ops/breadth-to-depth", "tree-ops-extract-inner"
    long, more, everything = "steps=12800", f"{inner}-80000", "tree-ops-all-80000"
    parts = {key[1:]: len(of) for key, of in evaluations().items() if key[1].startswith("tree-ops-")}
    once = {(inner, "orthogonal-tree", long), (everything, "orthogonal-tree", long), (more, "orthogonal-seq", long)}
    assert {key for key, seeds in parts.items() if seeds == 1} == once
    assert set(parts.values()) == {1, 3}
    assert len(evaluations()["small", whole, "orthogonal-tree", ""]) == 6
    assert len(evaluations()["small", whole, "orthogonal-tree", "steps=3200"]) == 3

    def pair(*columns: str, steps: str = "") -> str:
        return " and ".join(f"{extracted(column, op, steps):.1f}" for column, op in zip(columns, both, strict=True))

    fewer = [statistics.fmean(over_seeds(inner, steps)) for steps in ("", "steps=3200", long)]
    short, learnt = over_seeds(more, "steps=3200"), over_seeds(more, long)
    flat = [statistics.fmean(over_seeds(inner, steps, "orthogonal-seq")) for steps in ("", "steps=3200")]
    rows = tasks.make("tree-ops", depth_mean=4).sample(rows=range(1_000), split="test", seed=42).to_pylist()
    roots = 100 * whole_trees()
    lengths = [len(row["target_ids"]) for row in rows if row["op"] == "extract"]
    share = lengths.count(1) / len(lengths)
    assert f"{share:.0%} of the answers of extract are a single node, and {roots:.0f}% the whole tree" in sweeps.FOOT
    hard = sum(row["op"] == "extract" and len(row["target_ids"]) > 1 for row in rows) / len(rows)
    return [
        f"which are other test rows, exact match is {pair(*['tree-ops-inner'] * 2)}; with all pointers, it",
        f"it is {pair(whole, whole)}",
        "exact match is {:.1f} (`extract`) and {:.1f} (`flip-extract`)".format(
            *(extracted(f"tree-ops-{op}", op) for op in both)
        ),
        f"exact match is {extracted(whole, 'extract', 'steps=3200'):.1f} on `extract`",
        f"with four times the rows too, {pair(everything, everything, steps=long)}",
        f"Only {hard:.0%} of its rows",
        f"{roots:.1f}% of the test rows with inner pointers point to the root",
        f"With 64 symbols, exact match is {pair(*['tree-ops-symbols-64'] * 2)}",
        f"with 512 it is {pair(*['tree-ops-symbols-512'] * 2)}",
        "gets {:.1f}% right after 800 steps, {:.1f} after 3,200 and {:.1f} after 12,800".format(*fewer),
        f"{statistics.fmean(short):.1f} after 3,200 ({min(short):.1f} to {max(short):.1f} over seeds)",
        f"{statistics.fmean(learnt):.1f} after 12,800 ({min(learnt):.1f} to {max(learnt):.1f})",
        "`orthogonal-seq` gets {:.1f} and {:.1f}% right after 800 and 3,200 steps".format(*flat),
        f"and {over_seeds(more, long, 'orthogonal-seq')[0]:.1f} after 12,800 steps on the 80,000 (one seed)",
        f"{single_nodes():.0%} of the answers of `extract` and `flip-extract` are a single node",
    ]


def of_long_training() -> list[str]:
    """Returns the facts about extraction in results/README.md."""
    inner = "tree-ops-extract-inner"
    short = [statistics.fmean(over_seeds(inner, steps)) for steps in ("", "steps=3200")]
    (tree, flat) = (
        statistics.fmean(over_seeds(f"{inner}-80000", "steps=12800", scheme))
        for scheme in ("orthogonal-tree", "orthogonal-seq")
    )
    return [
        f"`orthogonal-tree` gets {tree:.1f}% right (`small`, 3 seeds)",
        f"gets {short[0]:.1f}% right after 800 steps, {short[1]:.1f} after 3,200",
        f"(copying the whole tree gets {100 * whole_trees():.1f}), and with",
        f"with four times the rows {tree:.1f} after 12,800",
        f"`orthogonal-seq` then gets {flat:.1f} (one seed)",
    ]


def of_extraction() -> list[str]:
    """Returns the fact about exact match on `extract` at the preprint's size, and the share of single nodes."""
    rows = tasks.make("tree-ops").sample(rows=range(1_000), split="test", seed=42).to_pylist()
    answers = [len(row["target_ids"]) for row in rows if row["op"] == "extract"]
    found = []
    for scheme in SCHEMES:
        runs = evaluations()["paper", "tree-ops/breadth", scheme, "precision=tf32"]
        assert list(runs) == [42]
        (part,) = (line for line in runs[42][0]["by_op"] if line["op"] == "extract")
        assert part["rows"] == len(answers)
        found.append(100 * part["exact_match"])
    return [
        f"{min(found):.2f} to {max(found):.2f}",
        f"{100 * answers.count(1) / len(answers):.2f}% of the answers are",
    ]

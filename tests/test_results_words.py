"""What the pages of results say in words follows from the committed runs: who leads, and where.

The numbers of the pages are rendered (`results/pages`). A test that fails after new runs names what to write anew.
*Ahead* means that the worst seed of each of the first schemes is above the best seed of all others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from ape_cli import position
from ape_cli.reports import published
from results import claims
from results.figures import sweeps
from results.numbers import (
    FLAT,
    ORDERS,
    SCHEMES,
    TREE_COLUMNS,
    TREE_TASKS,
    Preset,
    Scores,
    above,
    evaluations,
    medium,
    paper,
    preprint,
    runs,
    small,
)
from results.queries import answers, ingredients, machines, other_tasks, sizes, tables
from results.queries.ingredients import COMMUTING, INGREDIENT_TREES, ONE_GENERATOR, ROPE, SEQ, SPREAD, TREE, gains
from results.queries.other_tasks import COMPOSITE, GRIDS, LABELS, SEQUENCES, natural
from results.queries.sizes import deep, larger, longer, tuned_depth
from results.queries.tables import BIASED_TREES, bias

METRICS = ("token_accuracy", "exact_match")
OWN, OTHERS = "orthogonal-tree", (*FLAT, "tree")
MIXED = ORDERS[2]  # source and target in different orders


def ahead(column: str, first: Iterable[str], others: Iterable[str], metric: str, preset: Preset = small) -> bool:
    return above(*([preset(column, scheme, "", metric) for scheme in schemes] for schemes in (first, others)))


def ranked(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=scores.__getitem__, reverse=True)


def test_tree_tasks() -> None:
    """Tables 2 at `small` and `medium`."""
    for preset, task, metric in itertools.product((small, medium), TREE_TASKS, METRICS):
        assert ahead(f"{task}/{MIXED}", [OWN], OTHERS, metric, preset)
        assert preset is small or ahead(f"{task}/{MIXED}", ["tree"], FLAT, metric, preset), "`tree` is second"
    for preset, order in itertools.product((small, medium), ORDERS[:2]):
        for task in ("tree-rotate", "c3"):
            assert all(ahead(f"{task}/{order}", [OWN], OTHERS, metric, preset) for metric in METRICS)
        assert ahead(f"tree-ops/{order}", [OWN], OTHERS, METRICS[0], preset)
    for preset in (small, medium):
        assert ahead("tree-copy/breadth", FLAT[1:], (OWN, "tree", "sinusoidal"), METRICS[1], preset)
        assert ahead("tree-copy/depth", (*FLAT[1:], OWN), ("tree", "sinusoidal"), METRICS[1], preset)
        assert not ahead("tree-copy/depth", FLAT[1:], [OWN], METRICS[1], preset), "orthogonal-tree is level"
        assert ahead("tree-ops/breadth", FLAT[1:], [OWN], METRICS[1], preset)


def test_the_order_of_a_copy() -> None:
    """It is worth nothing to the encodings of trees."""
    assert all(abs(tables.same_order("tree-copy", scheme)) < 0.05 for scheme in ("tree", OWN))


def test_the_metric() -> None:
    """On `tree-ops/breadth` at `small`, the metrics put different schemes first."""
    tokens, whole = ({s: of("tree-ops/breadth", s).mean for s in SCHEMES} for of in (small, small.exact))
    assert (ranked(tokens)[0], ranked(whole)[0]) == (OWN, "rope")
    assert abs(whole["rope"] - whole["orthogonal-seq"]) < 1, "level"
    others = [column for column, best in zip(TREE_COLUMNS, tables.best_columns(), strict=True) if best != OWN]
    assert others == ["tree-copy/breadth", "tree-copy/depth"]
    assert {f"{small(column, s).mean:.2f}" for column in others for s in FLAT[1:]} == {"100.00"}


def test_trees_at_medium() -> None:
    assert medium("tree-copy/breadth", "sinusoidal").mean > max(
        medium("tree-copy/breadth", s).mean for s in ("tree", OWN)
    )
    assert ahead("tree-ops/breadth", FLAT, [OWN], METRICS[1], medium)
    assert ahead("tree-ops/depth", ["orthogonal-seq"], [OWN], METRICS[1], medium)
    for task, order, scheme in itertools.product(TREE_TASKS[2:], ORDERS, ("tree", OWN)):
        assert medium(f"{task}/{order}", scheme).mean > preprint(f"{task}/{order}", scheme)
    equal = medium("tree-ops/breadth", "tree") - medium("tree-ops/breadth", "sinusoidal")
    assert {gap > 0 for gap in equal.values()} == {True, False}, "tree and sinusoidal are about equal"
    assert ahead("tree-ops/breadth", ["rope"], ["tree"], METRICS[0], medium)
    for task, scheme in itertools.product(TREE_TASKS, FLAT[1:]):  # the preprint's number is between the two columns
        number = preprint(f"{task}/depth", scheme)
        assert medium(f"{task}/{MIXED}", scheme).mean < number < medium(f"{task}/depth", scheme).mean


def test_forms_of_rotation() -> None:
    """One form fits the preprint's numbers in `breadth`, and none in `breadth-to-depth`."""
    fits = {(form, o): len(tables.near(form, o)) for form in tables.ROTATIONS for o in ORDERS[::2]}
    assert [form for form in tables.ROTATIONS if fits[form, "breadth"] == 4] == ["root"]
    assert max(fits[form, MIXED] for form in tables.ROTATIONS) == 1


def test_a_possible_cause() -> None:
    """Within one standard deviation of the preprint on `c3`, and not on `tree-ops`."""
    for task, order in itertools.product(("c3", "tree-ops"), ORDERS[::2]):
        column = f"{task}/{order}"
        number = published.load("paper").number("tree", "", column, "token_accuracy")
        assert number is not None
        assert number.spread is not None
        near = abs(medium(column, "tree-interleaved").first - 100 * number.value) <= 100 * number.spread
        assert near == (task == "c3"), column


def test_sinusoidal_above_the_preprint() -> None:
    """At `medium` in all eight columns."""
    columns = [f"{task}/{order}" for task in TREE_TASKS for order in ORDERS[::2]]
    assert all(medium(column, "sinusoidal").mean > preprint(column, "sinusoidal") for column in columns)


def test_words() -> None:
    """Table 1 at `medium` and `small`."""
    for column in ("reverse", "repeat"):
        assert ahead(column, ["rope"], ["orthogonal-seq"], METRICS[0], medium)
    clipped = medium("repeat", "relative", "max_size=100").mean
    assert clipped > max(medium("repeat", "relative").values())
    assert set(medium.exact("repeat", "none").values()) == {0}
    assert min(small(column, s).mean for column in ("copy", "reverse", "repeat") for s in FLAT[1:]) > 99


def test_the_preprint_s_size() -> None:
    tokens, whole = ({s: of("tree-rotate/breadth", s).mean for s in SCHEMES} for of in (paper, paper.exact))
    assert ranked(whole) == [OWN, "tree", "orthogonal-seq", "rope", "sinusoidal"]
    assert all(tokens[s] > preprint("tree-rotate/breadth", s) for s in SCHEMES)
    cut = paper.exact("tree-rotate/breadth", "tree", "max_size=7").mean
    assert whole[OWN] - whole["tree"] < (whole[OWN] - cut) / 2, "most of the gap"
    sums = {s: paper.exact("tree-ops/breadth", s).mean for s in SCHEMES}
    assert ranked(sums) == ["rope", "orthogonal-seq", "sinusoidal", OWN, "tree"]
    assert ahead("tree-ops/breadth", ["tree"], [OWN], METRICS[0], paper)


def test_the_locality_bias() -> None:
    biased = [(s, settings) for s in OTHERS for settings in ("", "decay=1" if "orth" in s else "decay=0.98")]
    for column in BIASED_TREES:
        own = [small(column, OWN, settings).mean for settings in ("", "decay=1")]
        assert min(own) > max(small(column, *row).mean for row in biased)
    gained = {"sinusoidal": ("reverse", "c3/breadth", "tree-ops/breadth")}
    lost = {"rope": ("repeat",), "tree": ("tree-rotate/depth", "tree-ops/breadth")}
    named = {
        (column, s): sign for sign, of in ((1, gained), (-1, lost)) for s, columns in of.items() for column in columns
    }
    assert {cell: 1 if bias(*cell).mean > 0 else -1 for cell in tables.agreeing()} == named


def test_ingredients_of_trees() -> None:
    branches, order = (
        {metric: gains(*pair, INGREDIENT_TREES, metric) for metric in METRICS}
        for pair in ((COMMUTING, ONE_GENERATOR), (TREE, COMMUTING))
    )
    assert all(of.is_clear for of in gains(TREE, ONE_GENERATOR, INGREDIENT_TREES))
    assert all(of.is_clear and min(of.values()) > 3 for of in order[METRICS[0]]), "with every seed"
    assert not any(of.is_clear for of in gains(TREE, (OWN, "decay=1"), INGREDIENT_TREES))
    one = [small(column, *ONE_GENERATOR).mean < small(column, "rope").mean for column in INGREDIENT_TREES]
    assert one == [True, False, True]
    apart = {m: [a - b for a, b in zip(branches[m], order[m], strict=True)] for m in METRICS}
    assert [of.is_clear for of in apart[METRICS[0]]] == [True, False, True]
    assert min(*apart[METRICS[0]][0].values(), *apart[METRICS[0]][2].values()) > 0, "the branches are worth more"
    assert max(apart[METRICS[1]][2].values()) < 0, "by exact match, the order is worth more"
    assert not apart[METRICS[1]][1].is_clear


def test_ingredients_of_sequences() -> None:
    columns = ("repeat", *INGREDIENT_TREES)
    assert [of.is_clear for of in gains(SPREAD, ROPE, columns)] == [False, False, True, True]
    for column in INGREDIENT_TREES[1:]:
        (start,), (whole,) = gains(SPREAD, ROPE, [column]), gains(SEQ, ROPE, [column])
        assert start.mean > 0.7 * whole.mean, "most of it"
    learning = [(ingredients.LEARNED_ROPE, ROPE), (ingredients.LEARNED_SPREAD, SPREAD)]
    others = [
        *learning,
        (("orthogonal-seq", "decay=1"), ingredients.LEARNED_SPREAD),
        *((SEQ, row) for row in (("orthogonal-seq-fixed-basis", ""), ("orthogonal-seq-shared-angles", ""))),
        (SEQ, ("orthogonal-seq", "decay=1")),
    ]
    clear = [(c, pair) for pair in others for c in columns if gains(*pair, [c])[0].is_clear]
    assert clear == [("tree-ops/breadth-to-depth", pair) for pair in learning]
    exact = [[of.is_clear for of in gains(*pair, INGREDIENT_TREES, METRICS[1])] for pair in learning]
    assert exact == [[True, False, False], [False] * 3]


def test_starts_at_medium() -> None:
    """The rows from RoPE have one seed. On the usual trees, they have none on `tree-rotate`."""
    keys = [key for key in evaluations() if key[0] == "medium" and key[3] == "init=rope"]
    assert {len(evaluations()[key]) for key in keys} == {1}
    assert not any(column.startswith("tree-rotate") and "-redraw-" not in column for _, column, _, _ in keys)


def test_rows_of_the_published_paper() -> None:
    """In all columns but `tree-copy/breadth`, the row that reads trees has the lowest perplexity in both."""
    rows = [(s, "init=rope") for s in ("orthogonal-seq", OWN)] + [("rope", "learned=True")]
    lowest = []
    for column in (f"{task}/{order}" for task in ("tree-copy", "c3", "tree-ops") for order in ORDERS[::2]):
        ours = {row: medium.nats(column, *row).mean for row in rows}
        theirs = {row: published.load("neurips").number(*row, column, "perplexity") for row in rows}
        values = {row: number.value for row, number in theirs.items() if number}
        lowest.append([min(of, key=of.__getitem__)[0] == OWN for of in (ours, values)])
    assert lowest == [[False, False], *[[True, True]] * 5]


def test_extraction() -> None:
    single, whole = answers.single_nodes("extract", depth_mean=4), answers.whole_trees()
    assert f"{single:.0f}% of the answers of extract are a single node, and {whole:.0f}% the whole tree" in sweeps.FOOT


def test_larger_sizes() -> None:
    """Runs of tables 1 and 2 that were trained again."""
    for scheme in ("orthogonal-seq", "relative", "rope", "sinusoidal"):
        whole = all(set(larger("copy", scheme, size).values()) == {100} for size in (30, 40, 50, 60, 80))
        assert whole == (scheme in ("orthogonal-seq", "relative"))
    assert max(larger("copy", "sinusoidal").values()) == 0
    right = {
        (column, scheme, size)
        for column, scheme in itertools.product(("reverse", "repeat"), ("none", "relative", *FLAT))
        for size in (30, 40, 50, 60, 80)
        if any(larger(column, scheme, size).values())
    }
    assert right == {("repeat", "rope", 30), ("reverse", "relative", 30)}


def test_deeper_trees() -> None:
    """At depths 9 and 10, of the same runs."""
    found = {(task, o, s): deep(task, o, s) for task in TREE_TASKS for o in ORDERS for s in SCHEMES}
    for order in ORDERS:
        first = {"c3": [OWN], "tree-copy": [OWN if order == MIXED else "orthogonal-seq"]}
        for task, schemes in first.items():
            of = {scheme: found[task, order, scheme] for scheme in SCHEMES}
            assert above((of[s] for s in schemes), (of[s] for s in SCHEMES if s not in schemes))
        assert not any(any(found["c3", order, scheme].values()) for scheme in OTHERS)
        assert not any(found["tree-copy", order, "tree"].values())
        assert max(max(found["tree-rotate", order, scheme].values()) for scheme in SCHEMES) < 0.5
    assert not any(any(found["tree-copy", MIXED, scheme].values()) for scheme in OTHERS)
    for order in ORDERS[:2]:
        assert set(found["tree-copy", order, "orthogonal-seq"].values()) == {100}
        others = [found["tree-ops", order, scheme] for scheme in SCHEMES if scheme not in FLAT[1:]]
        assert above((found["tree-ops", order, scheme] for scheme in FLAT[1:]), others)
    assert max(SCHEMES, key=lambda scheme: found["tree-ops", MIXED, scheme].mean) == OWN


def test_tuned_depths() -> None:
    sequences, schemes = ("orthogonal-seq", "lie", "rope"), sizes.depth_schemes()

    def leads(task: str, *first: str) -> bool:
        return above(*([tuned_depth(task, s) for s in of] for of in (first, sizes.depth_schemes(*first))))

    assert leads("tree-copy", *sequences)
    assert set(tuned_depth("tree-copy", "orthogonal-seq").values()) == {100}
    assert leads("c3", OWN)
    assert leads("tree-ops", *sequences)
    assert max(tuned_depth("c3", s).mean for s in sizes.depth_schemes(OWN)) < 2, "only `orthogonal-tree`"
    assert max(tuned_depth("tree-rotate", s).mean for s in schemes) < 2, "no encoding mirrors them"
    assert max(sizes.depth_schemes(OWN), key=lambda s: tuned_depth("c3", s).mean) == "orthogonal-seq"
    learnt = {(t, s) for t in TREE_TASKS for s in schemes if tuned_depth(t, s, 5).mean >= 90}
    assert learnt == {("c3", OWN), *(("tree-copy", s) for s in schemes if s not in ("none", "tree"))}


def test_length_in_decoders() -> None:
    found = {task: {s: longer(s, task=task) for s in sizes.decoders(task)} for task in claims.TASKS}
    copied = found["copy"]
    assert len(copied) == 7, "revise what is said of decoders"
    assert ranked({scheme: of.mean for scheme, of in copied.items()})[:3] == ["alibi", "kerple", "fire"]
    first = ("alibi", "kerple", "fire")
    assert above((copied[s] for s in first), (of for s, of in copied.items() if s not in first))
    assert not any([*copied["rope"].values(), *copied["sinusoidal"].values()])
    trained = {task: [longer(s, task=task, size=40).mean for s in schemes] for task, schemes in found.items()}
    assert [task for task, of in trained.items() if max(of) >= 90] == ["copy"]
    assert max(*trained["addition"], *trained["group-word"]) == 0


def test_length_in_encoder_decoders() -> None:
    """Which schemes have learnt to reverse 40 symbols, and which copy best after `orthogonal-seq` and three others."""
    cells = [c for c, of in sizes.length_cells().items() if c.model == "encoder-decoder" and claims.finished(of)]
    whole = {c.scheme for c in cells if c.task == "reverse" and longer(*c, size=40).mean >= 90}
    assert whole == {"rope", "t5"}
    copied = [c for c, of in sizes.length_cells().items() if (c.task, c.model) == ("copy", "encoder-decoder")]
    ranking = ranked({f"{c.scheme}, {c.positions}": longer(*c).mean for c in copied})
    assert set(ranking[:4]) == {f"{s}, plain" for s in ("orthogonal-seq", "relative", "kerple", "transformer-xl")}
    assert ranking[4] == "rope, randomised"


def test_randomised_positions() -> None:
    word, _ = claims.verdict(claims.claims()["randomised positions help"], sizes.length_cells())
    assert word == "not seen"
    both = {c.scheme: of for c, of in sizes.randomised().items() if (c.task, c.model) == ("copy", "encoder-decoder")}
    assert {scheme for scheme, (_, ours) in both.items() if ours >= 90} == {"rope", "t5", "orthogonal-seq"}
    plain, drawn = (
        {s: longer(s, positions, model="encoder-decoder") for s in ("rope", "t5", "orthogonal-seq")}
        for positions in ("plain", "randomised")
    )
    assert set(plain["orthogonal-seq"].values()) == {100}
    assert (
        min((drawn["t5"] - plain["t5"]).values())
        > 0
        > max((drawn["orthogonal-seq"] - plain["orthogonal-seq"]).values())
    )


def test_sequences_of_other_papers() -> None:
    both, others = ("rope", "orthogonal-seq"), ("sinusoidal", "t5", "none")
    for column in SEQUENCES:
        assert ahead(column, both, others, METRICS[1])
    assert sum(max(small.exact(column, s).mean for s in both) < 50 for column in SEQUENCES) == 2, "hardly learned"
    assert set(other_tasks.first_on_sequences()) == set(both)
    for column in ("modular", "list-ops", "list-ops-tree/depth", *other_tasks.GROUPS):
        assert small.best_other(column, "") < 50, "not learned well"
    assert ahead("tree-query/depth", [OWN], small.schemes("tree-query/depth") - {OWN}, METRICS[1])
    assert {c for c in SEQUENCES if ahead(c, both[1:], both[:1], METRICS[1])} >= {"flip-flop", "list-ops"}


def test_composite_positions_and_grids() -> None:
    for columns, own in ((GRIDS, "orthogonal-grid"), (COMPOSITE, "orthogonal")):
        for column in columns:
            others = {s for preset, of, s, _ in evaluations() if (preset, of) == ("small", column)} - {own}
            assert ahead(column, [own], others, METRICS[1])
    compared = {s for _, column, s, _ in evaluations() if column in GRIDS}
    assert compared == {"none", "sinusoidal", "rope", "orthogonal-seq", "orthogonal-grid"}
    leads = other_tasks.composite_leads()
    assert min(leads) == leads[1]
    gap = small.exact(COMPOSITE[1], "orthogonal") - small.exact(COMPOSITE[1], "orthogonal-seq")
    assert not gap.is_clear, "its interval includes zero"
    quad = other_tasks.quadtree
    assert quad("orthogonal", 3) == max(small.by("size", 3, "quadtree-expand", "orthogonal").values()) == 0
    lines = [line for s in FLAT for of in small.evaluations("quadtree-expand", s).values() for line in of["by_size"]]
    assert not any(line["exact_match"] for line in lines if line["size"] > 1), "no deeper row"


def test_natural_trees() -> None:
    for task, labels in itertools.product(("rotate", "mask"), LABELS):
        own, others = natural(task, labels, OWN), other_tasks.other_natural(task, labels)
        assert all(min((own - other).values()) > 0 for other in others), "ahead with each seed"
    assert {sum(about.dataset.rows.values()) for _, about in runs() if "stdlib-copy" in about.dataset.name} == {11_660}
    for labels in LABELS:
        column = f"trees-stdlib-rotate-{labels}-depth"
        assert ahead(column, [OWN], OTHERS, METRICS[0])
        copies = {s: f"{natural('copy', labels, s).mean:.2f}" for s in FLAT[1:]}
        assert set(copies.values()) == {"100.00"}
        assert natural("copy", labels, OWN).mean < 100, "no lead"
        for task in ("copy", "rotate"):
            assert min((natural(task, labels, "tree", "max_size=9") - natural(task, labels, "tree")).values()) > 0
        counted = other_tasks.counted_masks("parent and children", labels)
        below = {s for s in SCHEMES if natural("mask", labels, s).mean < counted}
        assert below == ({"sinusoidal"} if labels == "token" else set())


def test_images() -> None:
    rows = [key[2:] for key in evaluations() if key[1] == "images" and "pool_size" not in key[3]]
    means = [small("images", *row).mean for row in rows]
    assert max(means) - min(means) < 1, "all rows are within a point"
    (split,) = {tuple(about.dataset.rows.values()) for _, about in runs() if about.dataset.task == "images"}
    assert split == (1_295, 143, 359)
    pixels = other_tasks.pixels
    assert pixels("none") == pixels("none", shuffled=True)
    for scheme in ("sinusoidal", "learned", "orthogonal-seq", "orthogonal-grid"):
        assert pixels(scheme, shuffled=True) < pixels(scheme) - 50


def test_what_was_not_run() -> None:
    """The limits on the page with advice, and in the README."""
    about = [about for _, about in runs()]
    rates = {(a.config.preset, a.config.lr_peak) for a in about if "lr_peak" not in a.variant}
    assert len(rates) == len(dict(rates)), "one learning rate for all encodings of a preset"
    missing = {"axial-rope", "mixed-rope", "selective-rope", "forget", "shear"}
    assert set(position.names()) - {a.config.scheme for a in about} == missing
    assert {a.dataset.task for a in about if a.config.scheme == "lie"} <= set(TREE_TASKS), "not on grids"
    assert {a.dataset.name for a in about if a.dataset.task == "images"} == {"images-digits"}
    done = [machines.standing(sweep) for sweep in ("length", "depth")]
    assert [finished < planned for finished, planned in done] == [True, False], "`length`, `depth`: revise"
    assert "neurips" not in {a.config.preset for a in about}


def test_pairs_are_of_the_same_seeds() -> None:
    """A difference leaves out seeds that only one side has, and Student's interval is that of the differences."""
    differences = Scores({42: 52.0, 43: 64.0, 44: 76.0, 45: 1.0}) - Scores({42: 50.0, 43: 60.0, 44: 70.0, 46: 99.0})
    assert differences == {42: 2.0, 43: 4.0, 44: 6.0}
    assert differences.half == pytest.approx(4.968276, abs=1e-6)  # 4.302653 × 2 / √3
    assert not differences.is_clear

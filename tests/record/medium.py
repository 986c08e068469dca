"""DatasetInfo about the runs at preset medium: tables 1 and 2, and variants of tasks, settings and schemes."""

from __future__ import annotations

import itertools
import math
import statistics

from ape_cli.runs.registry import open_registry
from tests.record.paper_tasks import FLAT, ORDERS, TASKS, mirrored, range_of
from tests.record.scores import RUNS, SCHEMES, evaluations, mean, preprint, scores

POSITIONED = tuple(scheme for scheme in SCHEMES if scheme != "sinusoidal")  # the numbers of the preprint without a mark


def score(column: str, scheme: str, variant: str = "") -> float:
    """Returns the mean over seeds at preset medium, in percent."""
    return mean(column, scheme, variant, "medium")


def first(column: str, scheme: str, variant: str = "") -> float:
    """Returns the token accuracy with seed 42 at preset medium, in percent."""
    return 100 * evaluations()["medium", column, scheme, variant][42][0]["overall"]["token_accuracy"]


def each(column: str, scheme: str) -> list[float]:
    return scores(column, scheme, preset="medium")


def theirs(scheme: str, column: str) -> float:
    return 100 * preprint(scheme, column).value


def of_devices() -> list[str]:
    """Returns the fact about how many runs of smaller presets were trained on a GPU."""
    names = {
        (about.config.preset, run.name): (about.config.precision, about.gpu)
        for run, about in open_registry(RUNS).readable()
        if about.config.preset != "paper" and about.device == "cuda"
    }
    assert set(names.values()) == {("fp32", "NVIDIA H200")}
    counts = [len([name for preset, name in names if preset == of]) for of in ("medium", "small")]
    return ["{} runs of preset `medium` and {} runs of preset `small`".format(*counts)]


def of_words() -> list[str]:
    """Returns the facts about table 1."""
    columns = ("copy", "reverse", "repeat")
    for column, scheme in itertools.product(columns, ("none", "sinusoidal", "relative", "rope", "orthogonal-seq")):
        assert len(each(column, scheme)) == 3
    for column in columns[1:]:
        assert all(x > y for x, y in zip(each(column, "rope"), each(column, "orthogonal-seq"), strict=True))
    clipped = score("repeat", "relative", "max_size=100")
    assert clipped > max(each("repeat", "relative"))
    without = scores("repeat", "none", preset="medium", metric="exact_match")
    assert without == [0, 0, 0]
    more = [score(column, "none") - theirs("sinusoidal", column) for column in columns[:2]]
    return [
        "`sinusoidal` scores {:.2f} on `copy`, {:.2f} on `reverse` and {:.2f} on `repeat` here".format(
            *(score(column, "sinusoidal") for column in columns)
        ),
        "`none`, scores {:.2f} on `copy` and {:.2f} on `reverse`".format(*(score(c, "none") for c in columns[:2])),
        "it scores {:.2f}, {:.2f} and {:.2f} with the three seeds".format(*each("repeat", "none")),
        "`none` scores {:.1f} and {:.1f} points more than the preprint's `sinusoidal` on `copy` and `reverse`".format(
            *more
        ),
        f"`relative` scores {score('reverse', 'relative'):.2f} on `reverse` here",
        f"`orthogonal-seq` scores {score('reverse', 'orthogonal-seq'):.2f} on `reverse` here",
        f"On `repeat` it scores {score('repeat', 'orthogonal-seq'):.2f}",
        f"`rope` scores {score('repeat', 'rope'):.2f} on `repeat` here",
        "On `repeat`, the seeds of `relative` score {:.2f}, {:.2f} and {:.2f}".format(*each("repeat", "relative")),
        f"offsets at the mean length scores {clipped:.2f}",
    ]


def _seeds(order: str) -> list[int]:
    """Returns the least and the largest number of seeds of a cell in the columns of an order."""
    counts = [len(each(f"{task}/{order}", scheme)) for task in TASKS for scheme in SCHEMES]
    return [min(counts), max(counts)]


def of_trees() -> list[str]:
    """Returns the facts about table 2."""
    assert [_seeds(order) for order in ORDERS] == [[3, 3], [3, 3], [3, 3]], "the page says how many seeds a cell has"
    for column in (f"{task}/{order}" for task in TASKS for order in ORDERS):
        own = dict(zip(SCHEMES, (each(column, scheme) for scheme in SCHEMES), strict=True))
        if not column.startswith("tree-copy"):
            flat_or_tree = max(max(own[scheme]) for scheme in SCHEMES if scheme != "orthogonal-tree")
            assert min(own["orthogonal-tree"]) > flat_or_tree, "ahead whatever the seeds"
        if column.endswith("/breadth-to-depth"):
            assert min(own["tree"]) > max(max(own[scheme]) for scheme in FLAT)
    below = []
    for task in TASKS[:3]:
        best = score(f"{task}/breadth-to-depth", "orthogonal-tree")
        assert (f"{best:.2f}" == "100.00") == (task != "tree-rotate")
        below.append(math.floor(best - max(score(f"{task}/breadth-to-depth", scheme) for scheme in FLAT)))
    gained = {
        f"{task}/{order}": first(f"{task}/{order}", "tree") - first(f"{task}/{order}", "tree", "max_size=7")
        for task in TASKS
        for order in ("breadth", "breadth-to-depth")
    }
    most = gained.pop("c3/breadth")
    low, high = min(gained.values()), max(gained.values())
    copied = {scheme: score("tree-copy/breadth", scheme) for scheme in SCHEMES}
    assert max(abs(copied[scheme] - theirs(scheme, "tree-copy/breadth")) for scheme in POSITIONED) < 1
    assert copied["sinusoidal"] > max(copied["tree"], copied["orthogonal-tree"])
    exact = {
        order: {s: scores(f"tree-ops/{order}", s, preset="medium", metric="exact_match") for s in SCHEMES}
        for order in ORDERS
    }
    worst = min(min(exact["breadth"][scheme]) for scheme in FLAT)
    assert max(exact["breadth"]["orthogonal-tree"]) < worst
    assert max(exact["depth"]["orthogonal-tree"]) < min(exact["depth"]["orthogonal-seq"])
    for column in (f"{task}/{order}" for task in TASKS[2:] for order in ORDERS):
        assert all(score(column, scheme) > theirs(scheme, column) for scheme in ("tree", "orthogonal-tree"))
    both = [each("tree-ops/breadth", scheme) for scheme in ("tree", "sinusoidal")]
    assert {x > y for x, y in zip(*both, strict=False)} == {True, False}, "tree and sinusoidal are about equal"
    assert max(both[0]) < min(each("tree-ops/breadth", "rope"))
    worth = {task: [mirrored(task, scheme, "medium") for scheme in FLAT] for task in TASKS}
    cells = [(theirs(s, f"{t}/depth"), s, t) for t in TASKS for s in FLAT[1:]]
    above = [number - score(f"{task}/breadth-to-depth", scheme) for number, scheme, task in cells]
    under = [score(f"{task}/depth", scheme) - number for number, scheme, task in cells]
    assert min(above) > 0
    assert min(under) > 0
    return [
        f"{low:.1f} to {high:.1f} points in seven columns and {most:.1f} in `c3/breadth`",
        "The flat schemes are {} points or more below it on `tree-copy`, {} on `tree-rotate` and {} on `c3`".format(
            *below
        ),
        "`orthogonal-tree` scores {:.2f} on `tree-ops/breadth-to-depth`".format(
            score("tree-ops/breadth-to-depth", "orthogonal-tree")
        ),
        "`tree` scores {:.2f} on `c3/breadth`, {:.2f} on `c3/breadth-to-depth`, {:.2f} on `tree-ops/breadth` and "
        "{:.2f} on `tree-ops/breadth-to-depth`".format(
            *(score(f"{task}/{order}", "tree") for task in TASKS[2:] for order in ("breadth", "breadth-to-depth"))
        ),
        f"`sinusoidal` scores {copied['sinusoidal']:.2f}, above both tree schemes",
        f"`sinusoidal` scores {score('tree-rotate/breadth', 'sinusoidal'):.2f} on `tree-rotate/breadth`",
        f"(its best seed scores {max(exact['breadth']['orthogonal-tree']):.1f}, their worst {worst:.1f})",
        "In exact match, `tree` scores {:.1f} and `sinusoidal` {:.1f}".format(
            *(statistics.mean(exact["breadth"][scheme]) for scheme in ("tree", "sinusoidal"))
        ),
        "; ".join(f"`{task}`: {range_of(values)}{' points' * (task == TASKS[0])}" for task, values in worth.items()),
        f"{range_of(above)} points above our `breadth-to-depth` and {range_of(under)} points below our `depth`",
    ]


def of_the_size_of_trees() -> list[str]:
    """Returns the fact on the page of preset small about `sinusoidal` at preset medium."""
    columns = [f"{task}/{order}" for task in TASKS for order in ("breadth", "breadth-to-depth")]
    above = {
        preset: {c: mean(c, "sinusoidal", preset=preset) - theirs("sinusoidal", c) for c in columns}
        for preset in ("small", "medium")
    }
    assert min(above["medium"].values()) > 0, "above the preprint in all eight columns"
    more = {column for column in columns if above["medium"][column] > above["small"][column]}
    assert more - {"c3/breadth"} == {f"{task}/breadth" for task in TASKS if task != "c3"} | {"c3/breadth-to-depth"}
    return [f"on `tree-ops`, by only {above['medium']['tree-ops/breadth-to-depth']:.1f} points"]


def of_rotations() -> list[str]:
    """Returns the facts about three forms of tree-rotate."""
    forms = {"mirror": "tree-rotate/{}", "root": "tree-rotate-{}-root", "search-tree": "tree-rotate-{}-search-tree"}
    near, far = {}, []
    for form, name in forms.items():
        for order in ("breadth", "breadth-to-depth"):
            gaps = {s: first(name.format(order), s) - theirs(s, f"tree-rotate/{order}") for s in POSITIONED}
            spread = {s: 100 * (preprint(s, f"tree-rotate/{order}").spread or 0) for s in POSITIONED}
            near[form, order] = sum(abs(gaps[s]) <= 2 * spread[s] for s in POSITIONED)
            if order == "breadth-to-depth":
                far += [-gaps[s] for s in FLAT[1:]]
    words = ["none", "one", "two", "three", "four"]
    counts = [words[near[form, "breadth"]] for form in ("root", "mirror", "search-tree")]
    assert max(near[form, "breadth-to-depth"] for form in forms) < 2, "no form fits"
    marked = {form: first(name.format("breadth"), "sinusoidal") for form, name in forms.items()}
    assert min(marked, key=marked.__getitem__) == "search-tree", "nearest to the preprint's number, which is lower"
    assert min(marked.values()) > theirs("sinusoidal", "tree-rotate/breadth")
    missed = first("tree-rotate/breadth", "orthogonal-seq") - theirs("orthogonal-seq", "tree-rotate/breadth")
    missed -= 200 * (preprint("orthogonal-seq", "tree-rotate/breadth").spread or 0)
    low = [theirs(s, "tree-rotate/breadth") - first(forms["search-tree"].format("breadth"), s) for s in FLAT[1:]]
    return [
        "all {} of its schemes are within two standard deviations".format(*counts),
        "the mirror image, {} are, and for `rotation right`, {}".format(*counts[1:]),
        f"`orthogonal-seq` misses by {missed:.2f} points",
        f"`rope` and `orthogonal-seq` are {range_of(far)} points below the preprint in all three forms",
        f"`rope` and `orthogonal-seq` are {range_of(low)} points below the preprint in `breadth`",
    ]


def of_the_first_release() -> list[str]:
    """Returns the facts about settings of the authors' first release."""
    column = "tree-rotate/breadth"
    hidden = [first(column, scheme, "positions_scale=0.044") for scheme in ("sinusoidal", "tree")]
    none = first(column, "none")
    assert max(abs(value - none) for value in hidden) < 1
    dropped = ["dropout=0.15", "dropout=0.15, dropout_places=branches"]
    pairs = [first(column, scheme, variant) for variant in dropped for scheme in ("sinusoidal", "tree")]
    truncated = [first("tree-rotate-breadth-truncated", scheme) for scheme in ("sinusoidal", "tree")]
    return [
        f"`sinusoidal` scores {hidden[0]:.2f} and `tree` {hidden[1]:.2f}, about as much as `none` ({none:.2f})",
        "in all places, they score {:.2f} and {:.2f}; on the outputs of branches alone, {:.2f} and {:.2f}".format(
            *pairs
        ),
        "they score {:.2f} and {:.2f}. The first is below all three seeds".format(*truncated),
        "Without dropout, these are {:.2f} and {:.2f}".format(first(column, "sinusoidal"), first(column, "tree")),
        "on the usual trees ({:.2f}, {:.2f} and {:.2f})".format(*each(column, "sinusoidal")),
    ]


def of_causes() -> list[str]:
    """Returns the facts about suspected causes of other numbers."""
    columns = [f"{task}/{order}" for task in ("c3", "tree-ops") for order in ("breadth", "breadth-to-depth")]
    mixed = {column: first(column, "tree-interleaved") for column in columns}
    for column in columns:
        number, spread = preprint("tree", column)[-2:]
        assert (abs(mixed[column] - 100 * number) <= 100 * spread) == column.startswith("c3")
        assert mixed[column] < first(column, "tree")
        assert abs(first(column, "tree", "positions_scale=0.044") - first(column, "none")) < 1
    unmarked = [first("reverse-unmarked", scheme) for scheme in ("relative", "rope")]
    return [
        f"`relative-unscaled` scores {first('reverse', 'relative-unscaled'):.2f}",
        "On `reverse-unmarked`, `relative` scores {:.2f} and `rope` {:.2f}".format(*unmarked),
        f"it scores {first('reverse-unmarked', 'relative-unscaled', 'max_size=100'):.2f}",
        "`tree-interleaved` scores {:.2f} and {:.2f}".format(*(mixed[c] for c in columns[:2])),
        "where `tree` scores {:.2f} and {:.2f} with the same seed".format(*(first(c, "tree") for c in columns[:2])),
        "it stays high: it scores {:.2f} and {:.2f}".format(
            *(first(f"{task}/breadth", "tree-interleaved") for task in ("tree-copy", "tree-rotate"))
        ),
        "it scores {:.2f} and {:.2f}, where `tree` scores {:.2f} and {:.2f}".format(
            *(mixed[c] for c in columns[2:]), *(first(c, "tree") for c in columns[2:])
        ),
    ]

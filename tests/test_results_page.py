"""Each number in the text of results/README.md is in a committed table or follows from the committed runs.

A fact is a phrase with numbers that are computed here. The page has to contain it word for word.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import statistics
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ape_cli import tasks
from ape_cli.reports import paper
from ape_cli.runs.registry import open_registry

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGE = (RESULTS / "README.md").read_text(encoding="utf-8")
PROSE = re.sub(r"<!-- (\S+) -->\n.*?<!-- end -->", "", PAGE, flags=re.S)  # another test compares the tables
NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?!\w|\.\d)")

Key = tuple[str, str, str, str]  # preset, column, scheme, variant (settings that differ)


@cache
def evaluations() -> dict[Key, dict[int, list[dict[str, Any]]]]:
    """Returns every teacher-forced evaluation on test rows, by key and seed. The run's own dataset comes first."""
    found: dict[Key, dict[int, list[dict[str, Any]]]] = {}
    for run, about in open_registry(RESULTS).sound([]):
        config, data = about["config"], about["dataset"]
        column = f"{data['task']}/{data['order']}" if data["order"] else data["task"]
        column = data["name"] if data["task"] == "trees" else column  # several datasets
        variant = ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in about["variant"].items())
        mine = [e for e in run.evaluations()[0] if (e["split"], e["decode"]) == ("test", "teacher")]
        mine.sort(key=lambda e: e["fingerprint"] != data["fingerprint"])
        found.setdefault((config["preset"], column, config["scheme"], variant), {})[config["seed"]] = mine
    return found


def scores(column: str, scheme: str, variant: str = "", preset: str = "small", metric: str = "token_accuracy") -> list:
    """Returns the scores on the run's own dataset in percent, in the order of the seeds."""
    by_seed = evaluations()[preset, column, scheme, variant]
    return [100 * by_seed[seed][0]["overall"][metric] for seed in sorted(by_seed)]


def mean(column: str, scheme: str, variant: str = "", preset: str = "small", metric: str = "token_accuracy") -> float:
    return statistics.mean(scores(column, scheme, variant, preset, metric))


def guessing(length_mean: float, length_std: float) -> float:
    """Returns how often the most frequent of the remaining symbols is the next one.

    A model without positions can do no better. Words are over an alphabet of 20 symbols. The end token is guessed when
    no symbol remains.
    """
    rng = np.random.default_rng(0)
    right = total = 0
    for length in np.rint(rng.normal(length_mean, length_std, 1_000)).astype(int):
        word = rng.integers(0, 20, length)
        left = np.bincount(word, minlength=20)
        for symbol in word:
            right += int(left.argmax() == symbol)
            left[symbol] -= 1
        right, total = right + 1, total + length + 1
    return right / total


def other_processor() -> tuple[str, str]:
    """Returns token accuracy and exact match of the same run on two processors, as phrases."""
    (again,) = open_registry(RESULTS / "processors")
    told = []
    for folder in (RESULTS / "runs" / again.name, RESULTS / "processors" / "runs" / again.name):
        (path,) = (p for p in (folder / "eval").iterdir() if p.name.startswith("92141d735e17"))
        overall = json.loads(path.read_text())["overall"]
        told.append(
            f"{100 * overall['token_accuracy']:.2f} token accuracy and {100 * overall['exact_match']:.1f} exact match"
        )
    return told[0], told[1]


def rows_by_size(column: str) -> dict[int, int]:
    """Returns the number of rows of each size in the older, wider test set."""
    (wider,) = (e for e in evaluations()["small", column, "rope", ""][42] if e["dataset"].endswith("-longer"))
    return {line["size"]: line["rows"] for line in wider["by_size"]}


def among(rows: dict[int, int], low: int, high: int) -> int:
    return sum(count for size, count in rows.items() if low <= size <= high)


def best_by_epoch() -> tuple[float, float]:
    """Returns the least and the largest gap, in points, from the kept weights' test accuracy to the best epoch's."""
    lines = (RESULTS / "tables" / "digits-by-epoch.md").read_text(encoding="utf-8").split("### ")
    ends = [
        [float(NUMBER.findall(row.split("|")[3])[0]) for row in part.splitlines() if "±" in row and row[0] == "|"]
        for part in lines[2:]
    ]
    gaps = [best - chosen for chosen, best in zip(*ends, strict=True)]
    return min(gaps), max(gaps)


TASKS, ORDERS = ("tree-copy", "tree-rotate", "c3", "tree-ops"), ("breadth", "depth", "breadth-to-depth")
COLUMNS = [f"{task}/{order}" for task in TASKS for order in ORDERS]
SCHEMES = ("sinusoidal", "tree", "rope", "orthogonal-seq", "orthogonal-tree")
FLAT = ("sinusoidal", "rope", "orthogonal-seq")


def mirrored(task: str, scheme: str) -> float:
    """Returns by how many points `depth` is above `breadth-to-depth`, over the seeds that both have."""
    whole, mixed = (evaluations()["small", f"{task}/{order}", scheme, ""] for order in ORDERS[1:])
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
    """Returns by how many points the locality bias raises token accuracy, for each seed."""
    own, other = (
        evaluations()["small", column, scheme, variant] for variant in ("", f"decay={1 if 'orth' in scheme else 0.98}")
    )
    sign = 1 if "orth" in scheme else -1
    return [
        sign * 100 * (own[seed][0]["overall"]["token_accuracy"] - other[seed][0]["overall"]["token_accuracy"])
        for seed in sorted(own.keys() & other.keys())
    ]


def of_the_bias() -> list[str]:
    """Returns the facts about the locality bias on trees."""
    columns, scheme = ("tree-rotate/depth", "c3/breadth", "tree-ops/breadth"), "orthogonal-tree"
    apart = max(abs(mean(column, scheme, "decay=1") - mean(column, scheme)) for column in columns)
    for column in columns:
        assert min(mean(column, scheme), mean(column, scheme, "decay=1")) > max(
            mean(column, other, variant)
            for other in SCHEMES
            if other != scheme
            for variant in ("", "decay=1" if "orth" in other else "decay=0.98")
        )
    cells = [("c3/breadth", "sinusoidal"), ("tree-ops/breadth", "sinusoidal"), ("tree-rotate/depth", "tree")]
    assert all(len(gains(*cell)) == 3 and min(gains(*cell)) > 0 for cell in cells)
    more = [statistics.mean(gains(*cell)) for cell in cells]
    changed = {
        scheme: "{:+.1f}, {:+.1f} and {:+.1f}".format(*gains("c3/breadth", scheme))
        for scheme in ("tree", "orthogonal-seq")
    }
    return [
        f"within {apart:.1f} points of its means with it",
        f"`sinusoidal` gains {more[0]:.1f} points on `c3/breadth` and {more[1]:.1f} points on `tree-ops/breadth`",
        f"`tree` gains {more[2]:.1f} points",
        f"the three seeds of `tree` by {changed['tree']}",
        f"those of `orthogonal-seq` by {changed['orthogonal-seq']}",
        f"p-value of the exact sign-flip test is {2 / 2**3}",
    ]


def single_nodes() -> float:
    """Returns the share of single nodes among the subtrees that test rows extract."""
    table = tasks.make("tree-ops", depth_mean=4).sample(rows=range(1_000), split="test", seed=42).to_pylist()
    lengths = [len(row["target_ids"]) for row in table if row["op"] in ("extract", "flip-extract")]
    return lengths.count(1) / len(lengths)


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
        f"has the best mean in {best.count('orthogonal-tree')} of {len(COLUMNS)} columns",
        f"not: {copies['rope']:.2f} and {copies['orthogonal-seq']:.2f}",
        f"{range_of(below['breadth-to-depth'])} points below `breadth` in `breadth-to-depth`, and at most",
        f"at most {max(below['depth']):.1f} points below it in `depth`",
        f"worth {worth['tree-copy']} points to the flat schemes",
        f"{worth['tree-rotate']} on `tree-rotate`, {worth['c3']} on `c3` and {worth['tree-ops']} on `tree-ops`",
        f"differ by at most {tree:.1f} points",
        f"at most {max(extract.values()):.1f} token accuracy for `extract` and {max(flip.values()):.1f}",
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


def of_medium() -> list[str]:
    """Returns the facts about tables 1 and 2 at preset medium."""

    def score(task: str, scheme: str) -> float:
        return mean(task, scheme, preset="medium")

    configs = [about["config"] for _, about in open_registry(RESULTS).sound([])]
    seeds = {c["seed"] for c in configs if c["preset"] == "medium"}
    assert seeds == {42}, "the page says that every cell has one seed"
    words = "`sinusoidal` has {:.2f} on `copy`, {:.2f} on `reverse` and {:.2f} on `repeat` here"
    without = "`none`, has {:.2f} on `copy`, {:.2f} on `reverse` and {:.2f} on `repeat`"
    same = {scheme: score("tree-copy/breadth", scheme) for scheme in SCHEMES}
    assert same["sinusoidal"] > max(same["tree"], same["orthogonal-tree"])
    turned = {scheme: score("tree-rotate/breadth", scheme) for scheme in SCHEMES}
    assert max(turned, key=turned.__getitem__) == "orthogonal-tree"
    theirs = {scheme: 100 * paper.scores()[scheme, "tree-copy/breadth"][0] for scheme in SCHEMES}
    assert max(abs(same[scheme] - theirs[scheme]) for scheme in SCHEMES if scheme != "sinusoidal") < 1
    composed = {scheme: score("c3/breadth", scheme) for scheme in SCHEMES}
    assert max(composed, key=composed.__getitem__) == "orthogonal-tree"
    evaluated = {scheme: score("tree-ops/breadth", scheme) for scheme in SCHEMES}
    assert max(evaluated, key=evaluated.__getitem__) == "orthogonal-tree"
    assert evaluated["tree"] < min(evaluated[scheme] for scheme in FLAT)
    below = []
    for task in ("tree-copy", "tree-rotate", "c3", "tree-ops"):
        column = f"{task}/breadth-to-depth"
        flat = max(score(column, scheme) for scheme in FLAT)
        assert min(score(column, "tree"), score(column, "orthogonal-tree")) > flat
        for scheme in ("rope", "orthogonal-seq"):
            assert score(column, scheme) < 100 * paper.scores()[scheme, column][0]
        if task != "tree-ops":
            best = score(column, "orthogonal-tree")
            assert (f"{best:.2f}" == "100.00") == (task != "tree-rotate")
            below.append(math.floor(best - flat))
    return [
        words.format(*(score(task, "sinusoidal") for task in ("copy", "reverse", "repeat"))),
        without.format(*(score(task, "none") for task in ("copy", "reverse", "repeat"))),
        f"`orthogonal-seq` has {score('reverse', 'orthogonal-seq'):.2f} on `reverse` here",
        f"schemes are {below[0]} points or more below it",
        f"they are {below[1]} points or more below it, and on `c3` {below[2]}",
        f"`orthogonal-tree` has {score('tree-ops/breadth-to-depth', 'orthogonal-tree'):.2f} on `tree-ops`",
        "`tree` has {:.2f} on `c3` and {:.2f} on `tree-ops`".format(
            *(score(f"{task}/breadth-to-depth", "tree") for task in ("c3", "tree-ops"))
        ),
        f"`sinusoidal` has {same['sinusoidal']:.2f}, above both tree schemes",
        f"On `repeat` it has {score('repeat', 'orthogonal-seq'):.2f}",
        f"`rope` has {score('repeat', 'rope'):.2f} on `repeat` here",
        f"`relative` has {score('repeat', 'relative'):.2f} here",
        f"`orthogonal-tree` is ahead with {composed['orthogonal-tree']:.2f},",
        f"it is ahead with {evaluated['orthogonal-tree']:.2f},",
        f"`tree` has {evaluated['tree']:.2f}, below all three flat schemes",
        f"`sinusoidal` has {evaluated['sinusoidal']:.2f}. In the paper",
        f"`orthogonal-tree` is ahead with {turned['orthogonal-tree']:.2f}.",
        f"`sinusoidal` has {turned['sinusoidal']:.2f} there",
    ]


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
    assert max(exact(column, "t5") - exact(column, "none") for column in SEQUENCES if column != "group-word") < 6
    most = ["no", "one", "two", "three", "four", "five", "six"][first.count("orthogonal-seq")]
    by_size = evaluations()["small", "quadtree-expand", "rope", ""][42][0]["by_size"]
    shallow = sum(line["rows"] for line in by_size if line["size"] <= 1) / sum(line["rows"] for line in by_size)
    flat = [
        evaluations()["small", "quadtree-expand", scheme, ""][42][0]["by_size"]
        for scheme in ("sinusoidal", "rope", "orthogonal-seq")
    ]
    assert not any(line["exact_match"] for lines in flat for line in lines if line["size"] > 1)
    assert all(line["exact_match"] > 0.95 for lines in flat for line in lines if line["size"] <= 1)
    answers = tasks.make("modular", **tasks.load("modular").preset_options["small"])
    names = [answers.id_names[row[0]] for row in _test_rows(answers)["target_ids"].to_pylist()]
    (seeds,) = {len(scores(column, scheme)) for column in SEQUENCES for scheme in schemes[column]}
    return [
        f"They have preset `small`. Each cell has {_seeds(seeds)}",
        f"It has {listed([exact(column, 'orthogonal') for column in composite])} on",
        f"The best of the other schemes has {listed([best(column, 'orthogonal') for column in composite])}. These",
        f"by {min(exact(c, 'orthogonal') - best(c, 'orthogonal') for c in composite):.0f} points or more",
        f"{shallow:.0%} of the test rows have depth 0 or 1",
        "`orthogonal-tree` has {:.1f} on `tree-query` and {:.1f} on `list-ops-tree`. The best of the other schemes has "
        "{:.1f} and {:.1f}.".format(
            *(exact(column, "orthogonal-tree") for column in trees), *(best(c, "orthogonal-tree") for c in trees)
        ),
        "`orthogonal-grid` has {:.1f} on `box-rotate` and {:.1f} on `grid-path`. The best of the other schemes has "
        "{:.1f} and {:.1f}.".format(
            *(exact(column, "orthogonal-grid") for column in grids), *(best(c, "orthogonal-grid") for c in grids)
        ),
        f"has the best score in {most} of seven columns",
        f"learns `group-word` ({exact('group-word', 't5'):.1f})",
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


def of_the_paper_s_size() -> list[str]:
    """Returns the facts about the runs at the paper's size: the first epochs of one of them."""
    wanted = ("paper", "sinusoidal", 42, "tree-rotate", "breadth")
    (run,) = (
        run
        for run, about in open_registry(RESULTS).sound([])
        if (
            *(about["config"][k] for k in ("preset", "scheme", "seed")),
            *(about["dataset"][k] for k in ("task", "order")),
        )
        == wanted
    )
    history = run.history()
    five, ten = (100 * history["validation_token_accuracy"][i] for i in (0, 1))
    assert history["step"].to_list()[:2] == [785, 1570]
    return [f"has {five:.1f} after 5 of the 200 epochs", f"{ten:.1f} after 10."]


def facts() -> list[str]:
    first, again = other_processor()
    words, trees = rows_by_size("reverse"), rows_by_size("tree-copy/breadth")
    by_op = evaluations()["small", "tree-ops/breadth", "rope", ""][42][0]["by_op"]
    copied = sum(o["tokens"] for o in by_op if o["op"] in ("truncate", "no-op")) / sum(o["tokens"] for o in by_op)
    deep = [among(rows_by_size(f"{task}/breadth"), 10, 11) for task in ("tree-ops", "c3", "tree-copy")]
    seeds = scores("c3/breadth", "tree")
    images = [round(359 * scores("images", s, v)[0] / 100) for s, v in PIXELS]
    (right,) = (round(359 * float(score) / 100) for score in shuffled("learned", "pool_size=1"))
    above_chance = sum(math.comb(359, k) * 9 ** (359 - k) for k in range(right, 360)) / 10**359
    low, high = best_by_epoch()
    return [
        f"has {first}",
        f"had {again}",
        f"right for about {guessing(100, 10):.0%} of the tokens, and at ours for about {guessing(20, 2):.0%}",
        f"{copied:.0%} of its target tokens",
        f"{among(words, 12, 28) / 1000:.0%} of these words have a length that occurs in training",
        f"{among(trees, 0, 8) / 1000:.0%} of the trees have a depth that occurs in training",
        f"{among(words, 67, 99)} words of 67 symbols or more",
        f"{min(deep)} to {max(deep)} trees of depth 10 or 11",
        f"differ by {max(seeds) - min(seeds):.1f} points",
        f"one test image is {100 / 359:.2f} points",
        f"{images[1] - images[0]} of 359 images",
        f"({right} of 359 images; a binomial test against one in ten gives p = {above_chance:.3f})",
        f"{low:.1f} to {high:.1f} points above",
        *of_trees(),
        *of_the_bias(),
        *of_medium(),
        *of_tasks(),
        *of_natural_trees(),
        *of_the_paper_s_size(),
    ]


_PIXEL = "batch_size=32, convolution_size=1, pool_size=1, pool_stride=1"
PIXELS = [("orthogonal-seq", _PIXEL), ("orthogonal-grid", _PIXEL)]


@pytest.mark.parametrize("phrase", facts())
def test_the_page_says_what_follows_from_the_runs(phrase: str) -> None:
    assert phrase in " ".join(PROSE.split())


def test_numbers_are_found_wherever_they_stand() -> None:
    text = "79.02. (78.3) 99.9, +0.90 ±0.3: 2.13.0, v1.5, 3, 52.57.\n97.12"
    assert NUMBER.findall(text) == ["79.02", "78.3", "99.9", "0.90", "0.3", "52.57", "97.12"]


@pytest.mark.slow
def test_every_decimal_number_has_a_source() -> None:
    """The source is a committed table, a table of the paper, a fact or a setting. Text in backquotes is skipped."""
    tables = "".join(path.read_text(encoding="utf-8") for path in (RESULTS / "tables").glob("*.md"))
    published = {f"{100 * score:.2f}" for score, _ in paper.scores().values()}
    known = {*NUMBER.findall(tables), *published, *NUMBER.findall(" ".join(facts()))}
    known |= shuffled()
    known |= {"2.13", "2.11", "0.15"}  # versions of PyTorch and the paper's dropout
    known |= {"3.11"}  # the Python whose standard library the natural trees are from
    known |= {"0.98", "1.5"}  # the paper's locality bias and the standard deviation of a test set
    asked = NUMBER.findall(re.sub(r"`[^`]*`", "", PROSE))
    assert len(asked) > 30
    assert sorted({number for number in asked if number not in known}) == []


def test_the_settings_that_it_names_are_those_of_the_runs() -> None:
    """Checks the numbers that the test above accepts as settings."""
    about = [about for _, about in open_registry(RESULTS).sound([])]
    versions = {(a["config"]["preset"] == "paper", ".".join(a["versions"]["torch"].split(".")[:2])) for a in about}
    assert versions == {(False, "2.13"), (True, "2.11")}
    assert {a["config"]["dropout"] for a in about if a["config"]["preset"] == "paper"} == {0.15}
    assert {a["gpu"] for a in about if a["config"]["preset"] == "paper"} == {"NVIDIA H100 80GB HBM3"}
    sources = {a["dataset"]["parameters"]["sha256"] for a in about if a["dataset"]["task"] == "trees"}
    assert len(sources) == 1, "all natural trees are from the same files"
    biases = {a["config"]["decay"] for a in about if a["config"]["scheme"] == "orthogonal-tree" and not a["variant"]}
    assert biases == {0.98}

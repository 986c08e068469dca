"""trees: users' own trees from files to rows. Each target is re-derived from the files or from its source."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ape_cli import tasks
from ape_cli.core.errors import DataError, UsageError
from ape_cli.core.vocabulary import SPLITS
from ape_cli.storage import sequence_rows, tree_sources
from tests import recursive
from tests.tasks.contract import check_uniform, in_splits

LETTERS = "abcdefgh"
ROWS = 500  # that are checked of a split
CONTENT = {  # of 50 rows of a random source
    "copy": 7294819966202403137,
    "rotate": 2461311354835940767,
    "query": 9635978128561180705,
    "convert": 18083030929847303427,
    "mask": 1399174512173564169,
}
FORMS: list[dict[str, Any]] = [{"branching": 3}, {"binarise": True}, {"branching": 5}]


def random_tree(rng: random.Random, depth: int = 3) -> recursive.Tree:
    """A tree of letters, whose nodes have at most three children."""
    return (rng.choice(LETTERS), *(random_tree(rng, depth - 1) for _ in range(rng.randint(0, 3) if depth else 0)))


def document(tree: recursive.Tree) -> dict[str, Any]:
    return {"label": tree[0], "children": [document(child) for child in tree[1:]]}


def write(path: Path, trees: list[recursive.Tree]) -> Path:
    path.write_text("".join(json.dumps(document(tree)) + "\n" for tree in trees))
    return path


@pytest.fixture(autouse=True, scope="module")
def read_once() -> Iterator[None]:
    """Files are read once, although many tests make tasks from them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ape_cli.tasks.trees.read_trees", cache(tree_sources.read_trees))
        yield


@pytest.fixture(scope="module")
def drawn() -> list[recursive.Tree]:
    rng = random.Random(3)
    found = (random_tree(rng, depth=2) for _ in range(20_000))
    return list(dict.fromkeys(tree for tree in found if tree[1:]))[:7_000]


@pytest.fixture(scope="module")
def lines(drawn: list[recursive.Tree], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("lines") / "letters.jsonl", drawn)


def test_rows_of_a_source_stay_what_they_are(tmp_path: Path) -> None:
    """If this fails, existing datasets of users' trees can no longer be regenerated."""
    rng = random.Random(5)
    source = write(tmp_path / "a.jsonl", list(dict.fromkeys(random_tree(rng) for _ in range(200))))
    for name, content in CONTENT.items():
        task = tasks.make("trees", source=str(source), task=name)
        found = task.sample(rows=range(50), split="train", seed=42)
        assert sequence_rows.content(found)[0] == content, name


def built(names: list[str], positions: list[int], form: dict[str, Any], order: str) -> recursive.Tree:
    """The tree of one side. Fails if it is not in the order, or if a node has no parent or an earlier sibling."""
    if form.get("binarise"):
        binary = recursive.build_binary(names, positions)  # type: ignore[arg-type]
        assert recursive.linear_binary(binary, order) == list(zip(names, positions, strict=True))
        return recursive.unbinarise(binary)
    k = form["branching"]
    tree = recursive.build(names, positions, k, full=False)
    assert recursive.linear(tree, order, k) == list(zip(names, positions, strict=True))
    return tree


def rows(task: tasks.BaseTask, split: str, count: int | None = ROWS, seed: int = 42) -> list[dict[str, Any]]:
    """Rows of a split with names in place of ids; all rows for None."""
    there = task.rows(dict.fromkeys(SPLITS), seed)[split]
    table = task.sample(rows=range(there if count is None else count), split=split, seed=seed).to_pylist()
    for row in table:
        for side in ("source", "target"):
            row[side] = [task.id_names[i] for i in row[f"{side}_ids"]]
    return table


def check(
    task: tasks.BaseTask, form: dict[str, Any], expected: Callable[[recursive.Tree], recursive.Tree], count: int
) -> None:
    """Check `count` rows of each split, and that no source is in two of them."""
    sources: dict[str, set[recursive.Tree]] = {}
    for split in SPLITS:
        sources[split] = set()
        for row in rows(task, split, count):
            source = built(row["source"], row["source_positions"], form, task.source_order or task.order or "")
            target = built(row["target"], row["target_positions"], form, task.order or "")
            assert target == expected(source)
            sources[split].add(source)
        assert len(sources[split]) == count
    assert sum(map(len, sources.values())) == len(set().union(*sources.values()))


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("name", ["copy", "rotate", "convert"])
def test_copy_rotate_and_convert_are_rederived(name: str, form: dict[str, Any], lines: Path) -> None:
    for order in ["breadth", "depth"]:
        task = tasks.make("trees", order, source=str(lines), task=name, **form)
        assert (task.source_order is not None) == (name == "convert")
        count = ROWS if (form, order) == (FORMS[0], "breadth") else ROWS // 5
        check(task, form, recursive.mirror if name == "rotate" else lambda tree: tree, count)


@pytest.mark.parametrize(("form", "split"), in_splits(FORMS), ids=str)
def test_masks_are_rederived(form: dict[str, Any], split: str, lines: Path) -> None:
    """Beside a mask, source and tree agree. The tags are the labels of the masked nodes, and PAD elsewhere."""
    task = tasks.make("trees", "breadth", source=str(lines), task="mask", mask_rate=0.3, **form)
    assert task.tagged
    whole = tasks.make("trees", "breadth", source=str(lines), **form)
    trees = {tuple(row["source_positions"]): set() for row in rows(whole, split, None)}
    for row in rows(whole, split, None):
        trees[tuple(row["source_positions"])].add(tuple(row["source"]))
    hidden = nodes = 0
    for row in rows(task, split):
        source = dict(zip(row["source_positions"], row["source"], strict=True))
        assert row["target_positions"] == row["source_positions"]
        tags = zip(row["target_positions"], row["target"], strict=True)
        target = {place: tag for place, tag in tags if tag != "<pad>"}
        assert {place for place, name in source.items() if name == "<mask>"} == set(target)
        assert 1 not in target
        assert len(target) in (math.floor(share := 0.3 * (len(source) - 1)), math.ceil(share))
        assert len(target) >= 1
        restored = tuple((source | target).values())
        assert restored in trees[tuple(row["source_positions"])]  # the tree is one of this split
        hidden += len(target)
        nodes += len(source) - 1
    assert abs(hidden / nodes - 0.3) < 0.02  # rounding: at most half a node of each row, up or down


def test_unknown_labels_are_never_hidden(tmp_path: Path) -> None:
    """Each tree has eight common labels, of which two are hidden, and a rare one. Which two differs between trees."""
    path = write(tmp_path / "a.jsonl", [("r", *((letter,) for letter in LETTERS), (str(n),)) for n in range(100)])
    task = tasks.make("trees", source=str(path), task="mask", branching=9, mask_rate=0.25, min_count=20)
    hidden = set()
    for split in SPLITS:
        for row in rows(task, split, None):
            assert row["source"].count("<unknown>") == 1
            assert Counter(tag in LETTERS for tag in row["target"] if tag != "<pad>") == {True: 2}
            hidden.add(tuple(name == "<mask>" for name in row["source"]))
    assert len(hidden) > 20


def test_trees_with_too_few_labels_are_left_out_and_counted(tmp_path: Path) -> None:
    trees = [(str(n), *((letter,) for letter in LETTERS[: 4 + n % 2])) for n in range(100)]
    path = str(write(tmp_path / "a.jsonl", trees))
    task = tasks.make("trees", source=path, task="mask", branching=9, mask_rate=0.2)
    assert {len(row["source"]) for split in SPLITS for row in rows(task, split, None)} == {6}
    assert "left out: 50 trees (50.0%) with fewer than 5 labels that may be hidden (`mask_rate`)" in task.notes(42)
    with pytest.raises(DataError, match="enough labels to hide one"):
        tasks.make("trees", source=path, task="mask", branching=9).rows(dict.fromkeys(SPLITS), 42)


def test_no_masked_source_is_in_two_splits(tmp_path: Path) -> None:
    """One of two leaves is hidden, so different trees become the same source. One split keeps them."""
    trees: list[recursive.Tree] = [(root, (x,), (y,)) for root in LETTERS for x in LETTERS for y in LETTERS]
    path = str(write(tmp_path / "a.jsonl", trees))
    task = tasks.make("trees", source=path, task="mask", branching=3, mask_rate=0.5)
    found = [[tuple(row["source"]) for row in rows(task, split, None)] for split in SPLITS]
    assert sum(len(set(sources)) for sources in found) == len(set().union(*found))
    left_out = len(trees) - sum(map(len, found))
    assert left_out >= 10
    assert f"left out: {left_out} rows whose source, with hidden labels, is that of another split too" in task.notes(42)


def test_rows_do_not_depend_on_where_a_shard_begins(tmp_path: Path, drawn: list[recursive.Tree]) -> None:
    path = str(write(tmp_path / "a.jsonl", drawn[:400]))
    for name in ("rotate", "mask", "query"):
        task = tasks.make("trees", source=path, task=name, **({"mask_rate": 0.5} if name == "mask" else {}))
        whole = task.sample(rows=range(40), split="train", seed=3)
        assert task.sample(rows=range(10, 20), split="train", seed=3) == whole.slice(10, 10)


@pytest.mark.parametrize(("form", "split"), in_splits(FORMS), ids=str)
def test_queries_are_rederived(form: dict[str, Any], split: str, lines: Path) -> None:
    """The path is followed from the tree's root, branch by branch of the stored tree."""
    task = tasks.make("trees", "depth", source=str(lines), task="query", **form)
    k, asked = form.get("branching", 2), Counter()
    for row in rows(task, split):
        source = dict(zip(row["source_positions"], row["source"], strict=True))
        assert (source.pop(1), source.pop(2)) == ("<query>", "<at>")
        place, path = recursive.children(2, k)[0], []
        while place in source:
            path.append(int(source.pop(place).strip("<>")))
            place = recursive.children(place, k)[0]
        node = 3
        for branch in path:
            node = recursive.children(node, k)[branch - 1]
        assert path
        assert node in source  # only the tree is left
        below = {node: 1}
        expected = [(source[node], 1)]
        agenda = [node]
        while agenda:
            above = agenda.pop(0)
            for number, child in enumerate(recursive.children(above, k)):
                is_sibling = form.get("binarise") and number == 1 and above == node
                if child in source and not is_sibling:  # the right child of the root is its sibling
                    below[child] = recursive.children(below[above], k)[number]
                    expected.append((source[child], below[child]))
                    agenda.append(child)
        assert sorted(expected) == sorted(zip(row["target"], row["target_positions"], strict=True))
        asked[len(expected) > 1] += 1
    assert min(asked.values()) > 100


def test_anonymous_labels_keep_only_which_labels_are_equal(tmp_path: Path, drawn: list[recursive.Tree]) -> None:
    """Names are uniform, and change from tree to tree. The shapes and the pattern of equal labels stay."""
    path = str(write(tmp_path / "a.jsonl", drawn[:3_000]))
    task = tasks.make("trees", "depth", source=path, labels="anonymous", branching=3)
    plain = tasks.make("trees", "depth", source=path, branching=3)

    def pattern(names: list[str]) -> tuple[int, ...]:
        seen: dict[str, int] = {}
        return tuple(seen.setdefault(name, len(seen)) for name in names)

    assert task.id_names[3:] == [f"a{n}" for n in range(8)]
    found, expected, first = Counter(), Counter(), Counter()
    for split in SPLITS:
        for row in rows(task, split, None):
            assert row["source"] == row["target"]
            found[tuple(row["source_positions"]), pattern(row["source"])] += 1
            first[row["source"][0]] += 1
        for row in rows(plain, split, None):
            expected[tuple(row["source_positions"]), pattern(row["source"])] += 1
    assert found == expected
    check_uniform(first, 8)


@pytest.mark.parametrize("name", ["copy", "query", "mask"])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_means_are_those_of_the_rows(name: str, form: dict[str, Any], lines: Path) -> None:
    task = tasks.make("trees", source=str(lines), task=name, **form)
    found = [row for split in SPLITS for row in rows(task, split, None)]
    assert abs(sum(len(row["source"]) for row in found) / len(found) / task.mean_tokens - 1) < 0.02
    assert abs(sum(row["size"] for row in found) / len(found) - task.mean_size) < 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the task trees needs a file"),
        ({"source": "nowhere"}, "no such file, folder or pattern"),
        ({"binarise": True, "branching": 3}, "stored in one form"),
        ({"binarise": False}, "stored in one form"),
        ({"task": "mask", "mask_rate": 1.0}, "bad mask_rate"),
        ({"mask_rate": 0.2}, "`mask_rate` applies only to `task=mask`"),
        ({"labels": "anonymous", "min_count": 2}, "anonymous labels have no counts"),
        ({"task": "convert", "order": "depth", "source_order": "depth"}, "two different orders"),
    ],
)
def test_bad_options_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises((UsageError, DataError), match=message):
        tasks.make("trees", **options).mean_size  # noqa: B018 - it reads the source


@pytest.mark.parametrize(("name", "labels"), [("query", "token"), ("convert", "anonymous"), ("mask", "kind")])
def test_a_task_can_be_made_again_from_its_manifest(
    name: str, labels: str, tmp_path: Path, drawn: list[recursive.Tree]
) -> None:
    """Greedy decoding does this. Then the source is not needed."""
    path = write(tmp_path / "a.jsonl", drawn[:60])
    task = tasks.make("trees", "depth", source=str(path), task=name, labels=labels, unit="document")
    known = tasks.load("trees").recorded(task.parameters)
    again = tasks.make("trees", task.order, task.source_order, **known)
    assert (again.task, again.labels, again.structure) == (name, labels, "tree(2)")
    assert "source" not in known


def test_more_rows_than_there_are_trees(tmp_path: Path, drawn: list[recursive.Tree]) -> None:
    task = tasks.make("trees", source=str(write(tmp_path / "a.jsonl", drawn[:50])))
    with pytest.raises(UsageError, match="not have that many trees for train"):
        task.rows({"train": 1_000, "validation": None, "test": None}, 1)

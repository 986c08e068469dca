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
from ape_cli.tasks._tree_corpus import divided, held_out
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


def test_every_tree_is_in_exactly_one_split(lines: Path, drawn: list[recursive.Tree]) -> None:
    task = tasks.make("trees", "depth", source=str(lines), branching=3)
    found: list[recursive.Tree] = []
    sizes = {}
    for split in SPLITS:
        table = rows(task, split, None)
        found += [built(row["source"], row["source_positions"], {"branching": 3}, "depth") for row in table]
        sizes[split] = len(table)
    assert Counter(found) == Counter(drawn)
    assert sizes["test"] == sizes["validation"] == round(len(drawn) / 10)


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


def test_the_share_of_masked_nodes(tmp_path: Path) -> None:
    trees = [("r", *((letter,) for letter in LETTERS * 12), (str(n),)) for n in range(200)]
    path = write(tmp_path / "wide.jsonl", trees)
    task = tasks.make("trees", source=str(path), task="mask", branching=200, mask_rate=0.3)
    counts = Counter(row["source"].count("<mask>") for row in rows(task, "train", None))
    assert set(counts) == {29, 30}  # 0.3 of 97
    assert abs(counts[30] / counts.total() - 0.1) < 0.1  # 29.1 on average; 160 rows have a deviation of 0.024


def test_unknown_labels_are_never_hidden(tmp_path: Path) -> None:
    """Each tree has eight common labels, of which two are hidden, and a rare one."""
    path = write(tmp_path / "a.jsonl", [("r", *((letter,) for letter in LETTERS), (str(n),)) for n in range(100)])
    task = tasks.make("trees", source=str(path), task="mask", branching=9, mask_rate=0.25, min_count=20)
    for split in SPLITS:
        for row in rows(task, split, None):
            assert row["source"].count("<unknown>") == 1
            assert Counter(tag in LETTERS for tag in row["target"] if tag != "<pad>") == {True: 2}


def test_trees_with_too_few_labels_are_left_out_and_counted(tmp_path: Path) -> None:
    trees = [(str(n), *((letter,) for letter in LETTERS[: 4 + n % 2])) for n in range(100)]
    path = str(write(tmp_path / "a.jsonl", trees))
    task = tasks.make("trees", source=path, task="mask", branching=9, mask_rate=0.2)
    assert {len(row["source"]) for split in SPLITS for row in rows(task, split, None)} == {6}
    assert "left out: 50 trees (50.0%) with fewer than 5 labels that may be hidden (`mask_rate`)" in task.notes(42)
    with pytest.raises(DataError, match="enough labels to hide one"):
        tasks.make("trees", source=path, task="mask", branching=9).rows(dict.fromkeys(SPLITS), 42)


def test_which_nodes_are_masked_differs_from_tree_to_tree(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [("r", *((letter,) for letter in LETTERS), (str(n),)) for n in range(100)])
    found = rows(tasks.make("trees", source=str(path), task="mask", branching=9), "train", None)
    assert len({tuple(name == "<mask>" for name in row["source"]) for row in found}) > 20


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
        part, _ = task.portion(range(10, 30), "train", 3).sample_counted(rows=range(15, 20), split="train", seed=3)
        assert part == whole.slice(15, 5)


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


def test_equal_trees_are_in_one_split_and_near_copies_with_their_document(tmp_path: Path) -> None:
    """Forty documents. Each has 8 to 10 trees of its own, one that the next document has too, and one that all have.

    A tree of several documents is in the first split that one of them is in, in the order of `SPLITS`. Trees are told
    by their shapes, because labels of documents that are held out are not in the vocabulary.
    """

    def of_shape(number: int, below: int) -> str:
        """A tree whose root has the number in binary as children, and a chain of nodes below the last one."""
        bits = "".join("(a (a))" if number >> bit & 1 else "(a)" for bit in range(7))
        return f"(a {bits} {'(a ' * below}{')' * below})"

    own = [8 + number % 3 for number in range(40)]
    for number, count in enumerate(own):
        texts = [of_shape(number, below) for below in range(2, 2 + count)]
        texts += [of_shape(40 + shared % 40, 1) for shared in (number, number + 1)] + [of_shape(127, 1)]
        (tmp_path / f"{number:02}.sexp").write_text("\n".join(texts))
    task = tasks.make("trees", "depth", source=str(tmp_path), branching=8)
    homes: dict[int, Counter[str]] = {}
    for split in SPLITS:
        for row in rows(task, split, None):
            places = set(row["source_positions"])
            number = sum(1 << bit for bit in range(7) if recursive.children(2 + bit, 8)[0] in places)
            homes.setdefault(number, Counter())[split] += 1
    assert all(len(splits) == 1 for splits in homes.values())
    home = {number: next(iter(splits)) for number, splits in homes.items()}
    assert [homes[number].total() for number in range(40)] == own
    held = Counter(home[number] for number in range(40))
    assert 4 <= held["test"] <= held["validation"] + 1 <= 6  # a tenth of the trees
    for number in range(40):
        assert home[40 + number] == min(home[number], home[(number - 1) % 40], key=SPLITS.index)
    assert home[127] == "train"
    total = sum(own) + 3 * 40
    notes = task.notes(42)
    assert notes[0] == f"{total} of {total} trees from 40 documents in 40 files (s-expr, unit sentence)"
    assert "79 trees with the form and the labels of an earlier one, where rare labels are all <unknown>" in notes[1]


@pytest.mark.parametrize(
    ("sizes", "held"),
    [
        ([10] * 10, [0]),  # a tenth
        ([1] * 40, [0, 1, 2, 3]),
        ([95, 2, 3], [1, 2]),  # the large one is passed over
        ([40, 50, 60], [0]),  # all are too large, so the smallest one
        ([30, 5, 1, 64], [1, 2]),  # less than a tenth, because the others are too large
    ],
)
def test_documents_that_are_held_out(sizes: list[int], held: list[int]) -> None:
    assert held_out(list(range(len(sizes))), sizes, sum(sizes), 1) == held


def test_every_split_has_a_document() -> None:
    """One document may have almost all trees. Then the two others are not both held out for test."""
    draw = random.Random(5)
    assert held_out([0, 1, 2], [95, 2, 3], 100, 2) == [1]
    for _ in range(200):
        sizes = [draw.choice([1, 2, 3, 50, 1000]) for _ in range(draw.randint(3, 6))]
        files = {f"{n}": draw.randbytes(32).hex() for n in range(len(sizes))}
        source = tree_sources.TreeSource("x", ["json"], "document", files)
        division = divided(source, [(n, 0) for n, size in enumerate(sizes) for _ in range(size)])
        assert set(division.tolist()) == {0, 1, 2}, sizes


def test_the_division_depends_on_the_content_alone(tmp_path: Path) -> None:
    rng = random.Random(5)
    documents = [[random_tree(rng) for _ in range(5)] for _ in range(30)]
    for folder, order in (("one", range(30)), ("two", range(29, -1, -1))):
        (tmp_path / folder).mkdir()
        for name, number in enumerate(order):
            write(tmp_path / folder / f"{name:02}.jsonl", documents[number])

    def sources(folder: str, seed: int) -> dict[str, Counter[str]]:
        task = tasks.make("trees", source=str(tmp_path / folder))
        return {split: Counter(str(row["source"]) for row in rows(task, split, None, seed)) for split in SPLITS}

    assert sources("one", 1) == sources("one", 2)  # the seed only decides the order of the rows
    assert sources("one", 1) == sources("two", 1)  # the names of the files decide nothing
    task = tasks.make("trees", source=str(tmp_path / "one"))
    one, other = ([row["source"] for row in rows(task, "train", None, seed)] for seed in (1, 2))
    assert one != other


def test_what_is_left_out_is_counted_by_reason(tmp_path: Path) -> None:
    trees: list[recursive.Tree] = [(letter, ("x",)) for letter in LETTERS]
    trees += [("wide", *(("x",) for _ in range(6))), ("large", *(("x", ("y",)) for _ in range(4)))]
    deep: recursive.Tree = ("x",)
    for _ in range(70):
        deep = ("d", deep)
    path = write(tmp_path / "odd.jsonl", [*trees, deep, ("single",)])
    notes = tasks.make("trees", source=str(path), branching=5, most_nodes=8).notes(1)
    assert notes[:3] == [
        "9 of 12 trees from 9 documents in 1 file (json-lines, unit document)",
        "left out: 2 trees (16.7%) with more than 8 nodes (`most_nodes`)",
        "left out: 1 tree (8.3%) with a node with more than 5 children (`branching`)",
    ]
    notes = tasks.make("trees", source=str(path), task="query").notes(1)
    assert "left out: 1 tree (8.3%) with more than 61 levels as it is stored" in notes
    assert "left out: 1 tree (8.3%) with fewer than 2 nodes" in notes


def test_files_that_are_left_out_are_named(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.json").write_text(f"[{number}]")
    for number in range(12):
        (tmp_path / f"bad{number:02}.json").write_text("[1,")
    notes = tasks.make("trees", source=str(tmp_path), skip_bad=True).notes(1)
    found = [line for line in notes if line.startswith("left out: ")]
    assert found[0] == "left out: 12 files or parts of files"
    assert [line.split(": ")[1] for line in found[1:11]] == [f"bad{number:02}.json" for number in range(10)]
    assert found[11:] == ["left out: 2 more"]


def test_rare_labels_are_unknown(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [("r", *(("common",),) * n, (f"rare{n}",)) for n in range(50)])
    task = tasks.make("trees", source=str(path), min_count=2)
    assert task.id_names[3:] == ["<unknown>", "common", "r"]
    assert tasks.make("trees", source=str(path), vocabulary=1).id_names[3:] == ["<unknown>", "common"]
    shares = []
    for split in SPLITS:
        names = [name for row in rows(task, split, None) for name in row["source"]]
        shares.append(f"{split} {names.count('<unknown>') / len(names):.1%}")
        assert "<unknown>" in names
    assert f"nodes whose label is <unknown>: {', '.join(shares)}" in task.notes(1)


def test_a_wide_tree_that_no_heap_index_holds_is_left_out(tmp_path: Path) -> None:
    """As a binary tree, a node with 100 children has 100 levels. The limit is 62."""
    trees: list[recursive.Tree] = [(letter, ("x",)) for letter in LETTERS]
    trees += [("r", *((f"{n}",) for n in range(count))) for count in (62, 63, 100)]
    path = str(write(tmp_path / "wide.jsonl", trees))
    note = "left out: 2 trees (18.2%) with more than 62 levels as it is stored"
    assert note in tasks.make("trees", source=path).notes(1)
    assert not any("levels" in line for line in tasks.make("trees", source=path, branching=100).notes(1))


def test_labels_are_counted_in_training_documents_only(tmp_path: Path) -> None:
    """Each of 30 documents has a label of its own, twice in one tree."""
    path = write(tmp_path / "a.jsonl", [("r", (f"own{n}",), (f"own{n}",)) for n in range(30)])
    for least in (1, 2):
        task = tasks.make("trees", source=str(path), min_count=least)
        trained = {name for row in rows(task, "train", None) for name in row["source"]}
        assert len(trained) == 25
        assert set(task.id_names[3:]) == trained | {"<unknown>"}
        held_out = [row["source"] for split in ("validation", "test") for row in rows(task, split, None)]
        assert held_out == [["r", "<unknown>", "<unknown>"]] * 6
    assert tasks.make("trees", source=str(path), min_count=3).id_names[3:] == ["<unknown>", "r"]


def test_labels_are_kinds_or_tokens_of_nodes(tmp_path: Path) -> None:
    """A constant of Python has the kind `Constant` and its value as its token."""
    for number in range(12):
        (tmp_path / f"{number}.py").write_text(f"def f{number}(x):\n    return x + 12345{' + x' * number}\n")
    kinds, tokens = (
        tasks.make("trees", source=str(tmp_path), labels=labels, branching=5, min_count=1).id_names
        for labels in ("kind", "token")
    )
    assert {"Constant", "BinOp"} <= set(kinds)
    assert not any("12345" in name for name in kinds)
    assert any("12345" in name for name in tokens)


def test_names_of_labels_are_unique_and_printable(tmp_path: Path) -> None:
    odd = ["<pad>", "", "label 'x'", "a\nb", "label '<pad>'", "<mask>", "x" * 100, "x" * 101]
    path = write(tmp_path / "odd.jsonl", [("r", *((text,) for text in odd))] * 3 + [("s", ("t",))] * 9)
    names = tasks.make("trees", source=str(path), task="mask", branching=20).id_names
    assert len(set(names)) == len(names)
    assert all(name.isprintable() and name for name in names)


def test_long_labels_with_equal_beginnings_are_different(tmp_path: Path) -> None:
    """Forty addresses are the roots of forty trees."""
    addresses = ["https://example.com/" + "a" * 80 + str(number) for number in range(40)]
    path = write(tmp_path / "a.jsonl", [(address, ("x",)) for address in addresses])
    task = tasks.make("trees", source=str(path))
    assert task.available(1)["train"] == 32
    assert {row["source"][0] for row in rows(task, "train", None)} == set(task.id_names[3:]) - {"<unknown>", "x"}
    assert set(task.id_names[3:]) - {"<unknown>", "x"} < set(addresses)
    assert len(task.id_names[3:]) == 34


def test_labels_that_no_record_can_hold_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [("r", ("x" * 2**20 + str(n),)) for n in range(9)])
    with pytest.raises(DataError, match=r"the labels are too long\n.*bytes in 8 labels\n.*7,340,032.*\n.*`vocabulary`"):
        tasks.make("trees", source=str(path)).rows(dict.fromkeys(SPLITS), 1)
    assert len(tasks.make("trees", source=str(path), vocabulary=5).id_names) == 9


def test_why_a_split_has_no_rows(tmp_path: Path) -> None:
    """All trees that are held out are equal, and those for test are in the validation split with them."""
    path = str(write(tmp_path / "a.jsonl", [("r", (f"{n}",)) for n in range(50)]))
    task = tasks.make("trees", source=path)
    assert task.available(1) == {"train": 40, "validation": 10, "test": 0}
    equal = "each tree that was held out is equal to one of an earlier split, or left out"
    merged = "; labels that are not in the vocabulary of 41, "
    assert task.why_none.startswith(equal + merged)
    assert task.why_none.endswith("are <unknown> (`labels`, `min_count`, `vocabulary`)")
    with pytest.raises(UsageError, match=f"for test\n  got:     1\n  allowed: none, because {equal}"):
        task.rows({"train": 40, "validation": 10, "test": 1}, 1)
    alike = tasks.make("trees", source=str(write(tmp_path / "b.jsonl", [("r", ("x",))] * 9)))
    assert (alike.available(1)["test"], alike.why_none) == (0, equal)


def test_every_subtree_is_a_tree_of_its_own(tmp_path: Path) -> None:
    rng = random.Random(6)
    few = [random_tree(rng, depth=4) for _ in range(30)]
    path = write(tmp_path / "a.jsonl", few)
    task = tasks.make("trees", "depth", source=str(path), unit="subtree", branching=3, most_nodes=9)
    found = Counter(
        built(row["source"], row["source_positions"], {"branching": 3}, "depth")
        for split in SPLITS
        for row in rows(task, split, None)
    )
    nodes = [node for tree in few for node in recursive.nodes(tree)]
    assert found == Counter(node for node in nodes if 2 <= len(recursive.nodes(node)) <= 9)


def test_subtrees_of_one_document_are_refused(tmp_path: Path) -> None:
    """A subtree in the test split would be a part of a training tree."""
    path = write(tmp_path / "a.jsonl", [("r", *(("f", (str(n),), ("x",)) for n in range(40)))] * 2)
    with pytest.raises(DataError, match="subtrees of one tree would be in several splits"):
        tasks.make("trees", source=str(path), unit="subtree").rows(dict.fromkeys(SPLITS), 1)


def test_subtrees_count_towards_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep: recursive.Tree = ("x",)
    for n in range(40):
        deep = (str(n), deep)
    path = write(tmp_path / "a.jsonl", [deep] * 5)
    # 205 nodes are read, and their subtrees have 4,300
    monkeypatch.setattr("ape_cli.storage.tree_sources._MOST_NODES", 1_000)
    with pytest.raises(UsageError, match="too many trees"):
        tasks.make("trees", source=str(path), unit="subtree").rows(dict.fromkeys(SPLITS), 1)


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
        ({"task": "mask", "mask_rate": 1.0}, "bad mask_rate"),
        ({"mask_rate": 0.2}, "`mask_rate` applies only to `task=mask`"),
        ({"labels": "anonymous", "min_count": 3}, "anonymous labels have no counts"),
        ({"sizes": (3,)}, "has no sizes"),
    ],
)
def test_bad_options_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises((UsageError, DataError), match=message):
        tasks.make("trees", **options).mean_size  # noqa: B018 - it reads the source


@pytest.mark.parametrize("labels", ["kind", "token", "anonymous"])
@pytest.mark.parametrize("name", ["copy", "rotate", "query", "convert", "mask"])
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


def test_convert_needs_two_orders(tmp_path: Path) -> None:
    for orders in (("depth", "depth"), (None, "breadth")):
        with pytest.raises(UsageError, match="two different orders"):
            tasks.make("trees", *orders, task="convert")
    assert tasks.make("trees", "depth", task="convert").source_order == "breadth"
    assert tasks.make("trees", task="convert").source_order == "depth"
    assert tasks.make("trees", "depth", "breadth", task="convert").source_order == "breadth"


def test_too_few_trees_are_explained(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [("r", *(("x",) for _ in range(9)))] * 5)
    with pytest.raises(DataError, match="too few trees remain") as caught:
        tasks.make("trees", source=str(path), branching=3).rows(dict.fromkeys(SPLITS), 1)
    got = "0 of 5 trees in 1 file; left out: 5 trees with a node with more than 3 children"
    assert got in str(caught.value)
    assert "`binarise`" in str(caught.value)


def test_more_rows_than_there_are_trees(tmp_path: Path, drawn: list[recursive.Tree]) -> None:
    task = tasks.make("trees", source=str(write(tmp_path / "a.jsonl", drawn[:50])))
    with pytest.raises(UsageError, match="not have that many trees for train"):
        task.rows({"train": 1_000, "validation": None, "test": None}, 1)

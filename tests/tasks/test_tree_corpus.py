"""How the trees of a user's source are filtered, divided into splits, and labelled."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import pytest

from ape_cli import tasks
from ape_cli.core.errors import DataError
from ape_cli.core.vocabulary import SPLITS
from ape_cli.storage import tree_sources
from ape_cli.tasks._tree_corpus import divided, held_out
from tests import recursive
from tests.tasks.test_trees import LETTERS, built, random_tree, rows, write


def test_every_tree_is_in_exactly_one_split(tmp_path: Path) -> None:
    rng = random.Random(3)
    drawn = [tree for tree in dict.fromkeys(random_tree(rng, depth=2) for _ in range(2_000)) if tree[1:]]
    task = tasks.make("trees", "depth", source=str(write(tmp_path / "a.jsonl", drawn)), branching=3)
    found: list[recursive.Tree] = []
    sizes = {}
    for split in SPLITS:
        table = rows(task, split, None)
        found += [built(row["source"], row["source_positions"], {"branching": 3}, "depth") for row in table]
        sizes[split] = len(table)
    assert Counter(found) == Counter(drawn)
    assert sizes["test"] == sizes["validation"] == math.ceil(len(drawn) / 10)


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
    splits_of: dict[int, Counter[str]] = {}
    for split in SPLITS:
        for row in rows(task, split, None):
            places = set(row["source_positions"])
            number = sum(1 << bit for bit in range(7) if recursive.children(2 + bit, 8)[0] in places)
            splits_of.setdefault(number, Counter())[split] += 1
    assert all(len(splits) == 1 for splits in splits_of.values())
    split_of = {number: next(iter(splits)) for number, splits in splits_of.items()}
    assert [splits_of[number].total() for number in range(40)] == own
    held = Counter(split_of[number] for number in range(40))
    assert 4 <= held["test"] <= held["validation"] + 1 <= 6  # a tenth of the trees
    for number in range(40):
        assert split_of[40 + number] == min(split_of[number], split_of[(number - 1) % 40], key=SPLITS.index)
    assert split_of[127] == "train"
    total = sum(own) + 3 * 40
    notes = task.notes(42)
    assert notes[0] == f"{total} of {total} trees from 40 documents in 40 files (s-expr, unit sentence)"
    assert "equal to an earlier one, and in the same split: 79 trees (rare labels count as <unknown>)" in notes[1]


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
    """The first ten of them."""
    for number in range(5):
        (tmp_path / f"{number}.json").write_text(f"[{number}]")
    for number in range(12):
        (tmp_path / f"bad{number:02}.json").write_text("[1,")
    notes = tasks.make("trees", source=str(tmp_path), skip_bad=True).notes(1)
    found = [line for line in notes if line.startswith("left out: ")]
    assert [line.split(": ")[1] for line in found[:10]] == [f"bad{number:02}.json" for number in range(10)]
    assert found[10:] == ["left out: 2 more files or parts of files"]


def test_files_of_other_formats_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [(letter, ("x",)) for letter in LETTERS])
    for name in ("a.json", "b.txt"):
        (tmp_path / name).write_text("[]")
    notes = tasks.make("trees", source=str(tmp_path), format="json-lines").notes(1)
    assert "left out: 2 files with other suffixes" in notes


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


def test_names_of_labels_are_unique_and_printable(tmp_path: Path) -> None:
    odd = ["<pad>", "", "label 'x'", "a\nb", "label '<pad>'", "<mask>", "x" * 100, "x" * 101]
    path = write(tmp_path / "odd.jsonl", [("r", *((text,) for text in odd))] * 3 + [("s", ("t",))] * 9)
    names = tasks.make("trees", source=str(path), task="mask", branching=20).id_names
    assert len(set(names)) == len(names)
    assert all(name.isprintable() and name for name in names)


def test_labels_that_no_record_can_hold_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [("r", ("x" * 2**20 + str(n),)) for n in range(9)])
    with pytest.raises(DataError, match=r"the labels are too long\n.*bytes in 8 labels\n.*7,340,032.*\n.*`vocabulary`"):
        tasks.make("trees", source=str(path)).rows(dict.fromkeys(SPLITS), 1)
    assert len(tasks.make("trees", source=str(path), vocabulary=5).id_names) == 9


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
    # a subtree in the test split would be a part of a training tree
    path = write(tmp_path / "b.jsonl", [("r", *(("f", (str(n),), ("x",)) for n in range(40)))] * 2)
    with pytest.raises(DataError, match="subtrees of one tree would be in several splits"):
        tasks.make("trees", source=str(path), unit="subtree").rows(dict.fromkeys(SPLITS), 1)


def test_too_few_trees_are_explained(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [("r", *(("x",) for _ in range(9)))] * 5)
    with pytest.raises(DataError, match="too few trees remain") as caught:
        tasks.make("trees", source=str(path), branching=3).rows(dict.fromkeys(SPLITS), 1)
    got = "0 of 5 trees in 1 file; left out: 5 trees with a node with more than 3 children"
    assert got in str(caught.value)
    assert "options that leave out fewer trees" in str(caught.value)

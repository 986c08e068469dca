"""group-word: products re-derived from the names of the elements alone, the laws of groups, and tables in files."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ape_cli import tasks
from ape_cli.core.errors import DataError, UsageError
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import generation
from ape_cli.data.manifest import read_manifest
from ape_cli.reports.views import by_size
from tests.tasks.contract import check_uniform, make, names_of, rows, source_of

Mapping = tuple[int, ...]  # the image of each point


def permutation(name: str, points: int) -> Mapping:
    """The images of the points, from cycle notation."""
    images = list(range(points))
    for cycle in re.findall(r"\(([\d ]+)\)", name):
        moved = [int(point) for point in cycle.split()]
        for here, there in zip(moved, [*moved[1:], moved[0]], strict=True):
            images[here] = there
    return tuple(images)


def symmetry(name: str, corners: int) -> Mapping:
    """The images of the corners of a polygon under rK, or under s and then rK."""
    kind, turn = name.rstrip("0123456789"), int(name.lstrip("sr"))
    return tuple(((-i if kind == "sr" else i) + turn) % corners for i in range(corners))


def addition(name: str, order: int) -> Mapping:
    """An integer modulo n as a permutation: it is added to each integer."""
    return tuple((i + int(name)) % order for i in range(order))


MEANING: dict[str, tuple[Callable[[str, int], Mapping], int, int]] = {  # what a name means, points, elements
    "alternating-5": (permutation, 5, 60),
    "symmetric-4": (permutation, 4, 24),
    "symmetric-2": (permutation, 2, 2),
    "cyclic-60": (addition, 60, 60),
    "dihedral-8": (symmetry, 8, 16),
    "dihedral-3": (symmetry, 3, 6),
}


def prefixes(word: list[Mapping]) -> list[Mapping]:
    """The product of each prefix, by following every point through the word from the left to the right."""
    paths = []
    for start in range(len(word[0])):
        place, path = start, []
        for step in word:
            place = step[place]
            path.append(place)
        paths.append(path)
    return [tuple(images) for images in zip(*paths, strict=True)]


@pytest.mark.parametrize("group", MEANING)
def test_target_is_rederived(group: str) -> None:
    meaning, points, order = MEANING[group]
    for split, answers in itertools.product(SPLITS, ["tags", "prefixes", "product"]):
        task, found = rows("group-word", split=split, group=group, answers=answers, length_mean=20, length_std=2)
        maps = {name: meaning(name, points) for name in task.id_names[3:]}
        assert len(set(maps.values())) == len(maps) == order
        for row in found:
            expected = prefixes([maps[name] for name in row["source"]])
            assert [maps[name] for name in row["target"]] == (expected[-1:] if answers == "product" else expected)
            assert row["size"] == len(row["source_ids"])


@pytest.mark.parametrize("group", MEANING)
def test_groups_satisfy_the_laws(group: str) -> None:
    """Every row and column is a permutation; the product is associative (200 triples) and has an identity."""
    products = tasks.make("group-word", group=group).elements.products
    order = len(products)
    assert all(sorted(line) == list(range(order)) for line in [*products.tolist(), *products.T.tolist()])
    assert products[0].tolist() == products[:, 0].tolist() == list(range(order))
    a, b, c = np.random.default_rng(1).integers(order, size=(3, 200))
    assert (products[products[a, b], c] == products[a, products[b, c]]).all()
    abelian = group.startswith("cyclic") or order <= 3
    assert (products == products.T).all() == abelian


def test_elements_are_uniform() -> None:
    """Those of the source, and so the products."""
    found = rows("group-word", group="dihedral-4", length_mean=10, length_std=1)[1]
    check_uniform(Counter(name for row in found for name in row["source"]), 8)
    check_uniform(Counter(row["target"][0] for row in found), 8)


def test_cycle_navigation_is_the_published_one() -> None:
    """A walk on a circle of five states, with steps of 0, 1 and -1 that are drawn uniformly."""
    options = {"group": "cyclic-5", "answers": "product", "generators": "0,1,4"}
    step = {"0": 0, "1": 1, "4": -1}
    for split in SPLITS:
        for row in rows("group-word", split=split, sizes="1-40,500", **options)[1]:
            assert len(row["source"]) == row["size"]
            assert row["target"] == [str(sum(step[name] for name in row["source"]) % 5)]
    check_uniform(Counter(name for row in rows("group-word", sizes="20", **options)[1] for name in row["source"]), 3)
    task, walks = make("group-word", **options), {"1 4 0 4 4": "3", "1 1 1 4": "2"}  # samples of the published program
    assert names_of(task, task.target(source_of(task, [*walks]))) == [*walks.values()]
    ends = Counter(row["target"][0] for row in rows("group-word", count=4_000, sizes="1-40", **options)[1])
    assert ends["0"] / 4_000 == pytest.approx(0.21, abs=0.02)


def test_words_over_generators(tmp_path: Path) -> None:
    """The vocabulary has the whole group, because products need it. Generators may be elements of a table."""
    task, found = rows("group-word", group="symmetric-4", generators="(0 1 2 3), (0 1)", sizes="12")
    check_uniform(Counter(name for row in found for name in row["source"]), 2)
    assert {name for row in found for name in row["target"]} == {*task.id_names[3:]}
    assert task.id_names == tasks.make("group-word", group="symmetric-4").id_names
    assert task.parameters["generators"] == "(0 1 2 3), (0 1)"
    assert "generators" not in tasks.make("group-word", group="symmetric-4").parameters
    klein = table(tmp_path, KLEIN)
    assert {n for row in rows("group-word", group=klein, generators="a,c")[1] for n in row["source"]} == {"a", "c"}
    with pytest.raises(UsageError, match="unknown generator"):
        tasks.make("group-word", group=klein, generators="a,d")


# Tables in files ----------------------------------------------------------------------------------

KLEIN = ["e a b c", "a e c b", "b c e a", "c b a e"]


def table(folder: Path, lines: list[str] | str, name: str = "table.txt") -> str:
    path = folder / name
    path.write_text(lines if isinstance(lines, str) else "\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_the_forms_of_a_table_are_equal(tmp_path: Path) -> None:
    """Spaces, and commas with a byte-order mark and empty lines, are the same table and have the same digest."""
    commas = "\ufeff" + "\n\n".join(line.replace(" ", ", ") for line in KLEIN)
    forms = [
        table(tmp_path, KLEIN, "spaces.txt"),
        table(tmp_path, commas, "commas.csv"),
    ]
    made = [tasks.make("group-word", group=form) for form in forms]
    assert len({task.elements.sha256 for task in made}) == 1
    assert len({str(task.sample(rows=range(5), split="test", seed=1).to_pylist()) for task in made}) == 1


def test_numbers_are_places_in_the_table(tmp_path: Path) -> None:
    """Addition modulo 3 where element 0 stands for 1, element 1 for 2, and element 2, the identity, for 0."""
    group = table(tmp_path, "1,2,0\n2,0,1\n0,1,2")
    task, found = rows("group-word", count=200, group=group, length_mean=6, length_std=1)
    assert task.id_names[3:] == ["0", "1", "2"]
    for row in found:
        total = sum(i - 3 + 1 for i in row["source_ids"]) % 3
        assert (row["target_ids"][-1] - 3 + 1) % 3 == total


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("e a\na e e\n", "2 lines"),
        ("e a\na x\n", r"not closed[\s\S]*a \* a = x"),
        ("e a\ne a\n", "it has no identity"),
        ("e a a\na e e\na e e\n", "a' twice"),
        # multiplication modulo 2 and 3: 0 has no inverse
        ("e o\no o\n", "the element o has no inverse"),
        # a loop of five elements, each its own inverse: 2 1 = 4 and 4 1 = 3, but 1 1 = 0 and 2 0 = 2
        (
            "0 1 2 3 4\n1 0 3 4 2\n2 4 0 1 3\n3 2 4 0 1\n4 3 1 2 0\n",
            "not associative for 2, 1, 1",
        ),
    ],
)
def test_each_law_has_its_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        tasks.make("group-word", group=table(tmp_path, text))


def test_the_manifest_has_the_digest_of_the_table(tmp_path: Path) -> None:
    """The folder of the file is not in the manifest; another table under the same name is refused."""
    path = table(tmp_path, KLEIN)
    task = tasks.make("group-word", group=path, length_mean=5, length_std=1)
    products = [[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]
    digest = hashlib.sha256(json.dumps([["e", "a", "b", "c"], products]).encode()).hexdigest()
    assert (task.parameters["group"], task.parameters["sha256"]) == ("./table.txt", digest)
    plan = generation.plan(task, seed=1, rows={"train": 9, "validation": 3, "test": 3}, shard_rows=10)
    generation.generate(task, plan, tmp_path / "data")
    assert read_manifest(tmp_path / "data").plan.parameters == task.parameters
    assert str(tmp_path) not in (tmp_path / "data" / "manifest.json").read_text()
    assert f"--group ./table.txt --answers tags --sha256 {digest}" in (tmp_path / "data" / "README.md").read_text()
    again = tasks.make("group-word", **(task.parameters | {"group": path}))
    assert again.sample(rows=range(9), split="train", seed=1).equals(task.sample(rows=range(9), split="train", seed=1))
    table(tmp_path, ["0 1 2 3", "1 2 3 0", "2 3 0 1", "3 0 1 2"])
    with pytest.raises(DataError, match="contains a different table"):
        _ = tasks.make("group-word", **(task.parameters | {"group": path})).parameters


def test_a_task_of_a_manifest_is_made_without_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Greedy decoding does this, and reports with sizes, which leave out what they cannot draw."""
    task = tasks.make("group-word", group=table(tmp_path, KLEIN), length_mean=5, length_std=1)
    monkeypatch.chdir(tmp_path.parent)
    made = tasks.make("group-word", **task.parameters)
    assert made.structure == "seq"
    with pytest.raises(DataError, match="No such file"):
        made.sample(rows=range(3), split="train", seed=1)
    about = {"task": "group-word", "order": None, "parameters": task.parameters, "rows": {"train": 9}, "seed": 1}
    trained = SimpleNamespace(**about, code=None)
    assert by_size.seen(trained) is None
    monkeypatch.chdir(tmp_path)
    sizes = task.sample(rows=range(9), split="train", seed=1)["size"].to_pylist()
    assert by_size.seen(trained) == by_size.Seen(min(sizes), max(sizes))

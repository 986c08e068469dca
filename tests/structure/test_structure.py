"""Heap indices, distances and array forms of tree operations, compared with plain recursion."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from pydantic import BaseModel, ValidationError

from ape_cli import structure
from ape_cli.core.errors import UsageError
from ape_cli.structure import StructureField, trees
from tests import recursive


def test_level_and_bit_length_at_the_edges() -> None:
    values = [0, 1, 2, 3, 4, 2**31 - 1, 2**31, 2**53 - 1, 2**53, 2**54 - 1, 2**62, 2**63 - 1]
    for array in (np.array(values, dtype=np.int64), torch.tensor(values)):
        assert structure.bit_length(array).tolist() == [v.bit_length() for v in values]
        assert structure.Tree(2).level(array).tolist() == [max(0, v.bit_length() - 1) for v in values]


def path(heap: int, branching: int) -> list[int]:
    """The branches from the root down, by repeated division."""
    branches = []
    while heap > 1:
        branches.append((heap - 2) % branching)
        heap = (heap - 2) // branching + 1
    return branches[::-1]


@pytest.mark.parametrize("branching", [2, 3, 5])
def test_trees_of_any_branching(branching: int) -> None:
    """Levels, ancestors, composition and distance, compared with explicit paths. NumPy and torch agree."""
    tree = structure.Tree(branching)
    heaps = [*range(1, 60), tree.level_start(tree.max_depth), tree.level_start(tree.max_depth + 1) - 1, 2**60 + 12345]
    paths = [path(h, branching) for h in heaps]
    array, tensor = np.array(heaps), torch.tensor(heaps)
    assert tree.level(array).tolist() == tree.level(tensor).tolist() == [len(p) for p in paths]
    assert [tree.branch(h) for h in heaps[1:]] == [p[-1] for p in paths[1:]]
    table = tree.distance(tensor[:, None], tensor[None, :])
    assert (table.numpy() == tree.distance(array[:, None], array[None, :])).all()
    for i, x in enumerate(paths):
        assert all(path(int(tree.ancestor(heaps[i], up)), branching) == x[: len(x) - up] for up in range(len(x) + 1))
        for j, y in enumerate(paths):
            shared = 0
            while shared < min(len(x), len(y)) and x[shared] == y[shared]:
                shared += 1
            assert table[i, j] == len(x) + len(y) - 2 * shared
            if len(x) + len(y) <= tree.max_depth:
                assert path(int(tree.compose(heaps[i], heaps[j])), branching) == x + y


def test_rings_and_products_by_hand() -> None:
    ring, grid = structure.parse_structure("cyclic(6)"), structure.parse_structure("grid(2)")
    assert [int(ring.distance(torch.tensor(1), torch.tensor(y))) for y in range(1, 9)] == [0, 1, 2, 3, 2, 1, 0, 1]
    assert int(grid.distance(torch.tensor([3, 0]), torch.tensor([1, 3]))) == 5  # figure 3 of the paper
    for array in (torch.tensor, np.array):  # the square of the last one is beyond int64
        straight = structure.Grid((structure.Seq(),) * 2).straight(
            array([[3, 0], [4, 1], [0, 0]]), array([[6, 4], [4, 9], [0, 2**32]])
        )
        assert straight.tolist() == [5, 8, 2**32]
    both = structure.parse_structure("seq*tree(2)")
    assert (both.width, both.first, grid.first) == (2, (1, 0), (1, 1))
    assert int(both.distance(np.array([1, 4]), np.array([4, 7]))) == 3 + 4
    assert both.compose(np.array([1, 4]), np.array([2, 3])).tolist() == [3, 9]  # left, left, then right


@pytest.mark.parametrize("expression", ["seq", "tree(2)", "tree(3)", "cyclic(5)", "grid(3)", "seq*tree(2)*cyclic(4)"])
def test_distance_is_a_metric_that_prefixes_do_not_change(expression: str) -> None:
    found = structure.parse_structure(expression)
    generator = torch.Generator().manual_seed(1)
    shape = (40, found.width) if found.width > 1 else (40,)
    x, y, z = (torch.randint(1, 30, shape, generator=generator) for _ in range(3))
    assert (found.distance(x, y) == found.distance(y, x)).all()
    assert (found.distance(x, x) == 0).all()
    assert (found.distance(x, z) <= found.distance(x, y) + found.distance(y, z)).all()
    assert (found.distance(found.compose(z, x), found.compose(z, y)) == found.distance(x, y)).all()


def test_expressions_are_written_and_read() -> None:
    for text, plain in {
        "seq": "seq",
        " tree ( 2 ) ": "tree(2)",
        "seq * tree(3)*cyclic(6)": "seq*tree(3)*cyclic(6)",
        "seq*seq": "grid(2)",
    }.items():
        assert structure.parse_structure(text).expression == plain
        assert structure.parse_structure(plain) == structure.parse_structure(text)


def test_a_wrong_expression_is_one_error() -> None:
    for text in [
        *("seq*tre(2)", "seq+seq", "tree(1)", "tree(1001)", "grid(99999999999999999999999)", "cyclic(True)"),
        *("", "seq*", "(seq)", "seq(2)", "tree", "tree(²)", "tree(002)", "tree(k=2)", "\0", "seq" + "*seq" * 16),
        *("*".join(["grid(16)"] * 2), "(" * 5000 + "seq", "cyclic(" + "2" * 5000 + ")"),
    ]:
        with pytest.raises(UsageError, match="bad structure"):
            structure.parse_structure(text)


def test_what_a_structure_is_read_from() -> None:
    """Each coordinate comes from the data's own or, for `seq` and `cyclic(n)`, from the linearisation."""
    line = structure.LINE
    for wanted, own, expected in [
        ("seq", "tree(2)", [line]),
        ("seq*tree(2)", "tree(2)", [line, 0]),
        ("tree(3)", "tree(2)", None),
        ("grid(2)", "seq*seq", [0, 1]),
        ("grid(2)*seq", "grid(2)", [0, 1, line]),
        ("grid(2)", "seq", None),  # the same place cannot be read twice
        ("cyclic(6)", "cyclic(6)", [0]),
        ("cyclic(5)", "cyclic(6)", None),  # a ring is read as itself or not at all
        ("tree(2)", "seq*tree(2)", [1]),  # projections of a product
        ("seq", "grid(2)*seq", [2]),
        ("tree(2)*seq", "seq*tree(2)", [1, 0]),  # in any order
        ("line", "seq*tree(2)", [line]),  # products with the linearisation
        ("seq*line*tree(2)", "seq*tree(2)", [0, line, 1]),
        ("cyclic(7)*tree(2)", "seq*tree(2)", [line, 1]),
        ("line*seq", "tree(2)", None),  # the same place cannot be read twice
        ("tree(2)", "tree(2)*tree(2)", [0]),
        ("seq", "grid(3)", [line]),  # a grid is read completely or not at all
    ]:
        assert structure.columns(structure.parse_structure(wanted), structure.parse_structure(own)) == expected, (
            wanted,
            own,
        )


def test_what_is_left_out_makes_positions_equal() -> None:
    parse = structure.parse_structure
    for wanted, own, expected in [
        ("tree(2)", "seq*tree(2)", ["seq"]),
        ("seq", "seq*tree(2)", ["tree(2)"]),
        ("seq*tree(2)", "seq*tree(2)", []),
        ("line", "seq*tree(2)", []),  # no two tokens have one place along the line
        ("seq", "tree(2)", []),
        ("seq", "seq", []),
    ]:
        assert [each.expression for each in structure.left_out(parse(wanted), parse(own))] == expected, (wanted, own)


def test_line_is_the_sequence_as_an_algebra() -> None:
    parse = structure.parse_structure
    assert parse("line") != parse("seq")
    assert parse("line").algebra == parse("seq")
    assert parse("line*seq").algebra == parse("grid(2)")
    assert structure.matches("seq", parse("line"))
    assert structure.matches("grid(n)", parse("line*seq"))


def random_tree(rng: random.Random, k: int, depth: int) -> recursive.Tree:
    """A node with its own number. It has k children, or none at the bottom and sometimes earlier."""
    if depth == 0 or rng.random() < 0.3:
        return (rng.random(),)
    return (rng.random(), *(random_tree(rng, k, depth - 1) for _ in range(k)))


def test_level_order_is_seen() -> None:
    """Two trees, an empty row and a lone root. A row may begin with what the previous one ended with."""
    offsets = np.array([0, 0, 3, 6, 6, 7])
    assert trees.in_level_order(offsets, np.array([1, 2, 3, 1, 6, 7, 1]))
    assert trees.in_level_order(np.array([0, 0]), np.array([], dtype=np.int64))
    assert not trees.in_level_order(offsets, np.array([1, 3, 2, 1, 6, 7, 1]))
    assert not trees.in_level_order(offsets, np.array([1, 2, 3, 1, 7, 6, 1]))


@pytest.mark.parametrize("k", [2, 3, 4])
def test_linearisations_of_any_branching(k: int) -> None:
    """Compared with recursion, and with several keys as with one, because deep paths do not fit into one key."""
    rng = random.Random(k)
    for _ in range(100):
        tree = random_tree(rng, k, 4)
        heap = np.array([h for _, h in recursive.level_order(tree, k)])
        row = np.zeros(heap.size, dtype=np.int64)
        heap = np.random.default_rng(0).permutation(heap)
        far_down = trees.graft(heap, structure.Tree(k).level_start(structure.Tree(k).max_depth - 4), k)
        for order in ("breadth", "depth"):
            expected = [h for _, h in recursive.linear(tree, order, k)]
            assert heap[trees.linearise(row, heap, order, k)].tolist() == expected
            assert heap[trees.linearise(row, far_down, order, k)].tolist() == expected


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_mirror_image_at_the_greatest_depth(k: int) -> None:
    """The last level that fits: its first and last index are exchanged without overflow."""
    tree = structure.Tree(k)
    ends = [tree.level_start(tree.max_depth), tree.level_start(tree.max_depth + 1) - 1]
    assert trees.mirror(np.array(ends), k).tolist() == ends[::-1]


class Model(BaseModel, strict=True):
    structure: StructureField
    other: StructureField | None = None


def test_a_field_is_an_expression_in_json_and_a_structure_in_memory() -> None:
    model = Model.model_validate({"structure": "seq*seq"})
    assert model.structure == structure.Grid((structure.Seq(), structure.Seq()))
    assert model.model_dump() == {"structure": "grid(2)", "other": None}
    assert Model.model_validate_json(model.model_dump_json()) == model
    for wrong in ("tree(1)", "(" * 5000, 3, ["seq"]):
        with pytest.raises(ValidationError, match="bad structure"):
            Model.model_validate({"structure": wrong})


def test_the_deepest_binarised_trees() -> None:
    """62 levels of a binarised tree: a chain of first children, and one node with 62 children."""
    chain = trees.RankedTrees(np.array([0, 63]), np.arange(-1, 62), np.zeros(63, dtype=np.int64))
    assert chain.heap(None)[-1] == 2**62
    wide = trees.RankedTrees(np.array([0, 63]), np.array([-1] + [0] * 62), np.array([0, *range(62)]))
    assert wide.heap(None)[-1] == (2**62 + 2**62 - 1) - 2**61  # one step to the left, then 61 to the right

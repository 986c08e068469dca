"""Drawings of samples: words, trees, grids, rings, and products of two of them."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from ape_cli.cli import drawings
from ape_cli.cli.drawings import Pair
from ape_cli.core.errors import DataError
from ape_cli.structure import parse_structure


def lines(structure: str, positions: list[Any], names: list[str], **options: Any) -> list[str]:
    """The drawing as lines of text without trailing spaces."""
    console = Console(width=60, color_system=None)
    arguments = {"order": None, "binarised": False} | options
    with console.capture() as captured:
        console.print(drawings.drawn(parse_structure(structure), positions, names, **arguments))
    return [line.rstrip() for line in captured.get().splitlines()]


WORDS = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 2]]
GRIDS = [[1, 0, 0], [2, 0, 0], [2, 0, 1], [2, 1, 0], [2, 1, 1], [3, 0, 0]]


def test_words_grids_rings_and_products() -> None:
    cases: list[tuple[str, list[Any], str, list[str]]] = [
        ("seq", [0, 1, 2], "a b c", ["abc"]),
        ("seq", [0, 1], "w1 b", ["w1 b"]),
        ("grid(2)", [[0, 0], [0, 1], [1, 0], [1, 1]], "a bb c d", ["a  bb", "c  d"]),  # aligned columns
        ("grid(2)", [[0, 0], [0, 9]], "a b", ["ab"]),  # too sparse for a drawing
        ("cyclic(3)", [0, 0, 1, 2], "+1 a b c", ["+1", "0:a  1:b  2:c"]),  # the offset is above
        ("seq*tree(2)", [[0, 1], [0, 2], [0, 3], [1, 1]], "f x y z", ["f", "├── x", "└── y", "z"]),
        ("grid(2)*seq", WORDS, "a b c d e f g", ["ab   c", "d    efg"]),
        ("tree(4)*grid(2)", GRIDS, "split a b c d e", ["split", "├── a b", "│   c d", "└── e"]),
        ("grid(3)", [[0, 0, 0], [0, 0, 1]], "a b", ["ab"]),  # other products are a line
        ("tree(2)*seq", [[1, 0], [2, 0]], "a b", ["ab"]),
    ]
    for structure, positions, names, expected in cases:
        assert lines(structure, positions, names.split()) == expected, structure


def test_a_tree_has_its_first_child_first() -> None:
    drawn = lines("tree(2)", [1, 2, 3, 6, 7], list("fxgyz"), order="breadth")
    assert drawn == ["f", "├── x", "└── g", "    ├── y", "    └── z", "", "in breadth order: fxgyz"]
    drawn = lines("tree(2)", [1, 2], ["f", "x"], order="depth", binarised=True)
    assert drawn[:2] == ["f", "└── first child: x"]


def test_a_binarised_tree_says_what_each_step_means() -> None:
    """The tree f(x, g(y), z). An address and a tree below `<query>` are not siblings."""
    drawn = lines("tree(2)", [1, 2, 5, 10, 11], list("fxgyz"), order="breadth", binarised=True)
    assert drawn[:5] == [
        "f",
        "└── first child: x",
        "    └── next sibling: g",
        "        ├── first child: y",
        "        └── next sibling: z",
    ]
    drawn = lines("tree(2)", [1, 2, 3, 4, 6], ["<query>", "<at>", "f", "<1>", "x"], order="breadth", binarised=True)
    assert drawn[:5] == ["<query>", "├── <at>", "│   └── first child: <1>", "└── f", "    └── first child: x"]


def test_a_tree_without_a_root_is_no_tree() -> None:
    for structure, positions in (("tree(2)", [2, 3]), ("seq*tree(2)", [[0, 2], [0, 3]])):
        with pytest.raises(DataError, match="no root"):
            lines(structure, positions, ["x", "y"])


def test_trees_are_side_by_side_if_they_fit_and_the_line_below_is_folded() -> None:
    """Words are not folded: they are one below the other if they do not fit."""

    def pair(structure: str, width: int) -> list[str]:
        positions, names = ([1, 2, 3, 6, 7], [f"f{i}" for i in range(5)])
        side = drawings.drawn(parse_structure(structure), positions, names, order="breadth", binarised=False)
        console = Console(width=width, color_system=None)
        with console.capture() as captured:
            console.print(Pair("title", side, side))
        return [line.rstrip() for line in captured.get().splitlines()]

    wide, narrow = pair("tree(2)", 80), pair("tree(2)", 40)
    assert [line.count("└── f2") for line in wide if "f2" in line] == [2, 0]
    assert [line.count("in breadth order: f0 f1 f2 f3 f4") for line in wide if "order" in line] == [2]
    assert [line.count("└── f2") for line in narrow if "└── f2" in line] == [2]
    assert max(map(len, narrow)) <= 40
    assert "│ f0 f1 f2 f3 f4" in "\n".join(narrow)
    assert [line.count("└── f2") for line in pair("tree(2)", 20) if "└── f2" in line] == [1, 1]
    assert not any("│" in line for line in pair("seq", 20))


def test_nodes_without_their_parents_are_drawn_at_their_places() -> None:
    """The target of the task `mask` has only some nodes: here 5, the second child of 2, and 6, the first of 3."""
    drawn = lines("tree(2)", [1, 5, 6, 12], list("fhgz"), order="breadth")
    assert drawn[:6] == ["f", "├── ·", "│   └── h", "└── ·", "    └── g", "        └── z"]


def test_a_pair_is_side_by_side_only_if_it_fits() -> None:
    """A deep tree would have a column of one letter beside its target."""
    pair = Pair("a title", Text("s" * 30), Text("t" * 30))
    for width, beside in ((67, True), (66, False)):
        console = Console(width=width, file=io.StringIO())
        console.print(pair)
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        assert any("s" * 30 in line and "t" * 30 in line for line in lines) == beside
        assert all(any(30 * letter in line for line in lines) for letter in "st")
        assert lines[0].strip() == "a title"

"""The places of a picture: how many there are, their names, how far apart they are, and where they are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from ape_cli.core.errors import UsageError
from ape_cli.reports.pictures._places import apart, coordinates, edges, index_of, middle, names, places
from ape_cli.structure import parse_structure


def of(expression: str, **sizes: int | None) -> tuple:
    structure = parse_structure(expression)
    return structure, places(structure, sizes)


def test_the_places_of_each_structure() -> None:
    assert of("seq", length=3)[1].tolist() == [1, 2, 3]
    assert of("tree(2)", depth=2)[1].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert len(of("tree(3)", depth=2)[1]) == 1 + 3 + 9
    assert of("cyclic(4)")[1].tolist() == [1, 2, 3, 4]
    assert of("grid(2)", side=2)[1].tolist() == [[1, 1], [1, 2], [2, 1], [2, 2]]
    assert of("seq*tree(2)", length=2, depth=1)[1].tolist() == [[1, 1], [1, 2], [1, 3], [2, 1], [2, 2], [2, 3]]
    assert [len(of(e)[1]) for e in ("seq", "tree(2)", "grid(2)", "grid(3)", "seq*tree(2)")] == [32, 31, 36, 27, 42]


def test_places_are_found_by_their_names() -> None:
    _, at = of("grid(2)", side=3)
    assert names(at)[:4] == ["1,1", "1,2", "1,3", "2,1"]
    assert index_of("2, 3", at) == 5
    with pytest.raises(UsageError, match="no such place"):
        index_of("4,1", at)


def test_the_middle_and_a_child_of_the_root_are_the_usual_nodes() -> None:
    assert names(of("grid(2)", side=3)[1])[middle(*of("grid(2)", side=3))] == "2,2"
    assert middle(*of("tree(2)", depth=2)) == 1
    assert middle(*of("tree(2)", depth=0)) == 0


def test_an_offset_is_key_minus_query() -> None:
    offset, label = apart(*of("seq", length=3))
    assert offset.tolist() == [[0, 1, 2], [-1, 0, 1], [-2, -1, 0]]
    assert label == "offset, key - query"
    assert apart(*of("cyclic(3)"))[0].tolist() == [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
    assert apart(*of("tree(2)", depth=1))[0].tolist() == [[0, 1, 1], [1, 0, 2], [1, 2, 0]]
    assert apart(*of("grid(2)", side=2))[0][0].tolist() == [0, 1, 1, 2]


def test_a_tree_is_drawn_with_its_root_above_the_middle_and_its_first_child_to_the_left() -> None:
    structure, at = of("tree(2)", depth=1)
    assert coordinates(structure, at).tolist() == [[1.0, 0.0], [0.5, -1.0], [1.5, -1.0]]
    assert edges(structure, at) == [(0, 1), (0, 2)]


def test_a_grid_is_drawn_row_by_row_and_a_ring_clockwise() -> None:
    structure, at = of("grid(2)", side=2)
    assert coordinates(structure, at).tolist() == [[1, -1], [2, -1], [1, -2], [2, -2]]
    assert edges(structure, at) == [(0, 1), (0, 2), (1, 3), (2, 3)]
    ring, at = of("cyclic(4)")
    assert np.sign(np.round(coordinates(ring, at), 9)).tolist() == [[0, 1], [1, 0], [0, -1], [-1, 0]]
    assert edges(ring, at) == [(0, 1), (0, 3), (1, 2), (2, 3)]
    assert coordinates(*of("seq*tree(2)")) is None

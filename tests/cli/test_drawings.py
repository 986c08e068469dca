"""Drawings of samples: words, trees, grids, rings, products of two of them, and images."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from rich.text import Text

from ape_cli import tasks
from ape_cli.cli import drawings
from ape_cli.cli.drawings import Mosaic, side_by_side
from ape_cli.core.errors import DataError
from ape_cli.data import manifest
from ape_cli.storage import image_rows
from ape_cli.storage.sources import ImageSource, LabelledImages
from ape_cli.structure import parse_structure
from tests.conftest import ape


def lines(structure: str, positions: list[Any], names: list[str], **options: Any) -> list[str]:
    """The drawing as lines of text without trailing spaces."""
    console = Console(width=60, color_system=None)
    arguments = {"binarised": False} | options
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
        ("cyclic(4)", [1, 2, 3], "a b c", ["1:a  2:b  3:c"]),  # a part of the ring
        ("seq*tree(2)", [[0, 1], [0, 2], [0, 3], [1, 1]], "f x y z", ["f", "├── x", "└── y", "z"]),
        ("grid(2)*seq", WORDS, "a b c d e f g", ["ab   c", "d    efg"]),
        ("tree(4)*grid(2)", GRIDS, "split a b c d e", ["split", "├── a b", "│   c d", "└── e"]),
        ("grid(3)", [[0, 0, 0], [0, 0, 1]], "a b", ["ab"]),  # other products are a line
        ("tree(2)*seq", [[1, 0], [1, 1], [2, 0]], "a b c", ["ab", "└── c"]),
    ]
    for structure, positions, names, expected in cases:
        assert lines(structure, positions, names.split()) == expected, structure


def test_a_tree_has_its_first_child_first() -> None:
    drawn = lines("tree(2)", [1, 2, 3, 6, 7], list("fxgyz"))
    assert drawn == ["f", "├── x", "└── g", "    ├── y", "    └── z"]
    drawn = lines("tree(2)", [1, 2], ["f", "x"], binarised=True)
    assert drawn[:2] == ["f", "└── x"]


def test_a_binarised_tree_is_drawn_in_its_original_shape() -> None:
    """The tree f(x, g(y), z). An address and a tree below `<query>` are not siblings."""
    drawn = lines("tree(2)", [1, 2, 5, 10, 11], list("fxgyz"), binarised=True)
    assert drawn == lines("tree(3)", [1, 2, 3, 4, 8], list("fxgzy")) == ["f", "├── x", "├── g", "│   └── y", "└── z"]
    drawn = lines("tree(2)", [1, 2, 3, 4, 6], ["<query>", "<at>", "f", "<1>", "x"], binarised=True)
    assert drawn[:5] == ["<query>", "├── <at>", "│   └── <1>", "└── f", "    └── x"]


def test_lines_are_dim_and_labels_are_not() -> None:
    drawing = drawings.drawn(parse_structure("tree(2)"), [1, 2, 5], list("fxg"), binarised=True)
    console = Console(width=60, force_terminal=True, color_system="standard", file=io.StringIO())
    console.print(drawing)
    last = console.file.getvalue().splitlines()[2]  # type: ignore[attr-defined]
    assert last.startswith("\x1b[2m└── \x1b[0mg")  # the next sibling of x is a child of f


def test_a_tree_without_a_root_is_no_tree() -> None:
    for structure, positions in (("tree(2)", [2, 3]), ("seq*tree(2)", [[0, 2], [0, 3]])):
        with pytest.raises(DataError, match="no root"):
            lines(structure, positions, ["x", "y"])


def test_nodes_without_their_parents_are_drawn_at_their_places() -> None:
    """The target of the task `mask` has only some nodes: here 5, the second child of 2, and 6, the first of 3."""
    drawn = lines("tree(2)", [1, 5, 6, 12], list("fhgz"))
    assert drawn[:6] == ["f", "├── ·", "│   └── h", "└── ·", "    └── g", "        └── z"]


def test_a_pair_is_side_by_side_only_if_it_fits() -> None:
    """A deep tree would have a column of one letter beside its target."""
    for width, beside in ((64, True), (63, False)):
        console = Console(width=width, file=io.StringIO())
        console.print(side_by_side("a title", {"source": Text("s" * 30), "target": Text("t" * 30)}))
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        assert any("s" * 30 in line and "t" * 30 in line for line in lines) == beside
        assert all(any(30 * letter in line for line in lines) for letter in "st")


def drawn_image(pixels: Any, width: int = 40) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width).print(Mosaic(np.array(pixels, dtype=np.uint8)))
    return file.getvalue().splitlines()


def test_pixels_are_shades() -> None:
    """Each of five shades covers a fifth of 0 to 255. Values 51, 102 and 153 are the last of their shades."""
    assert drawn_image([[[0], [51], [52], [102]], [[103], [153], [154], [255]]]) == ["    ░░░░", "▒▒▒▒▓▓██"]
    assert drawn_image([[[255, 255, 255], [255, 0, 0]]]) == ["██░░"]


def test_what_is_too_wide_is_drawn_smaller_with_the_means_of_squares_and_says_so() -> None:
    for width, factor in ((16, 1), (15, 2), (8, 2), (7, 3)):
        found = drawn_image(np.full((5, 8, 1), 200), width=width)
        assert (f"1/{factor}" in found[0]) == (factor > 1)
        assert found[-1] == "▓▓" * -(-8 // factor)
    image = [[[0], [100], [255]], [[100], [200], [255]], [[60], [60], [0]]]
    assert drawn_image(image, width=4)[-2:] == ["░░██", "░░  "]  # the means are 100 and 255; 60 and 0


def test_show_of_images(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ape show` prints the label's name and an image that fits the width of a pipe. --json prints numbers."""
    pixels = np.random.default_rng(0).integers(256, size=(30, 4, 200, 3), dtype=np.uint8)
    owls = ImageSource("owls", ["cat [bold]", "owl"], {"train": LabelledImages(pixels, np.arange(30) % 2)})
    monkeypatch.setattr("ape_cli.tasks.images.open_source", lambda where, label: owls)
    ape("gen", "images", "--source", "x", "--seed", "1")
    names, table = owls.classes, tasks.make("images").sample(rows=range(20), split="train", seed=1)
    for row in (0, 7):
        label = table["label"][row].as_py()
        out, _ = ape("show", "images-owls", "--row", str(row))
        assert f"images, train row {row}, label {label}: {names[label]}" in out
        assert "4 x 200 pixels, RGB" in out
        assert "1/3 of 4 x 200 pixels" in out  # 400 characters and half of them are both too wide
        assert all(len(line) <= 160 for line in out.splitlines())
        shown = json.loads(ape("show", "images-owls", "--row", str(row), "--json")[0])
        expected = {"row": row, "label": label, "class": names[label], "size": 200}
        assert shown == expected | {"pixels": image_rows.pixels(table, (4, 200, 3))[row].tolist()}
    rows = manifest.read_manifest(Path("datasets/images-owls")).plan.rows["test"]
    assert "no such row" in ape("show", "images-owls", "--split", "test", "--row", str(rows), code=2)[1]

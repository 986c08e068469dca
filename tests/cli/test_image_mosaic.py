"""How an image is drawn on a terminal and in a pipe, character by character."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from ape_cli import tasks
from ape_cli.cli.drawings import Mosaic
from ape_cli.data import manifest
from ape_cli.storage import image_rows
from ape_cli.storage.sources import ImageSource, LabelledImages
from tests.conftest import ape


def drawn(pixels: Any, width: int = 40, **options: Any) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width, _environ={}, **options).print(Mosaic(np.array(pixels, dtype=np.uint8)))
    return file.getvalue().splitlines()


def colours(pixels: Any, **options: Any) -> list[str]:
    return drawn(pixels, force_terminal=True, color_system="truecolor", **options)


def test_two_rows_of_pixels_a_line() -> None:
    """The text colour is the upper pixel, the background colour the lower one. A single last row has no background."""
    found = colours([[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]], [[255, 0, 0], [0, 255, 0]]])
    assert found == [
        "\x1b[38;2;1;2;3;48;2;7;8;9m▀\x1b[0m\x1b[38;2;4;5;6;48;2;10;11;12m▀\x1b[0m",
        "\x1b[38;2;255;0;0m▀\x1b[0m\x1b[38;2;0;255;0m▀\x1b[0m",
    ]


@pytest.mark.parametrize("options", [{}, {"force_terminal": True, "color_system": "truecolor", "no_color": True}])
def test_shades_where_there_are_no_colours(options: dict[str, Any]) -> None:
    """Each of five shades covers a fifth of 0 to 255. Values 51, 102 and 153 are the last of their shades."""
    assert drawn([[[0], [51], [52], [102]], [[103], [153], [154], [255]]], **options) == ["    ░░░░", "▒▒▒▒▓▓██"]


@pytest.mark.parametrize(("width", "factor"), [(16, 1), (15, 2), (8, 2), (7, 3)])
def test_what_is_too_wide_is_drawn_smaller_and_says_so(width: int, factor: int) -> None:
    found = drawn(np.full((5, 8, 1), 200), width=width)
    assert (f"1/{factor}" in found[0]) == (factor > 1)
    assert found[-1] == "▓▓" * -(-8 // factor)


def test_a_smaller_one_has_the_means_of_squares() -> None:
    image = [[[0], [100], [255]], [[100], [200], [255]], [[60], [60], [0]]]
    assert drawn(image, width=4)[-2:] == ["░░██", "░░  "]  # the means are 100 and 255; 60 and 0


@pytest.fixture
def owl(here: Path, monkeypatch: pytest.MonkeyPatch) -> ImageSource:
    rng = np.random.default_rng(0)
    whole = LabelledImages(rng.integers(256, size=(30, 4, 200, 3), dtype=np.uint8), np.arange(30) % 2)
    found = ImageSource("owls", ["cat [bold]", "owl"], {"train": whole})
    monkeypatch.setattr("ape_cli.tasks.images.open_source", lambda where, label: found)
    ape("gen", "images", "--source", "x", "--seed", "1")
    return found


def test_show_of_images(owl: ImageSource) -> None:
    """`ape show` prints the label's name and an image that fits the width of a pipe. --json prints numbers."""
    names, table = owl.classes, tasks.make("images").sample(rows=range(20), split="train", seed=1)
    for row in (0, 7):
        label = table["label"][row].as_py()
        out, _ = ape("show", "images-owls", "--row", str(row))
        assert f"images, train row {row}, label {label}: {names[label]}" in out
        assert "4 x 200 pixels, RGB" in out
        assert "1/3 of 4 x 200 pixels" in out  # 400 characters and half of them are both too wide
        assert all(len(line) <= 160 for line in out.splitlines())
        found = json.loads(ape("show", "images-owls", "--row", str(row), "--json")[0])
        assert found == {
            "row": row,
            "label": label,
            "class": names[label],
            "size": 200,
            "pixels": image_rows.pixels(table, (4, 200, 3))[row].tolist(),
        }
    rows = manifest.read_manifest(Path("datasets/images-owls")).plan.rows["test"]
    assert "no such row" in ape("show", "images-owls", "--split", "test", "--row", str(rows), code=2)[1]

"""Pictures as figures: the numbers are those of the panels, and the same picture gives the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

from ape_cli.reports.pictures import Material, colour, load
from ape_cli.reports.pictures._figure import encoded, figure
from tests.reports.pictures.material import line, made, subject

TREE = made(subject("tree(2)", np.arange(-9, 9).reshape(2, 3, 3), depth=1))


def test_a_curve_has_its_band() -> None:
    (axes,) = figure("a title", load("offsets").panels(made(line()))).axes
    (drawn,) = axes.get_lines()
    assert drawn.get_xydata().tolist() == [[-2, 6.5], [-1, 8.75], [0, 11], [1, 13.25], [2, 15.5]]
    (band,) = axes.collections
    assert {tuple(corner) for corner in band.get_paths()[0].vertices} >= {(-2, 0), (-2, 13), (2, 31)}
    assert axes.get_xlabel() == "offset, key - query"


def test_the_first_query_is_at_the_top() -> None:
    axes, bar = figure("a title", load("pairs").panels(made(line()))).axes
    (image,) = axes.get_images()
    assert image.get_array().tolist() == [[5.5, 10.5, 15.5], [6, 11, 16], [6.5, 11.5, 16.5]]
    low, high = axes.get_ylim()
    assert low > high
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("key", "query")
    assert image.get_clim() == (-16.5, 16.5)
    assert bar.get_ylabel() == "score: added to the logit"
    assert bar.get_ylim() == (0, 16.5)  # the colours that occur, and 0


def test_nodes_have_the_colours_of_their_numbers() -> None:
    axes, _ = figure("a title", load("nodes").panels(TREE)).axes
    edges, circles = axes.collections
    assert len(edges.get_paths()) == 2
    assert circles.get_array().tolist() == [-1.5, -0.5, 0.5]
    assert circles.get_clim() == (-1.5, 1.5)
    found = circles.cmap(circles.norm(circles.get_array()))[:, :3] * 255
    assert np.abs(found - [colour(-1.0), colour(-1 / 3), colour(1 / 3)]).max() < 2
    assert [text.get_text() for text in axes.texts] == ["1", "2", "3"]


def test_the_same_picture_gives_the_same_bytes() -> None:
    for kind in ("svg", "png", "pdf"):
        first, second = (encoded("a title", load("overview").panels(TREE), kind) for _ in range(2))
        assert first == second
        if kind == "svg":
            assert b"<dc:date>" not in first
            assert b">a title<" in first  # words stay words


def test_tokens_are_written_at_the_axes() -> None:
    tokens = (["<b>", "$x$"], ["c"])
    material = Material("a title", weights=np.ones((1, 1, 2, 1)), tokens=tokens)
    axes, bar = figure("a title", load("attention").panels(material)).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["<b>", "$x$"]
    assert bar.get_ylabel() == "attention weight"


@pytest.mark.parametrize("largest", [1.0, 3e-4, 250.0])
def test_a_picture_does_not_depend_on_the_last_digits(largest: float) -> None:
    """Processors round differently, and the gallery has to be the same on all of them."""
    draw = np.random.default_rng(2)
    of_offset = largest * draw.uniform(-1, 1, (2, 17)).round(3)  # its means are far from the ends of seven digits
    of_offset[:, 8] = largest
    scores = np.stack([[[head[8 + key - query] for key in range(9)] for query in range(9)] for head in of_offset])
    noisy = scores * (1 + draw.uniform(-2e-9, 2e-9, scores.shape))
    for view in ("offsets", "pairs", "overview"):
        one, other = (load(view).panels(made(subject("seq", x, length=9))) for x in (scores, noisy))
        assert encoded("a title", one, "svg") == encoded("a title", other, "svg")

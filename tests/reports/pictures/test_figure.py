"""Pictures as figures: the numbers are those of the panels, and the same picture gives the same bytes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ape_cli.cli.draw import Places, SchemeOptions, of_scheme
from ape_cli.reports.pictures import Material, load
from ape_cli.reports.pictures._figure import figure
from ape_cli.reports.plots import encode
from tests.reports.pictures.material import made, subject

TREE = made(subject("tree(2)", np.arange(-9, 9).reshape(2, 3, 3), depth=1))


def test_the_same_picture_gives_the_same_bytes() -> None:
    for kind in ("svg", "png", "pdf"):
        first, second = (encode(figure("a title", load("overview").panels(TREE)), kind) for _ in range(2))
        assert first == second
        if kind == "svg":
            assert b"<dc:date>" not in first
            assert b">a title<" in first  # words stay words
            ids = re.findall(rb'\bid="([^"]+)"', first)
            assert len(ids) == len(set(ids))
            assert set(re.findall(rb'(?:href="|url\()#([^")]+)', first)) <= set(ids)
            assert not re.search(rb'id="\w*[0-9a-f]{10}"', first)


def test_no_legend_covers_a_curve() -> None:
    drawn = figure("a title", load("overview").panels(made(subject("seq", np.ones((2, 9, 9)), length=9))))
    drawn.draw_without_rendering()
    axes = drawn.axes[0]
    assert axes.get_legend().get_window_extent().y1 < axes.get_window_extent().y0


def test_the_label_of_the_colour_bar_is_inside_the_picture() -> None:
    """With these scores, the first layout makes room for ticks like -4, and the ticks become -4.0."""
    material = of_scheme("kerple", SchemeOptions(), Places(length=24))
    svg = encode(figure(material.title, load("overview").panels(material)), "svg").decode()
    (width,) = re.findall(r'viewBox="0 0 ([\d.]+) ', svg)
    *_, x = re.findall(r' x="([\d.]+)"[^>]*>score: added to the logit<', svg)
    assert float(x) < float(width)


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
        assert encode(figure("a title", one), "svg") == encode(figure("a title", other), "svg")

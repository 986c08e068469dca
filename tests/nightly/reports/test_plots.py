"""Figures of every format have the same bytes each time."""

from __future__ import annotations

import re
import xml.etree.ElementTree

import pytest
from matplotlib.figure import Figure

from ape_cli.reports import plots
from tests.figures import ROWS, TABLE, figures, panel


@pytest.mark.parametrize(
    ("kind", "magic", "axis"),
    [
        ("png", b"\x89PNG\r\n", "score"),
        ("pdf", b"%PDF-", "error"),
        ("svg", b"<?xml", "score"),
        ("svg", b"<?xml", "error"),
    ],
)
def test_files_are_what_they_say_and_the_same_each_time(kind: str, magic: bytes, axis: str) -> None:
    by_size, learning = panel(ROWS | {"tree": [1.0] * 3}, seen=(1, 2), few=[10.0]), panel(ROWS, seeds=2)

    def make() -> list[Figure]:
        return list(figures([TABLE], [by_size], [learning], "exact_match", axis).values())

    first, again = ([plots.encode(figure, kind) for figure in make()] for _ in range(2))
    assert len(first) == 3
    assert first == again
    for content in first:
        assert content.startswith(magic)
        assert re.search(rb"(19|20)\d\d-\d\d-\d\d|D:20\d\d", content) is None  # no date
    if kind == "svg":
        assert xml.etree.ElementTree.fromstring(first[0]).tag == "{http://www.w3.org/2000/svg}svg"

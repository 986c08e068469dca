"""Tables and lists in terminals of different widths."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType
from rich.text import Text

from ape_cli.reports.terminal import WideTable, listing


def lines(shown: RenderableType, width: int) -> list[str]:
    """What a terminal of some width shows."""
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(shown)
    return console.export_text().splitlines()


def table(*columns: str) -> WideTable:
    return WideTable("Scores", "scheme", list(columns), [(Text("rope"), [Text("99.50 ±0.1") for _ in columns])])


def test_names_of_columns_are_folded_between_words() -> None:
    """A long name takes several lines, and the table is not wider than its numbers need."""
    assert lines(table("copy", "copy on copy-longer"), 80) == [
        "Scores",
        "┏━━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━┓",
        "┃        ┃            ┃           copy ┃",
        "┃ scheme ┃       copy ┃ on copy-longer ┃",
        "┡━━━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━┩",
        "│ rope   │ 99.50 ±0.1 │     99.50 ±0.1 │",
        "└────────┴────────────┴────────────────┘",
    ]


def test_numbers_of_a_list_are_aligned_on_the_right() -> None:
    shown = listing(["scheme", "learns"], [["rope", "no"], ["relative", "12,864"]], numbers=["learns"])
    assert lines(shown, 80)[3:5] == ["│ rope     │     no │", "│ relative │ 12,864 │"]

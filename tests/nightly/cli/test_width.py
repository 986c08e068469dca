"""Tables are readable on a terminal of any width."""

from __future__ import annotations

import io
import re

from ape_cli.reports.terminal import WideTable, listing


def test_columns_are_never_lost() -> None:
    """Whatever the width, each cell is printed once."""
    from rich.console import Console
    from rich.text import Text

    names = [f"task-{i}/depth" for i in range(7)]
    table = WideTable("title", "scheme", names, [(Text("rope"), [Text(f"{i}.00 ±0.{i}") for i in range(7)])])
    texts = listing(["name", "about", "more"], [["a-long-name", "some words that fold", "x" * 50]])
    for width in (20, 30, 45, 80, 200):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(table)
        console.print(texts)
        text = console.export_text()
        if width < 30:
            continue
        assert all(text.count(f"{i}.00 ±0.{i}") == 1 for i in range(7)), width
        assert re.sub(r"[^x]", "", text.split("a-long-name")[1]).count("x") == 50, width

"""Pages of Markdown: tables, blocks of code, and docstrings as prose."""

from __future__ import annotations

import html
import inspect
import re
from collections.abc import Iterable
from typing import Any

from ape_cli.cli.console import shown

NOTE = "<!-- Written by tools/reference.py. Do not edit. -->"


def page(title: str, *parts: str) -> str:
    """A page of Markdown."""
    return "\n\n".join([f"# {title}", NOTE, *(part.strip("\n") for part in parts if part)]) + "\n"


def table(heads: list[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown. Bars in cells are escaped."""
    return "\n".join(map(row, [heads, ["---"] * len(heads), *rows]))


def row(cells: Iterable[str]) -> str:
    """A row of a table of Markdown."""
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(text: str) -> str:
    """The text of a cell. Markdown shows the backslash of an escaped bar in code, so such code becomes HTML.

    >>> _cell("`RUN|DATASET` or a | b")
    '<code>RUN&#124;DATASET</code> or a \\\\| b'
    """
    text = re.sub(r"`([^`]*\|[^`]*)`", lambda code: f"<code>{html.escape(code[1]).replace('|', '&#124;')}</code>", text)
    return text.replace("|", "\\|")


def prose(text: str | None) -> str:
    """A docstring as Markdown: examples become blocks of Python."""
    lines, block, indent = [], False, 0
    for line in inspect.cleandoc(text or "").split("\n"):
        if line.lstrip().startswith(">>> ") and not block:
            lines += ["```pycon"]
            block, indent = True, len(line) - len(line.lstrip())
        elif block and not line:
            lines += ["```"]
            block = False
        lines.append(line[indent:] if block else line)
    return "\n".join([*lines, "```"] if block else lines)


def code(value: Any) -> str:
    """A default as code; a dash for none."""
    text = shown(value)
    return text if text == "—" else f"`{text}`"


def option_table(options: dict[str, Any], about: dict[str, str]) -> str:
    """The table of the options of a scheme, a kind of attention or a map. Empty if there are none."""
    rows = [[f"`{key}`", code(value), about.get(key, "")] for key, value in options.items()]
    return table(["option", "default", "meaning"], rows) if rows else ""

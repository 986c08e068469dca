"""The messages on the page on troubleshooting are those that the program prints."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from ape_cli.cli import app
from tests.conftest import ape
from tests.test_docs import PAGES

BLOCKS = re.findall(r"(?<=\n\n)(?:    .*\n)+", PAGES["docs/guides/troubleshooting.md"])
ROPE = "train --scheme rope --task copy --preset tiny --device cpu"
# the first words of a message on the page: commands, of which the last prints it; others need special machines or runs
CAUSES: dict[str, tuple[str, ...]] = {
    "error: the loss is": (f"{ROPE} --set lr_peak=1000 --set steps=200",),
    "error: scheme 'orthogonal-tree'": (ROPE.replace("rope", "orthogonal-tree"),),
    "error: scheme xpos": (ROPE.replace("rope", "xpos"),),
    "error: unknown scheme": (ROPE.replace("rope", "fox"),),
    "error: datasets/copy-tiny": (ROPE, "gen tree-ops --n 1 --out datasets/copy-tiny"),
    "error: there is nothing to report": ("report",),
    "copy-rope-42-013c0bf6 is trained": (ROPE, ROPE),
}
NAME = re.compile(r"copy-rope-42-[0-9a-f]{8}|step \d+|[\d,]+ (?=rows|source|target|tokens)")  # depends on the machine


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("start", CAUSES)
def test_a_message_is_printed(start: str) -> None:
    (block,) = (block for block in BLOCKS if block.strip().startswith(start))
    *before, last = CAUSES[start]
    for words in before:
        ape(*words.split())
    flat = " ".join(NAME.sub("…", CliRunner().invoke(app, last.split()).stderr).split())
    for line in NAME.sub("…", block).splitlines():
        assert " ".join(line.split()) in flat

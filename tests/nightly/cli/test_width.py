"""Every command that prints a table is readable on a terminal of 80 columns."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pyte
import pytest

from ape_cli.reports.terminal import WideTable, listing
from tests.conftest import ROOT, ape

pytestmark = pytest.mark.usefixtures("forked_workers")

COMMANDS = ["schemes --wide", "fields --scheme rope", "runs --wide", "report --against paper", "doctor"]
COMMANDS += ["eval --split validation"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs on several tasks, so that tables of scores are wider than a terminal."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = ["--seeds", "1,2", "--preset", "tiny", "--device", "cpu", "--set", "steps=2"]
        words += ["--set", "validate_every_steps=2", "--workers", "1", "--threads", "1"]
        ape("sweep", "--schemes", "orthogonal-tree,rope", "--tasks", "tree-copy,tree-rotate,c3,tree-ops", *words)
    return folder


def screen(words: str, columns: int, where: Path) -> list[str]:
    """What a terminal of some columns and 2,000 lines shows after a command, without trailing blanks."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    environment |= {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "ape_cli", *words.split()]
    process = subprocess.Popen(command, cwd=where, env=environment, stdin=there, stdout=there, stderr=there)
    os.close(there)
    shown = pyte.Screen(columns, 2000)
    stream = pyte.ByteStream(shown)
    while True:
        try:
            data = os.read(here, 65536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        stream.feed(data)
    os.close(here)
    assert process.wait() == 0, "\n".join(shown.display[:40])
    return [line.rstrip() for line in shown.display if line.strip()]


def test_tables_are_whole(project: Path) -> None:
    """A line of a table that is too wide would be continued in the next line, without a border at its beginning."""
    for words in COMMANDS:
        lines = screen(words, 80, project)
        assert len(lines) > 2, words
        for line in lines:  # both ends of a line are borders, or none is
            assert (line[0] in "┏┃┡│├└") == (line[-1] in "┓┃┩│┤┘"), f"{words}: {line}"


def test_a_wide_report_is_divided(project: Path) -> None:
    lines = screen("report --against paper", 50, project)
    titles = [line for line in lines if ", column" in line]
    assert len(titles) > 1
    assert titles[-1].endswith("of 4")
    assert sum("orthogonal-tree" in line for line in lines) == len(titles)
    assert not [line for line in screen("report --against paper", 200, project) if "columns 1" in line]


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

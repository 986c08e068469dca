"""The tables and pictures of the guide to reports follow from the committed runs."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ape
from tests.test_docs import PAGES, ROOT, commands_of
from tools import report_pictures

PAGE = PAGES["docs/guides/reports.md"]
TABLES = re.findall(r"```sh\n([^`]*)\n```\n\n\| ", PAGE)  # the commands whose output is a table


def test_the_pictures_are_those_of_the_committed_runs() -> None:
    """If this fails, run `make docs` and commit the pictures."""
    for name, svg in report_pictures.drawn().items():
        assert (report_pictures.PICTURES / name).read_text("utf-8") == svg, name


@pytest.mark.parametrize("command", TABLES)
def test_a_table_is_what_the_command_prints(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = PAGE.split(f"{command}\n```\n\n")[1].split("\n\n")[0]
    (words,) = commands_of(f"```sh\n{command}\n```")
    monkeypatch.chdir(ROOT)
    printed, _ = ape(*words, *report_pictures.RUNS, "--format", "markdown")
    assert f"\n\n{table}\n\n" in printed

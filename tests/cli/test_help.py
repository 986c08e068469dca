"""`--help`: options in named groups, the values that they take, and an example that can be copied."""

from __future__ import annotations

import re

import pytest
import typer

from ape_cli.cli import app
from ape_cli.cli._app import COMMANDS as GROUPS
from ape_cli.cli.options import OTHER
from tests.conftest import ape

GROUP = typer.main.get_command(app)
COMMANDS = list(GROUP.commands)  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")


def sections(text: str) -> dict[str, list[str]]:
    """The lines of a help text under each of its titles."""
    found: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines():
        if re.fullmatch(r"[A-Z][A-Za-z, ]*:", line):
            title = line[:-1]
        found.setdefault(title, []).append(line)
    return found


def test_help_is_readable() -> None:
    for name in COMMANDS:
        shown = ape(name, "--help")[0]
        assert not re.search(r"<\w+(\[\w+\])?>", shown), "the name of a type of Python"
        assert max(map(len, shown.splitlines())) <= 80
        assert not re.search(r"[{}]", shown), "a usage in braces"
        (example,) = [line.strip() for line in sections(shown)["Example"][1:] if line.strip()]
        assert example.startswith(f"ape {name}")


def test_all_commands_are_in_a_group_with_a_whole_sentence() -> None:
    shown = ape("--help")[0]
    assert max(map(len, shown.splitlines())) <= 80
    names = [name for names in GROUPS.values() for name in names]
    assert sorted(names) == sorted(COMMANDS)
    found = sections(shown)
    for title, names in GROUPS.items():
        lines = [line for line in found[title][1:] if line]
        assert [line.split()[0] for line in lines] == list(names)  # one line each
        assert all(line.endswith(".") and not line.endswith("...") for line in lines)


def test_no_help_tells_to_run_itself() -> None:
    for words in (("gen",), ("gen", "tree-ops"), ("train",)):
        assert "--help`" not in ape(*words, "--help")[0]


@pytest.mark.parametrize("name", ["train", "sweep", "gen", "eval", "report"])
def test_each_option_of_a_long_command_is_in_a_named_group(name: str) -> None:
    command, shown = GROUP.commands[name], ape(name, "--help")[0]  # type: ignore[attr-defined]
    assert OTHER not in sections(shown)
    with typer.Context(command, info_name=name) as context:
        context.meta["ape_cli.words"] = []
        flags = {flag for option in command.get_params(context) for flag in option.opts if flag.startswith("--")}
    assert sorted(re.findall(r"^  (?:-h, )?(--[\w-]+)", shown, flags=re.M)) == sorted(flags)

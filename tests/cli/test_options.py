"""Options as dataclasses, and messages from below the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.testing import CliRunner

from ape_cli import cli
from ape_cli.cli.options import FOLDERS, Place, expanded, flags_of, option, path, with_folders
from tests.conftest import ape


@dataclass(frozen=True)
class Shared:
    """Options of each kind."""

    PANEL: ClassVar = "A group"
    out: Place = path("Where.", default=...)
    source_order: str | None = option("A word.")
    more: list[str] | None = option("Words.", "--set", metavar="KEY=VALUE")
    dry_run: bool = option("A flag.", default=False)
    count: int = option("A number.", default=3, panel="Another group")


def test_a_dataclass_stands_for_its_fields() -> None:
    calls: list[Any] = []

    def function(name: Annotated[str, typer.Argument()], *, shared: Shared, wide: bool = False) -> None:
        calls.append((name, shared, wide))

    app = typer.Typer()
    app.command()(expanded(function))
    done = CliRunner().invoke(app, ["x", "--out", "a/b", "--set", "k=v", "--set", "l=w", "--dry-run", "--wide"])
    assert done.exit_code == 0, done.output
    shared = Shared(out=Path("a/b"), more=["k=v", "l=w"], dry_run=True)
    assert calls == [("x", shared, True)]
    assert flags_of(shared) == ["--out", "--set", "--dry-run"]
    assert CliRunner().invoke(app, ["x"]).exit_code == 2  # --out is required
    groups = {one.name: one.rich_help_panel for one in typer.main.get_command(app).params if one.name in vars(shared)}
    assert groups == dict.fromkeys(vars(shared), "A group") | {"count": "Another group"}


def test_an_error_from_below_names_options_as_they_are() -> None:
    words = ("train", "--scheme", "rope", "--task", "copy")
    assert "error: bad `threads`\n" in ape(*words, "--threads", "0", code=2)[1]
    told = ape(*words, "--precision", "tf32", "--device", "cpu", code=2)[1]
    assert "got:     `precision=tf32` on cpu\n" in told


def test_proposed_commands_name_the_folders_that_were_typed() -> None:
    given = {"--results": "my results", "--datasets": "d"}
    for text, shown in (
        ("`ape report` shows more", "`ape report --results 'my results'` shows more"),
        (
            "`ape eval --split …` or `ape tasks`",
            "`ape eval --split … --results 'my results' --datasets d` or `ape tasks`",
        ),
        ("`ape gen TASK --out DIR`; run the same `ape gen` command", None),
        ("`ape rm x --results other`, ape report", None),
    ):
        assert with_folders(text, given) == (shown or text)
        assert with_folders(text, {}) == text


def test_the_commands_that_take_folders() -> None:
    commands = typer.main.get_command(cli.app).commands.items()  # type: ignore[attr-defined]
    for flag, names in FOLDERS.items():
        assert names == {name for name, command in commands if any(flag in one.opts for one in command.params)}


def test_every_end_names_the_folder_of_the_runs(here: Path) -> None:
    """With it, each proposed command finds the runs of the one that was typed."""
    there = ["--results", "my results"]
    named = "--results 'my results'"
    assert f"`ape train --scheme rope --task copy {named}`" in ape("runs", *there)[1]
    small = ["--task", "copy", "--preset", "tiny", "--set", "steps=2", "--device", "cpu", *there]
    assert ape("train", "--scheme", "none", *small)[1].endswith(f"\n  ape report {named}\n")
    ape("train", "--scheme", "sinusoidal", *small, "--no-eval")
    told = ape("eval", "--data", "copy-tiny", *there)[1]
    assert f"`ape report --by size {named}` shows" in told
    Path("my sweep.toml").write_text('schemes = ["rope"]\ntasks = ["copy"]\npreset = "tiny"')
    told = ape("report", "--sweep", "my sweep.toml", *there, code=1)[1]
    assert f"`ape sweep 'my sweep.toml' {named}` trains them" in told

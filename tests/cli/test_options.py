"""Options as dataclasses, and messages from below the command line."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

import ape_cli
from ape_cli import tasks
from ape_cli.cli import app as ape_app
from ape_cli.cli.options import AnyPath, expanded, flag, flags_of, option, path
from tests.conftest import ape


@dataclass(frozen=True)
class Shared:
    """Options of each kind."""

    PANEL: ClassVar = "A group"
    out: AnyPath = path("Where.", default=...)
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


def test_an_error_from_below_names_options_as_they_are_typed(here: Path) -> None:
    """With a file of the request, fields of the file are named as they are there."""
    words = ("train", "--scheme", "rope", "--task", "copy")
    assert "error: bad `--threads`\n" in ape(*words, "--threads", "0", code=2)[1]
    told = ape(*words, "--precision", "tf32", "--device", "cpu", code=2)[1]
    assert "got:     `--precision tf32` on cpu\n" in told
    assert "or `--set decay=1`\n" in ape(*words, "--attention", "linear", "--set", "decay=0.9", code=2)[1]
    named = "`--tasks copy,reverse`, or name a `--suite`, or a dataset with `--data`"
    assert named in ape("sweep", "--schemes", "rope", code=2)[1]
    Path("mine.toml").write_text('schemes = ["rope"]')
    assert "`tasks=copy,reverse`, or name a `suite`, or a dataset with `data`" in ape("sweep", "mine.toml", code=2)[1]
    assert "error: bad `--threads`\n" in ape("train", "--config", "mine.toml", "--threads", "0", code=2)[1]


def test_options_named_in_texts_exist() -> None:
    """Those after `ape COMMAND` are options of this command, and others are options of some command."""
    group = typer.main.get_command(ape_app)
    assert isinstance(group, TyperGroup)
    options = {
        name: {flag for item in command.params for flag in item.opts} for name, command in group.commands.items()
    }
    of_tasks = {flag(name) for task in tasks.names() for name in tasks.options_of(tasks.load(task))}
    every = of_tasks.union({"--help"}, *options.values())
    texts = [
        node.value
        for file in Path(ape_cli.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    ]
    for text in texts:
        for command, words in re.findall(r"`ape ([a-z]+)([^`]*)", text):
            assert set(_OPTION.findall(words)) <= options[command] | of_tasks | {"--help"}, text
        if not re.search("torchrun|ray start|tensorboard|trackio", text):
            assert set(_OPTION.findall(text)) <= every, text


_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


@pytest.mark.parametrize(
    "words",
    [
        "gen copy --out a --datasets b",
        "gen images --workers 2",
        "train --scheme rope --task copy --no-eval --decode greedy",
        "schemes --threads 1",
        "schemes --model decoder",
        "draw rope --seed 3",
        "draw rope --node 3",
        "draw sinusoidal --heads 2",
        "report --bold",
        "report --no-counts",
        "report --plot-format png",
        "report --format csv --json",
        "runs --pack a.parquet --sort seed",
        "runs --unpack a.parquet --task copy",
    ],
)
def test_an_option_without_effect_is_refused(words: str, here: Path) -> None:
    assert "has no effect" in ape(*words.split(), code=2)[1]
    assert not list(here.iterdir())

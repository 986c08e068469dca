"""The Tab key completes names without importing what they name."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import typer
from typer._completion_classes import BashComplete

import ape_cli
from ape_cli import attention, position, tasks
from ape_cli.cli import app, completion
from ape_cli.core import vocabulary
from ape_cli.reports import evaluations, rendering, views
from ape_cli.runs import config
from ape_cli.runs.record import DECODINGS
from ape_cli.structure.linearisation import NAMES

GROUP = typer.main.get_command(app)


def tab(line: str) -> list[str]:
    """What the Tab key proposes at the end of a line."""
    *before, word = shlex.split(line) + [""] * line.endswith(" ")
    return [item.value for item in BashComplete(GROUP, {}, "ape", "_APE_COMPLETE").get_completions(before[1:], word)]


def test_it_completes() -> None:
    for line, names in (
        ("ape train --scheme ", position.names()),
        ("ape gen ", tasks.names()),
        ("ape check ", sorted([*position.names(), *attention.names()])),
        ("ape report --view ", views.names()),
        ("ape draw --attention ", ["encoder", "decoder", "cross"]),
        ("ape sweep --schemes rope,orthogonal-t", ["rope,orthogonal-tree"]),
        ("ape gen tree-ops --branch", ["--branching"]),
        ("ape gen copy --branch", []),
    ):
        assert tab(line) == names, line


def test_closed_lists_are_those_that_commands_accept() -> None:
    accepted = {"--preset": config.PRESETS, "--decode": DECODINGS, "--precision": config.PRECISIONS}
    accepted |= {"--metric": evaluations.METRICS, "report --format": rendering.FORMATS, "--split": vocabulary.SPLITS}
    accepted |= {"--model": config.MODELS, "--orders": NAMES}
    for flag, names in accepted.items():
        assert list(completion.VALUES[flag](None)) == list(names), flag


def test_every_entry_is_a_parameter() -> None:
    """A flag that was renamed would silently complete nothing."""
    known = set()
    for command, parameters in GROUP.commands.items():  # type: ignore[attr-defined]
        with parameters.make_context(command, ["trees"], resilient_parsing=True) as ctx:
            names = [parameter.opts[-1] for parameter in parameters.get_params(ctx)]
        known |= {*names, *(f"{command} {name}" for name in names)}
    assert set(completion.VALUES) <= known


def test_it_completes_runs_and_datasets(here: Path) -> None:
    for name in ("results/runs/copy-rope-1-0a/run.json", "datasets/copy/manifest.json", "mine/runs/other/run.json"):
        Path(name).parent.mkdir(parents=True)
        Path(name).touch()
    Path("datasets/half").mkdir()
    assert tab("ape rm ") == tab("ape draw --run co") == ["copy-rope-1-0a"]
    assert tab("ape eval --results mine ") == ["other"]
    assert tab("ape show ") == tab("ape train --data ") == ["copy"]
    assert tab("ape rm --results s3://bucket/results ") == []


def test_it_completes_a_users_own_plug_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their files are not executed."""
    (tmp_path / "position").mkdir()
    (tmp_path / "position/my_scheme.py").write_text("raise SystemExit")
    monkeypatch.setattr(ape_cli, "__path__", [*ape_cli.__path__, str(tmp_path)])
    assert tab("ape train --scheme my") == ["my-scheme"]
    (tmp_path / "position/rope.py").touch()  # two schemes of one name, which every command explains
    assert tab("ape train --scheme ") == []

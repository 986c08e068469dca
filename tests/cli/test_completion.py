"""The Tab key completes names without importing what they name."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer._completion_classes import BashComplete

import ape_cli
from ape_cli import attention, position, tasks
from ape_cli.cli import app, completion
from ape_cli.core import vocabulary
from ape_cli.data import position_maps
from ape_cli.models import device
from ape_cli.reports import evaluations, plots, rendering, views
from ape_cli.runs import config
from ape_cli.runs.record import DECODINGS
from ape_cli.storage import tree_formats
from ape_cli.structure import linearisation
from ape_cli.training import loggers
from tests.conftest import ape

GROUP = typer.main.get_command(app)


def tab(line: str) -> list[str]:
    """What the Tab key proposes at the end of a line."""
    *before, word = shlex.split(line) + [""] * line.endswith(" ")
    return [one.value for one in BashComplete(GROUP, {}, "ape", "_APE_COMPLETE").get_completions(before[1:], word)]


def test_it_completes() -> None:
    for line, names in (
        ("ape train --scheme ", position.names()),
        ("ape schemes rope ", position.names()),
        ("ape sweep --schemes ", position.names()),
        ("ape train --task ", tasks.names()),
        ("ape gen ", tasks.names()),
        ("ape draw --attention ", ["encoder", "decoder", "cross"]),
        ("ape check ", sorted([*position.names(), *attention.names()])),
        ("ape train --positions ", position_maps.names()),
        ("ape train --log ", loggers.names()),
        ("ape sweep --engine ", ["local", "ray"]),
        ("ape report --view ", views.names()),
        ("ape gen trees --format ", tree_formats.names()),
        ("ape gen tree-ops --mirror ", ["all", "root"]),
        ("ape train --preset ", list(config.PRESETS)),
        ("ape train --split-", []),
        ("ape train --scheme=axial-", ["axial-rope"]),
        ("ape sweep --schemes rope,orthogonal-t", ["rope,orthogonal-tree"]),
        ("ape sweep --models decoder,", ["decoder,encoder-decoder"]),
        ("ape gen tree-ops --branch", ["--branching"]),
        ("ape gen copy --branch", []),
        ("ape train --unknown x --positions off", ["offset"]),
    ):
        assert tab(line) == names, line


def test_closed_lists_are_those_that_commands_accept() -> None:
    accepted = {"--preset": config.PRESETS, "--decode": DECODINGS, "--precision": device.PRECISIONS}
    accepted |= {"--metric": evaluations.METRICS, "report --format": rendering.FORMATS, "--split": vocabulary.SPLITS}
    accepted |= {"--plot-format": plots.FORMATS, "--models": config.MODELS, "--model": config.MODELS}
    for flag, names in accepted.items():
        assert list(completion.VALUES[flag](None)) == list(names), flag
    for name in completion.VALUES["--orders"](None):
        assert linearisation.parse(name)
    for name in ("auto", "cpu"):
        assert name in completion.VALUES["--device"](None)
        assert device.choose_device(name)


def test_every_entry_is_a_parameter() -> None:
    """A flag that was renamed would silently complete nothing."""
    known = set()
    for command, one in GROUP.commands.items():  # type: ignore[attr-defined]
        with one.make_context(command, ["trees"], resilient_parsing=True) as ctx:
            names = [parameter.opts[-1] for parameter in one.get_params(ctx)]
        known |= {*names, *(f"{command} {name}" for name in names)}
    assert set(completion.VALUES) <= known


def test_options_of_a_task_are_read_from_its_source() -> None:
    for task in tasks.names():
        declared = tasks.options_of(tasks.load(task))
        read = {option.name: (option.kind, option.help) for option in completion.task_options(task)}
        assert read == {name: (option.kind, option.help) for name, option in declared.items()}


def test_it_completes_runs_and_datasets(here: Path) -> None:
    for name in ("results/runs/copy-rope-1-0a/run.json", "datasets/copy/manifest.json", "mine/runs/other/run.json"):
        Path(name).parent.mkdir(parents=True)
        Path(name).touch()
    Path("datasets/half").mkdir()
    assert tab("ape rm ") == tab("ape draw --run co") == tab("ape export ") == ["copy-rope-1-0a"]
    assert tab("ape eval --results mine ") == ["other"]
    assert tab("ape show ") == tab("ape train --data ") == tab("ape verify --data c") == ["copy"]
    assert tab("ape push ") == ["copy-rope-1-0a", "copy"]
    assert tab("ape rm --results s3://bucket/results ") == []
    assert tab("ape rm --results datasets ") == []


def test_it_completes_a_users_own_plug_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their files are not executed, and a damaged file of a task hides only its options."""
    for name in ("position/my_scheme.py", "tasks/my_task.py", "tasks/damaged.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise SystemExit")
    (tmp_path / "tasks/damaged.py").write_text("class (")
    own = "class Mine(tasks.Task):\n    far: int = tasks.option(2, 'How far.')"
    (tmp_path / "tasks/my_task.py").write_text(f"from ape_cli import tasks\n{own}\nraise SystemExit")
    monkeypatch.setattr(ape_cli, "__path__", [*ape_cli.__path__, str(tmp_path)])
    assert tab("ape train --scheme my") == ["my-scheme"]
    assert tab("ape gen my-task --fa") == ["--far"]
    assert tab("ape gen damaged --order ") == ["breadth", "depth"]
    (tmp_path / "position/rope.py").touch()  # two schemes of one name, which every command explains
    assert tab("ape train --scheme ") == []


def test_help_beside_an_option_is_one_short_line() -> None:
    proposed = BashComplete(GROUP, {}, "ape", "_APE_COMPLETE").get_completions(["train"], "--")
    assert proposed
    assert all(one.help and "\n" not in one.help and len(one.help) <= 70 for one in proposed)
    assert "Positional encoding (`ape schemes` lists them). Required" in " ".join(ape("train", "--help")[0].split())


def test_a_tab_imports_no_large_library() -> None:
    code = """
import sys
from ape_cli.cli import app, completion
import typer
from typer._completion_classes import BashComplete
assert "ape_cli.cli.report" not in sys.modules
group = typer.main.get_command(app)
for line in (["--scheme", ""], ["--task", ""], ["--d"], ["--log", ""], ["--results", "x", "--data", ""]):
    assert BashComplete(group, {}, "ape", "_").get_completions(["gen", "tree-ops", *line[:-1]], line[-1]) is not None
large = {"torch", "polars", "pyarrow", "numpy", "pydantic", "rich", "ape_cli.tasks", "ape_cli.position"}
print(sorted(large & set(sys.modules)))
"""
    env = os.environ | {"_APE_COMPLETE": "complete_bash", "COMP_WORDS": "ape gen tree-ops --d"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")

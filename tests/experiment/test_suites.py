"""Suites: tasks with options under published names, in lists, commands and sweeps."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from ape_cli.cli.sweep import GridOptions
from ape_cli.core.errors import UsageError
from ape_cli.data.loader import open_dataset
from ape_cli.experiment import suites
from ape_cli.experiment.choice import preset_plan, task_and_options
from ape_cli.sweep import specification
from tests.conftest import ape, points_of

OWN = """
summary = "two tasks"
sizes = "1-6"
generalise = "8,10"
rows = 60
[tasks.regular]
"parity check" = "modular kind=parity"
[tasks.other]
reverse = "reverse vocabulary=2 sizes=2-4"
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    return path


def test_a_task_keeps_the_sizes_of_a_suite_unless_it_has_its_own(own: Path) -> None:
    assert [(task.name, task.group, task.text) for task in suites.load(str(own)).tasks] == [
        ("parity check", "regular", "modular kind=parity sizes=1-6"),
        ("reverse", "other", "reverse vocabulary=2 sizes=2-4"),
    ]


def test_the_commands_generate_the_data_of_the_sweep(own: Path) -> None:
    """`--n` is of each size: 60 rows are 10 of each of six sizes, and 20 of each of three."""
    lines = json.loads(ape("tasks", "--suite", "own.toml", "--json")[0])
    assert [line["command"] for line in lines] == [
        "ape gen modular --n 10 --kind parity --sizes 1-6 --out datasets/parity-check",
        "ape gen reverse --n 20 --vocabulary 2 --sizes 2-4 --out datasets/reverse",
    ]
    for line in lines:
        words = shlex.split(line["command"])[1:]
        written = json.loads(ape(*words, "--n-validation", "1", "--n-test", "1", "--json")[0])
        made = open_dataset(Path(written["dataset"])).plan
        _, plan, _ = preset_plan(line["here"], None, "tiny", Path("data"), None, 60)
        assert (made.parameters, made.rows["train"]) == (plan.parameters, plan.rows["train"])


def test_a_sweep_takes_all_tasks_of_a_suite(own: Path) -> None:
    (grid,) = specification.read(None, specification.layer({"schemes": ["rope", "none"], "suite": "own.toml"}))
    assert (grid.generalise, grid.rows) == ((8, 10), 60)
    points = points_of([grid])
    assert [(point.scheme, point.task, point.generalise) for point in points] == [
        (scheme, text, (8, 10))
        for text in ("modular kind=parity sizes=1-6", "reverse vocabulary=2 sizes=2-4")
        for scheme in ("rope", "none")
    ]
    fields: dict[str, Any] = {"schemes": ["rope"], "suite": "own.toml", "generalise": False, "rows": 9, "sizes": "1-3"}
    (grid,) = specification.read(None, specification.layer(fields))
    assert (grid.generalise, grid.rows) == (False, 9)
    _, plan, _ = preset_plan(grid.tasks[1], None, "tiny", Path("data"), grid.sizes, grid.rows)
    assert (plan.parameters["sizes"], plan.rows["train"]) == ([1, 2, 3], 9)


def test_a_task_may_have_settings_and_rows_of_its_own(own: Path) -> None:
    """They are in a grid of their own, and the fields of the sweep replace them."""
    own.write_text(
        'rows = 50\n[tasks]\na = "copy"\nb = { task = "reverse", rows = 9, set = { memory = "last", steps = 3 } }\n'
        'c = { task = "repeat" }'
    )
    fields: dict[str, Any] = {"schemes": ["rope"], "suite": "own.toml", "set": {"epochs": 2}}
    first, second = specification.read(None, specification.layer(fields))
    assert (first.tasks, first.rows, first.settings) == (["copy", "repeat"], 50, {"epochs": 2})
    assert (second.tasks, second.rows, second.settings) == (["reverse"], 9, {"memory": "last", "epochs": 2})
    assert "a sweep trains b with memory=last, steps=3\n" in ape("tasks", "--suite", "own.toml")[1]
    tuned: dict[str, Any] = {"schemes": ["rope"], "suite": "own.toml", "tune": {"set": {"steps": [1, 2]}}}
    assert [grid.settings for grid in specification.read(None, specification.layer(tuned))] == [{}, {"memory": "last"}]


def test_a_task_may_have_a_model_of_its_own(own: Path) -> None:
    own.write_text('model = "decoder"\n[tasks]\na = "copy"\nb = { task = "reverse", model = "encoder-decoder" }')
    fields: dict[str, Any] = {"schemes": ["rope"], "suite": "own.toml"}
    grids = specification.read(None, specification.layer(fields))
    assert [(grid.tasks, grid.models) for grid in grids] == [
        (["copy"], ["decoder"]),
        (["reverse"], ["encoder-decoder"]),
    ]
    (grid,) = specification.read(None, specification.layer(fields | {"models": ["decoder"]}))
    assert (grid.tasks, grid.models) == (["copy", "reverse"], ["decoder"])


@pytest.mark.parametrize("more", [{"tasks": ["repeat"]}, {"data": ["mine"]}])
def test_a_suite_says_nothing_of_other_datasets_of_the_sweep(own: Path, more: dict[str, Any]) -> None:
    own.write_text(
        'rows = 50\ngeneralise = "9"\n[tasks]\na = { task = "copy", set = { memory = "last" } }\nb = "reverse"'
    )
    grids = specification.read(None, specification.layer({"schemes": ["rope"], "suite": "own.toml", **more}))
    assert [(grid.tasks, grid.data, grid.rows, grid.generalise, grid.settings) for grid in grids] == [
        (more.get("tasks", []), more.get("data", []), None, False, {}),
        (["copy"], [], 50, (9,), {"memory": "last"}),
        (["reverse"], [], 50, (9,), {}),
    ]


@pytest.mark.parametrize(("name", "value"), [("rows", 5), ("sizes", "1-3")])
def test_rows_and_sizes_need_a_task(own: Path, name: str, value: Any) -> None:
    fields = {"schemes": ["rope"], "data": ["mine"], name: value}
    with pytest.raises(UsageError, match=f"`{name}` needs a task"):
        specification.read(None, specification.layer(fields))
    file = own.with_name("sweep.toml")
    with_tasks = '[[grid]]\nschemes = ["rope"]\ntasks = ["copy"]\n'
    without = '[[grid]]\nschemes = ["rope"]\ndata = ["mine"]\n'
    file.write_text(f"{with_tasks}{without}{name} = {value!r}\n")
    with pytest.raises(UsageError, match=f"`{name}` needs a task"):
        specification.read(file)
    file.write_text(f"{name} = {value!r}\n{with_tasks}{without}")  # above all grids
    assert [getattr(grid, name) for grid in specification.read(file)] == [value, None]


def test_settings_without_an_effect_leave_a_task_out(own: Path) -> None:
    words = ("--schemes", "rope", "--suite", "mad", "--preset", "tiny", "--models", "decoder", "--dry-run", "--json")
    out, err = ape("sweep", *words)
    assert len(json.loads(out)["trials"]) == 5
    assert "left out: rope on compression-sizes-32-vocabulary-15-rows-12800-tiny: memory=last has no effect" in err


def test_the_tasks_of_an_option_replace_the_suite_of_a_file(own: Path) -> None:
    file = own.with_name("sweep.toml")
    file.write_text('schemes = ["rope"]\nsuite = "own.toml"\n')
    (grid,) = specification.read(file, specification.layer({"tasks": ["copy"]}))
    assert (grid.tasks, grid.suite) == (["copy"], None)


@pytest.mark.parametrize("name", suites.names())
def test_every_suite_can_be_generated(name: str) -> None:
    suite = suites.load(name)
    assert suite.summary
    assert suite.source
    for task in suite.tasks:
        assert suites.command(task).startswith("ape gen ")


def test_a_folder_on_the_path_adds_suites(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ape_cli import tasks

    folder = own.parent / "ape_cli" / "tasks"
    (folder / "suites").mkdir(parents=True)
    own.rename(folder / "suites" / "mine.toml")
    monkeypatch.setattr(tasks, "__path__", [*tasks.__path__, str(folder)])
    assert "mine" in suites.names()
    assert suites.load("mine").summary == "two tasks"
    (folder / "suites" / "mine.toml").rename(folder / "suites" / "mad.toml")
    with pytest.raises(UsageError, match="two suites have the same name"):
        suites.load("chomsky")


def test_with_options_a_task_has_only_the_sizes_of_a_preset(tmp_path: Path) -> None:
    """At preset small, `addition` alone is reversed and padded."""
    task, _, folder = preset_plan("addition base=2", None, "small", tmp_path)
    assert {name: task.options[name] for name in ("base", "digits_mean", "reverse", "pad")} == {
        "base": 2,
        "digits_mean": 3,
        "reverse": False,
        "pad": False,
    }
    assert folder.name == "addition-base-2-small"
    assert preset_plan("addition base=2", None, "small", tmp_path, "1-4", 50)[2].name == (
        "addition-sizes-1-4-base-2-rows-50-small"
    )
    assert preset_plan("modular kind=parity", None, "small", tmp_path)[0].options["kind"] == "parity"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"unknown task\n  got:     ''"),
        ("modlar kind=parity", "did you mean 'modular'"),
        ("modular parity", r"an option of task modular has no value\n  got:     parity\n  allowed: KEY=VALUE"),
        ("modular kind=", r"an option of task modular has no value\n  got:     kind="),
        ("modular king=parity", "did you mean 'kind'"),
        ("tree-copy order=depth", r"unknown option of tree-copy\n  got:     'order'"),
        ("modular name=x", r"unknown option of modular\n  got:     'name'"),
        ("modular kind=odd", r"unknown kind\n  got:     'odd'"),
        ("images source=digits", r"images has the rows of its source\n  got:     rows 7"),
    ],
)
def test_what_is_wrong_with_a_task_is_said(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        preset_plan(text, None, "tiny", tmp_path, None, 7)


def test_values_are_those_of_settings() -> None:
    """A value with commas or spaces is in quotes."""
    assert task_and_options('group-word generators="0" length_mean=8') == (
        "group-word",
        {"generators": "0", "length_mean": 8},
    )
    text = 'group-word group=symmetric-3 generators="(0 1),(0 1 2)"'
    assert task_and_options(text)[1] == {"group": "symmetric-3", "generators": "(0 1),(0 1 2)"}
    assert GridOptions(tasks=f"copy, {text}").spec().tasks == ["copy", text]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"bad value of tasks"),
        ("tasks = 3", "bad value of tasks"),
        ("[tasks]", "bad value of tasks"),
        ("[tasks.empty]", "bad value of tasks.empty"),
        ('[tasks]\na = { task = "copy", sets = 3 }', r"bad value of tasks.a.entry.sets\n  got:     3"),
        ('[tasks]\ncopy = "copy"\n[more]', "unknown field of suite"),
    ],
)
def test_what_is_wrong_with_a_suite_is_said(text: str, message: str, own: Path) -> None:
    own.write_text(text)
    with pytest.raises(UsageError, match=message):
        suites.load(str(own))


def test_an_unknown_suite_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"unknown suite\n  got:     'chomski'[\s\S]*did you mean 'chomsky'"):
        suites.load("chomski")

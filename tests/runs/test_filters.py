"""Filters by scheme, task and preset. Comparisons and curves have only the chosen runs, and no runs are an error."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ape_cli import tasks
from ape_cli.core.errors import ApeError
from ape_cli.experiment.choice import task_and_options
from ape_cli.reports.views import by_epoch
from ape_cli.runs import filters
from ape_cli.runs.filters import Filter
from ape_cli.runs.registry import open_registry
from tests.conftest import ape
from tests.registered import take_steps, write
from tests.reports import test_curves

SCHEMES = ("rope", "none", "alibi")
COLUMNS = [("reverse", None), ("tree-copy", "breadth"), ("tree-copy", "depth"), ("c3", "depth")]
PRESETS = ("small", "tiny")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three schemes on four columns with two presets and two seeds each: scores, scores by size and histories."""
    where = tmp_path_factory.mktemp("filled")
    every = itertools.product(enumerate(itertools.product(COLUMNS, PRESETS)), SCHEMES, (1, 2))
    for (number, ((task, order), preset)), scheme, seed in every:
        given: dict[str, Any] = {"task": task, "order": order, "preset": preset, "fingerprint": f"{number}" * 64}
        folder = test_curves.put(where, scheme, [0.2, 0.6], seed, name=f"data-{number}", **given)
        about = json.loads((folder / "run.json").read_text())
        own = {"depth_mean": 1, "depth_std": 0} if order else {"length_mean": 5, "length_std": 0}
        about["dataset"] |= {"parameters": own, "seed": 1, "rows": {"train": 9, "validation": 9, "test": 1_000}}
        write(folder / "run.json", about)
        take_steps(folder, 200)
    return where


def test_comparisons_and_curves_too(filled: Path) -> None:
    words = ["report", "--results", str(filled), "--compare", "rope", "none", "--format", "json"]
    found = json.loads(ape(*words, "--task", "c3", "--task", "tree-copy", "--preset", "small")[0])
    assert [line["column"] for line in found] == ["tree-copy/breadth", "tree-copy/depth", "c3/depth", "all tasks"]
    assert "did you mean 'rope'" in ape(*words[:-3], "ropes", *words[-2:], "--task", "c3", code=2)[1]
    chosen = open_registry(filled).where(filters.make(["alibi"], ["reverse"], ["tiny"]))
    (panel,) = by_epoch.learning(list(by_epoch.histories(chosen, "token_accuracy")), "token_accuracy")
    assert (panel.title, panel.lines["row"].unique().to_list()) == ("reverse", ["alibi"])


def test_a_name_that_no_run_has_is_an_error(filled: Path) -> None:
    for words, message in (
        (["--scheme", "rope", "--scheme", "tree"], "allowed: alibi, none, rope\n"),
        (["--task", "tree-copy/deep"], "did you mean 'tree-copy/depth'"),
        (["--preset", "paper"], "allowed: small, tiny\n"),
    ):
        for command in ("report", "runs"):
            out, err = ape(command, "--results", str(filled), *words, code=1)
            assert message in err
            assert out == ""
    assert "unknown preset" in ape("runs", "--results", str(filled), "--preset", "smal", code=2)[1]


def test_names_that_no_run_has_together(tmp_path: Path) -> None:
    test_curves.put(tmp_path, "rope", [0.5])
    test_curves.put(tmp_path, "tree", [0.5], task="c3", order="depth")
    chosen = Filter(("rope",), ("c3",))
    with pytest.raises(ApeError, match="matches all of these options") as caught:
        list(open_registry(tmp_path).where(chosen).readable())
    assert caught.value.got == "`scheme=rope` `task=c3`"


def test_without_runs_no_filter_is_wrong(here: Path) -> None:
    assert "no runs in results yet" in ape("runs", "--scheme", "ropee")[1]
    assert "there is nothing to report" in ape("report", "--scheme", "ropee", code=1)[1]


def kind_of(task: str, parameters: dict[str, Any], **of_data: Any) -> filters.RunKind:
    """The kind of a run on a dataset of a task."""
    config: Any = SimpleNamespace(scheme="rope", preset="small")
    data: Any = SimpleNamespace(**{"task": task, "parameters": parameters, "order": None, "image": None} | of_data)
    return filters.run_kind(config, data)


def test_trees_go_by_their_linearisation_too() -> None:
    assert kind_of("tree-copy", {}, order="depth") == (("rope",), ("tree-copy", "tree-copy/depth"), ("small",))


def test_images_go_by_their_source_too() -> None:
    kind = kind_of("images", {"source": "digits", "sha256": "0"}, image=(8, 8, 1))
    assert Filter(tasks=("images/digits",)).picks(kind)
    assert Filter(tasks=("images",)).picks(kind)
    assert not Filter(tasks=("cifar-10",)).picks(kind)
    # an option of another task with the same name is not the name of a task
    assert kind_of("mine", {"source": "digits"})[1] == ("mine",)


@pytest.mark.parametrize("text", ["modular kind=parity", "addition base=2 reverse=true", "copy"])
def test_tasks_with_options_go_by_the_text_of_a_request_too(text: str) -> None:
    name, options = task_and_options(text)
    parameters = tasks.make(name, **options).parameters
    assert kind_of(name, parameters)[1] == tuple(dict.fromkeys((name, text)))


def test_a_sweep_without_finished_runs_is_named(here: Path) -> None:
    Path("mine.toml").write_text('schemes = ["rope", "none"]\ntasks = ["copy", "tree-copy"]\npreset = "tiny"\n')
    err = ape("report", "--sweep", "mine.toml", code=1)[1]
    assert "4 runs, none finished in results" in err
    assert "`ape sweep mine.toml` trains them" in err
    err = ape("report", "--sweep", "mine.toml", "--preset", "tiny", "--scheme", "rope", code=1)[1]
    assert "2 runs, none finished" in err
    err = ape("report", "--sweep", "mine.toml", "--task", "tree-copi", code=1)[1]
    assert "no run in the sweep mine.toml has task 'tree-copi'" in err

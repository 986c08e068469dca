"""Layers of the fields of an experiment: what replaces what, and the experiment that a TOML file describes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from ape_cli.cli.options import RequestOptions
from ape_cli.experiment.spec import ExperimentSpec, merge
from ape_cli.sweep.specification import SweepSpec, TuneSpec
from tests.conftest import ape

FILE = """
scheme = "orthogonal-seq"
task = "tree-copy"
order = "depth"
sizes = "1-2"
preset = "tiny"
seed = 7
attention = "euclidean"
precision = "fp32"
set = { steps = 4, max_size = 9, decay = 1 }
generalise = [3]
decode = "greedy"
"""


def planned(*words: str, file: str = FILE) -> dict[str, Any]:
    """What would be trained."""
    Path("mine.toml").write_text(file)
    given = ["train", "--config", "mine.toml", *words, "--device", "cpu", "--dry-run", "--json"]
    return dict(json.loads(ape(*given)[0]))


@pytest.mark.parametrize(
    ("below", "above", "expected"),
    [
        ({"seed": 1, "task": "copy"}, {"seed": 2}, {"seed": 2, "task": "copy"}),
        ({"task": "copy", "order": "depth", "sizes": "3"}, {"data": "x"}, {"data": Path("x")}),
        ({"data": "x"}, {"task": "copy"}, {"task": "copy"}),
        ({"set": {"steps": 1, "heads": 2}}, {"set": {"epochs": 3}}, {"settings": {"heads": 2, "epochs": 3}}),
        ({"set": {"d_ff_decoder": 8}}, {"set": {"d_ff": 4}}, {"settings": {"d_ff": 4}}),
        ({"set": {"d_ff": 8}}, {"set": {"d_ff_decoder": 4}}, {"settings": {"d_ff": 8, "d_ff_decoder": 4}}),
        (
            {"scheme": "rope", "structure": "seq", "set": {"base": 9, "max_size": 5, "decay": 0.9}},
            {"scheme": "none"},
            {"scheme": "none", "settings": {"decay": 0.9}},
        ),
        ({"scheme": "rope", "set": {"base": 9}}, {"scheme": "rope"}, {"scheme": "rope", "settings": {"base": 9}}),
        (
            {"attention": "clustered", "set": {"clusters": 4, "heads": 2}},
            {"attention": "dot"},
            {"attention": "dot", "settings": {"heads": 2}},
        ),
        (
            {"positions": "randomised", "set": {"maximum": 9}},
            {"positions": "offset", "set": {"maximum": 3}},
            {"positions": "offset", "settings": {"maximum": 3}},
        ),
    ],
)
def test_what_a_layer_replaces(below: dict[str, Any], above: dict[str, Any], expected: dict[str, Any]) -> None:
    """In a sweep, where each part is a list, the same holds."""
    merged = merge(ExperimentSpec(**below), ExperimentSpec(**above))
    assert {name: getattr(merged, name) for name in merged.model_fields_set} == {"settings": {}} | expected
    plural = {"scheme", "structure", "task", "order", "seed", "attention"}

    def several(fields: dict[str, Any]) -> dict[str, Any]:
        lists = {f"{name}s": [value] for name, value in fields.items() if name in plural}
        lists |= {name: [str(value)] for name, value in fields.items() if name in ("data", "positions")}
        return lists | {name: value for name, value in fields.items() if name in ("set", "settings", "sizes")}

    grid = merge(SweepSpec(**several(below)), SweepSpec(**several(above)))
    assert {name: getattr(grid, name) for name in grid.model_fields_set} == {"settings": {}} | several(expected)


def test_parts_and_tables_that_a_grid_keeps() -> None:
    """A scheme that stays keeps its settings, and `tune` is merged key by key."""
    below = SweepSpec(schemes=["rope", "t5"], set={"base": 9, "max_size": 5})
    merged = merge(below, SweepSpec(schemes=["rope", "none"]))
    assert merged.settings == {"base": 9, "max_size": 5}
    assert merge(below, SweepSpec(schemes=["none"])).settings == {}
    tunes = [
        TuneSpec(set={"lr_peak": [1], "decay": [1]}, trials=2, seeds=[1]),
        TuneSpec(set={"lr_peak": [2]}, trials=1),
    ]
    tune = merge(*(SweepSpec(tune=tune) for tune in tunes)).tune
    assert tune == TuneSpec(set={"lr_peak": [2], "decay": [1]}, trials=1, seeds=[1])


def test_what_followed_from_the_parts_of_a_run_goes_with_them() -> None:
    run = ExperimentSpec(scheme="learned", set={"max_size": 9, "decay": 1.0}, derived=frozenset({"max_size", "decay"}))
    for fields, kept in (
        ({"seed": 3}, {"max_size": 9, "decay": 1.0}),
        ({"scheme": "rope"}, {}),
        ({"attention": "linear"}, {}),
        ({"model": "decoder", "set": {"decay": 0.5}}, {"decay": 0.5}),
        ({"set": {"decay": 0.5}}, {"max_size": 9, "decay": 0.5}),
    ):
        merged = merge(run, ExperimentSpec(**fields))
        assert merged.settings == kept
        assert merge(run, ExperimentSpec(**fields), ExperimentSpec(scheme="none")).settings.keys() == (
            {"decay"} if "set" in fields else set()
        )


def test_a_file_trains_what_its_options_train(here: Path) -> None:
    Path("mine.toml").write_text(FILE.replace("max_size = 9, ", ""))
    again = ["--device", "cpu", "--json"]
    result = json.loads(ape("train", "--config", "mine.toml", *again)[0])
    assert [test["by_size"][0]["size"] for test in result["other_tests"]] == [1, 3, 3]  # the first one is greedy
    words = ["--scheme", "orthogonal-seq", "--task", "tree-copy", "--order", "depth", "--sizes", "1-2"]
    words += ["--preset", "tiny", "--seed", "7", "--attention", "euclidean", "--set", "steps=4", "--set", "decay=1"]
    assert json.loads(ape("train", *words, "--dry-run", *again)[0])["run"] == result["run"]


def test_every_field_is_an_option() -> None:
    names = {field.name for field in dataclasses.fields(RequestOptions)} - {"source_order", "file", "no_eval"}
    assert set(ExperimentSpec.model_fields) - {"recorded", "derived"} == names | {"precision"}


def test_options_replace_fields(here: Path) -> None:
    scheme = FILE.replace("orthogonal-seq", "learned").replace(", decay = 1 }", " }").replace("euclidean", "dot")
    plan = planned("--seed", "8", "--set", "epochs=2", "--order", "breadth", "--sizes", "2", file=scheme)
    config = plan["config"]
    assert (config["seed"], config["steps"], config["epochs"], config["max_size"]) == (8, None, 2, 9)
    assert plan["dataset"] == "datasets/tree-copy-breadth-sizes-2-tiny"
    assert (plan["generalise"], plan["decode"]) == ([3], "greedy")
    other = planned("--scheme", "none", "--preset", "small", file=scheme)["config"]  # without the size of `learned`
    assert (other["scheme"], other["max_size"], other["preset"]) == ("none", None, "small")
    assert planned("--no-eval", file=scheme)["decode"] == "teacher"

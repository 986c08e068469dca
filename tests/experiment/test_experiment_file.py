"""`ape train --config FILE.toml`: one experiment, with the names of the options, which replace its fields."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from ape_cli.cli.options import DataOptions, FurtherTestOptions, ModelOptions
from ape_cli.experiment.experiment_file import ExperimentFile
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


def refused(text: str, code: int) -> str:
    Path("mine.toml").write_text(text)
    return ape("train", "--config", "mine.toml", "--device", "cpu", "--dry-run", code=code)[1]


def test_a_file_trains_what_its_options_train(here: Path) -> None:
    Path("mine.toml").write_text(FILE.replace("max_size = 9, ", ""))
    again = ["--device", "cpu", "--json"]
    found = json.loads(ape("train", "--config", "mine.toml", *again)[0])
    assert [test["by_size"][0]["size"] for test in found["other_tests"]] == [1, 3, 3]  # the first one is greedy
    words = ["--scheme", "orthogonal-seq", "--task", "tree-copy", "--order", "depth", "--sizes", "1-2"]
    words += ["--preset", "tiny", "--seed", "7", "--attention", "euclidean", "--set", "steps=4", "--set", "decay=1"]
    assert json.loads(ape("train", *words, "--dry-run", *again)[0])["run"] == found["run"]


def test_every_field_is_an_option() -> None:
    names = {each.name for kind in (ModelOptions, DataOptions, FurtherTestOptions) for each in dataclasses.fields(kind)}
    assert set(ExperimentFile.model_fields) == names - {"source_order"} | {"seed", "preset", "precision", "set"}


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


def test_an_existing_dataset(here: Path) -> None:
    ape("gen", "copy", "--n", "20", "--n-validation", "5", "--n-test", "5", "--length-mean", "4")
    text = 'scheme = "rope"\npreset = "tiny"\n'
    assert planned(file=f'{text}data = "copy"\n')["dataset"] == "datasets/copy"
    assert planned("--task", "reverse", file=f'{text}data = "copy"\n')["dataset"] == "datasets/reverse-tiny"
    assert planned("--data", "copy", file=f'{text}task = "reverse"\nsizes = [2, 3]\n')["dataset"] == "datasets/copy"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('shceme = "rope"', "unknown field of an experiment"),
        ('schemes = ["rope"]', "did you mean 'scheme'?"),
        ('scheme = ["rope"]', "bad scheme of an experiment"),
        ('scheme = "rope"\nset = { decay = [1, 0.9] }', "bad set.decay of an experiment"),
        ('scheme = "rope"\nset = 3', "bad set of an experiment"),
        ('scheme = "rope"\nsizes = [1, "a"]', "bad sizes of an experiment"),
        ('scheme = "rope"\nsizes = "1-3"', "line 2: sizes needs a task"),
        ('scheme = "rope"\ndata = "x"', "no such dataset"),
        ('scheme = "rope"\ntask = "copy"\ndata = "."', "line 3: data already names a dataset"),
        ('scheme = "rope"\ntask = "copy"\norder = "deep"', "unknown order"),
        ('scheme = "rope"\n[[grid]]\ntasks = ["copy"]', "[grid] belongs to a sweep"),
        ('task = "copy"', "no scheme is named"),
        ("scheme = rope", "mine.toml is not TOML"),
    ],
)
def test_bad_files_are_refused(here: Path, text: str, message: str) -> None:
    assert message in refused(text, code=1 if message == "no such dataset" else 2)
    assert sorted(path.name for path in here.iterdir()) == ["mine.toml"]


def test_a_missing_file_is_refused(here: Path) -> None:
    assert "cannot read the file" in ape("train", "--config", "none.toml", code=2)[1]

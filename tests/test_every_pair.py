"""Schemes train, stop, resume and evaluate on data of every structure that they read, with equal results.

Here are twelve pairs of four schemes and six tasks. The other pairs are in `tests/nightly/test_every_pair.py`.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli import experiment, position, tasks
from ape_cli.core.errors import DataError, UsageError
from ape_cli.data.loader import Dataset
from ape_cli.evaluation import evaluate
from ape_cli.experiment import ExperimentSpec
from ape_cli.experiment.reading import structure_for
from ape_cli.runs import config
from ape_cli.runs.registry import open_registry
from ape_cli.storage.tensors import load_tensors
from ape_cli.training import trial
from ape_cli.training.execution import Execution, ExistingRun
from ape_cli.training.trainer import Stopped
from tests.conftest import write

CPU = torch.device("cpu")
SIZES = {"d_model": 24, "d_ff": 24, "heads": 2, "steps": 4, "batch_size": 8, "validate_every_steps": 2}
CHANCE = {"augment": "crop,flip", "dropout": 0.1, "attention_dropout": 0.1, "stochastic_depth": 0.3}  # of images


@pytest.fixture(scope="module")
def of_tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    """A tiny dataset of every task, by the task's name."""
    root = tmp_path_factory.mktemp("tasks")
    made = {}
    for name in tasks.names():
        made[name] = write(root / name, name, rows=(32, 8, 8), **small(name, root))
    return made


def small(name: str, root: Path) -> dict[str, Any]:
    """The options of a task that make a dataset small."""
    if "source" in tasks.options_of(tasks.load(name)) and tasks.load(name).ordered:
        file = root / "trees.jsonl"
        labels = product("abcdefgh", repeat=3)  # 512 different trees
        file.write_text(
            "".join(json.dumps({"label": a, "children": [{"label": b}, {"label": c}]}) + "\n" for a, b, c in labels)
        )
        return {"source": str(file), "branching": 3}
    depths = {"depth_mean": 2, "depth_std": 0.5} if tasks.load(name).ordered else {}
    return depths | dict(tasks.load(name).preset_options.get("tiny", {}))


TASKS = ("copy", "tree-copy", "grid-copy", "ring-shift", "forest-reverse", "images")  # one of each structure
SOME = [  # `tree` does not read words
    *(("rope", task) for task in ("copy", "tree-copy", "images")),
    *(("orthogonal", task) for task in ("tree-copy", "grid-copy", "ring-shift", "forest-reverse")),
    *(("tree", task) for task in ("copy", "tree-copy")),
    *(("sinusoidal", task) for task in ("copy", "grid-copy", "images")),
]


def wanted(scheme: str, found: Dataset, **options: Any) -> config.Config:
    """A tiny configuration of the model for this data: decoder-only, if the scheme does not act elsewhere."""
    if position.load(scheme).causal_only and found.image is None:
        options["model"] = "decoder"
    settings = SIZES if found.image is None else SIZES | CHANCE | {"encoder_layers": 2}
    return ExperimentSpec(preset="tiny", scheme=scheme, set=settings, **options).config(found.modality)


def reads(scheme: str, found: Dataset) -> bool:
    try:
        structure_for(scheme, found.structure)
    except DataError:
        return False
    return True


def check(asked: config.Config, found: Dataset, where: Path) -> None:
    """Checks that a run that is stopped after two steps and resumed ends with the same weights and scores."""
    straight = trial.run_trial(experiment.of(asked, found), open_registry(where / "straight"), Execution(CPU))
    broken, steps = open_registry(where / "broken"), iter([False, False, True])
    with pytest.raises(Stopped):
        trial.run_trial(experiment.of(asked, found), broken, Execution(CPU, stop=lambda: next(steps)))
    resumed = trial.run_trial(experiment.of(asked, found), broken, Execution(CPU), existing=ExistingRun.RESUME)
    ours, theirs = (load_tensors(t.run.folder / "model.safetensors")[0] for t in (straight, resumed))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert straight.evaluation is not None
    assert resumed.evaluation is not None
    assert straight.evaluation["overall"] == resumed.evaluation["overall"]
    for decode in ("teacher", "greedy") if found.image is None else ("teacher",):
        overall = evaluate.evaluate(straight.run, found, split="test", decode=decode, device=CPU)["overall"]
        assert overall["rows"] == 8
        assert decode == "greedy" or overall == straight.evaluation["overall"]


def check_pair(scheme: str, found: Dataset, where: Path) -> None:
    """Checks that a scheme trains on data that it reads, and that other data are refused before a run is created.

    Images are classified by an encoder, where some schemes do not act.
    """
    if position.load(scheme).causal_only and found.image is not None:
        with pytest.raises(UsageError, match="acts only in causal attention"):
            experiment.of(wanted(scheme, found), found)
    elif reads(scheme, found):
        check(wanted(scheme, found), found, where)
    else:
        with pytest.raises(DataError, match="cannot read"):
            trial.run_trial(experiment.of(wanted(scheme, found), found), open_registry(where), Execution(CPU))
        assert not list(where.iterdir())


@pytest.mark.parametrize(("scheme", "task"), SOME)
def test_schemes_of_each_kind_on_each_structure(
    of_tasks: dict[str, Dataset], tmp_path: Path, scheme: str, task: str
) -> None:
    check_pair(scheme, of_tasks[task], tmp_path)

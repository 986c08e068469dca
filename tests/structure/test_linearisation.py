"""Sources in one order and targets in another: how they are stored, read, trained, named and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from ape_cli import experiment
from ape_cli.core.errors import DataError
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.evaluation import evaluate
from ape_cli.experiment import ExperimentSpec
from ape_cli.reports import evaluations
from ape_cli.runs.registry import open_registry
from ape_cli.training import trial
from ape_cli.training.execution import Execution
from tests import recursive
from tests.conftest import ape, write
from tests.tasks.contract import ORDERS, sides

CPU = torch.device("cpu")
TINY = ["--preset", "tiny", "--set", "steps=2", "--threads", "1", "--device", "cpu"]


def tree_data(folder: Path, order: str) -> Dataset:
    source, target = sides(order)
    return write(folder, "tree-rotate", target, source_order=source, depth_mean=3, rows=(60, 20, 20))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return tree_data(tmp_path_factory.mktemp("mixed") / "mixed", "breadth-to-depth")


@pytest.mark.parametrize("order", ORDERS)
def test_a_flat_scheme_reads_each_side_along_its_own_line(tmp_path: Path, order: str) -> None:
    """Position p of a side is the p-th node of the tree in that side's order, by a recursive definition."""
    source_order, target_order = sides(order)
    for structure in ("seq", "seq*tree(2)"):
        for batch in tree_data(tmp_path / structure, order).split("test").batches(8, structure=structure):
            assert batch.label_positions is not None
            for i in range(len(batch.row)):
                n, m = int(batch.source_mask[i].sum()), int(batch.label_mask[i].sum())
                stored = batch.label_positions[i, :m].tolist()
                target = recursive.build(batch.labels[i, :m].tolist(), stored)
                source = recursive.mirror(target)  # the task is tree-rotate
                at, to = (recursive.linear(t, o) for t, o in ((source, source_order), (target, target_order)))
                assert batch.source_ids[i, :n].tolist() == [symbol for symbol, _ in at]
                assert batch.labels[i, :m].tolist() == [symbol for symbol, _ in to]
                # the decoder reads SOS at 0 and the target without its last token
                places = (batch.source_positions, batch.input_positions)
                read, written = (p[0 if p.shape[0] == 1 else i].tolist() for p in places)
                if structure == "seq":
                    assert (read[:n], written[:m]) == ([*range(1, n + 1)], [*range(m)])
                else:
                    assert read[:n] == [[place, heap] for place, (_, heap) in enumerate(at, 1)]
                    assert written[:m] == [[0, 0], *([place, heap] for place, (_, heap) in enumerate(to[:-1], 1))]


def test_a_manifest_says_it_only_where_the_orders_differ(tmp_path: Path, mixed: Dataset) -> None:
    """So that existing datasets keep their bytes."""
    plan = json.loads((Path(str(mixed.folder)) / "manifest.json").read_text())["plan"]
    assert (plan["order"], plan["source_order"]) == ("depth", "breadth")
    same = tree_data(tmp_path / "same", "depth")
    assert "source_order" not in (tmp_path / "same" / "manifest.json").read_text()
    assert (same.order, mixed.order) == ("depth", "breadth-to-depth")
    assert same.fingerprint != mixed.fingerprint
    card = (Path(str(mixed.folder)) / "README.md").read_text()
    assert "--order depth --source-order breadth" in card
    assert "breadth-first sources, depth-first targets" in card


def test_runs_and_reports_use_its_name(here: Path) -> None:
    """From `ape train` to the table."""
    ape("train", "--scheme", "rope", "--task", "tree-copy", "--order", "depth", "--source-order", "breadth", *TINY)
    assert open_dataset("datasets/tree-copy-breadth-to-depth-tiny").order == "breadth-to-depth"
    (folder,) = Path("results/runs").iterdir()
    assert folder.name.startswith("tree-copy-breadth-to-depth-rope-42-")
    assert json.loads((folder / "run.json").read_text())["dataset"]["order"] == "breadth-to-depth"
    assert "tree-copy/breadth-to-depth" in ape("report", "--format", "markdown")[0]
    found, _ = evaluations.scores(open_registry("results"))
    assert set(found["order"]) == {"breadth-to-depth"}


def test_runs_are_not_asked_about_another_linearisation(tmp_path: Path, mixed: Dataset) -> None:
    """A scheme that never saw sources in this order would only seem to fail."""
    settings = {"steps": 2, "batch_size": 8, "validate_every_steps": 2}
    made = ExperimentSpec(preset="tiny", scheme="rope", set=settings).config("sequence")
    done = trial.run_trial(experiment.of(made, mixed), open_registry(tmp_path), Execution(CPU)).run
    same = tree_data(tmp_path / "same", "depth")
    with pytest.raises(DataError, match="the task or order of the dataset differs") as error:
        evaluate.evaluate(done, same, split="test", decode="teacher", device=CPU)
    assert "tree-rotate breadth-to-depth" in str(error.value)

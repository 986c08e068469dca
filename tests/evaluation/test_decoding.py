"""Greedy decoding: the decoded symbols, their positions, when a row ends, and how tokens are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ape_cli import position, tasks
from ape_cli.core.errors import DataError
from ape_cli.core.vocabulary import EOS, PAD, SOS
from ape_cli.data.batches import SequenceBatch
from ape_cli.data.collation import PositionReading
from ape_cli.data.loader import Dataset
from ape_cli.evaluation import evaluate, metrics
from ape_cli.structure import Seq, Structure, Tree, parse_structure
from tests.conftest import write
from tests.evaluation.test_evaluate import run
from tests.tasks.contract import sides

CPU = torch.device("cpu")


class Scripted(torch.nn.Module):
    """A fake model that decodes given ids, one line for each row, and records the positions that it gets."""

    def __init__(self, lines: torch.Tensor) -> None:
        super().__init__()
        self.lines, self.ids = lines, int(lines.max()) + 1
        self.at, self.read = torch.empty(0), torch.empty(0)
        self.scheme = position.make("none", d_model=8, heads=1)

    def encode(self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ids, None

    def past(self) -> None:
        return None

    def decode(
        self, ids: torch.Tensor, positions: torch.Tensor, memory: Any, source: Any, past: None = None
    ) -> torch.Tensor:
        assert positions.shape[1] == ids.shape[1]
        self.at, self.read = positions, ids
        return torch.nn.functional.one_hot(self.lines[:, : ids.shape[1]], self.ids).float()


def written(lines: list[list[int]], batch: SequenceBatch, task: tasks.Task, expression: str | None = None) -> list[int]:
    """Decodes `lines` and returns the number of correct labels of each row."""
    model = Scripted(torch.tensor(lines))
    reading = PositionReading.of(
        parse_structure(task.structure), None if expression is None else parse_structure(expression)
    )
    tally = metrics.greedy(model, [batch], CPU, "fp32", task, reading)
    return tally.columns()["correct"].tolist()


def batch_of(labels: list[list[int]], source: list[list[int]], nodes: list[list[int]], op: Any = -1) -> SequenceBatch:
    """A batch of trees. Its source positions and input ids are not used."""
    symbols, ids = torch.tensor(source), torch.tensor(labels)
    none = np.zeros(len(labels), dtype=np.int64)
    return SequenceBatch(symbols, symbols, symbols > 0, ids, ids, ids, none, none, none + op, torch.tensor(nodes))


def test_sequences_end_with_eos() -> None:
    """The rows are correct, have one wrong symbol, stop early and never stop. EOS counts as one token."""
    lines = [[3, 4, 5, EOS, 9, 9], [3, 6, 5, EOS, 9, 9], [3, EOS, 5, EOS, 9, 9], [3, 4, 5, 6, 7, 8]]
    labels = torch.tensor([[3, 4, 5, EOS, PAD, PAD]] * 4)
    at, none = torch.arange(6)[None], torch.zeros(4, dtype=torch.int64).numpy()
    batch = SequenceBatch(labels, at, labels != PAD, labels, at, labels, none, none, none - 1)
    model = Scripted(torch.tensor(lines))
    tally = metrics.greedy(model, [batch], CPU, "fp32", tasks.make("copy"), PositionReading.of(Seq(), None))
    assert tally.columns()["correct"].tolist() == [4, 3, 1, 3]
    assert tally.columns()["tokens"].tolist() == [4, 4, 4, 4]
    summary = evaluate.summarise(tally, "op", [], entropy=False)["overall"]
    assert summary["exact_match"] == 0.25
    assert summary["token_accuracy"] == 11 / 16
    assert "cross_entropy" not in summary


# Trees: f1(x0, f0(x1, x2)); the ids of x0, ... start at 3 and those of f0, ... at 13 ----------------

X0, X1, X2, X3, F0, F1 = 3, 4, 5, 6, 13, 14


def tree_batch() -> SequenceBatch:
    return batch_of([[F1, X0, F0, X1, X2]], [[F0, X0]], [[1, 2, 3, 6, 7]])


@pytest.mark.parametrize(
    ("order", "line", "met"),
    [
        ("breadth", [F1, X0, F0, X1, X2], 5),
        ("breadth", [F1, X0, F0, X2, X2], 4),
        ("breadth", [F1, X0, X3, X1, X2], 2),  # a leaf for f0 ends the tree, so its children are missing
        ("breadth", [F1, F0, F0, X1, X2], 2),  # an operator for x0, so x1 and x2 are its children, at 4 and 5
        ("depth", [F1, F0, X1, X2, F0], 2),  # the same, and f0 comes after its children
        ("breadth", [X0, F1, F0, X1, X2], 0),  # a leaf at the root ends the tree
        ("breadth", [EOS, F1, F0, X1, X2], 0),  # EOS has no children either
    ],
)
def test_trees_by_hand(order: str, line: list[int], met: int) -> None:
    task = tasks.make("tree-copy", order)
    for expression in (None, "seq", "seq*tree(2)"):
        assert written([line], tree_batch(), task, expression) == [met]


def test_the_pointer_closes_its_node_in_truncate_alone() -> None:
    """f0 is the root of the chosen subtree. In truncate it becomes a leaf, otherwise its children follow."""
    task = tasks.make("tree-ops", "breadth", vocabulary=20, depth_mean=3, depth_std=0)
    for op in (task.ops.index("truncate"), task.ops.index("no-op")):
        batch = batch_of([[F1, X0, F0]], [[25, F0, F1]], [[1, 2, 3]], op)
        growth = metrics._Growth(task, batch, 5)
        places = []
        for symbol in (F1, X0, F0):
            place = growth.next()
            places.append(int(place[0]))
            growth.write(place, np.array([symbol]))
        assert places == [1, 2, 3]
        assert int(growth.next()[0]) == (0 if op == task.ops.index("truncate") else 6)
        assert written([[F1, X0, F0, X1, X2]], batch, task) == [3]


@pytest.mark.parametrize("options", [{}, {"branching": 3}, {"branching": 3, "binarise": True}], ids=str)
@pytest.mark.parametrize("order", ["breadth", "breadth-to-depth"])
@pytest.mark.parametrize("name", ["tree-copy", "tree-ops", "tree-query"])  # the ways in which a target unfolds
def test_places_follow_from_the_symbols(tmp_path: Path, name: str, order: str, options: dict[str, Any]) -> None:
    """Correct symbols get the positions of teacher forcing, whichever structure the positions are read as."""
    source, target = sides(order)
    options = {**options, "source_order": source, "depth_mean": 2.5, "depth_std": 0.7}
    data = write(tmp_path / "data", name, target, rows=(20, 20, 60), **options)
    for read in (data.structure, Seq(), parse_structure(f"seq*{data.structure.expression}")):
        check_places(data, read)


@pytest.mark.parametrize("name", ["grid-rotate", "ring-shift"])
def test_grids_and_rings_stand_where_their_shape_says(tmp_path: Path, name: str) -> None:
    data = write(tmp_path / name, name)
    check_places(data, data.structure)


def check_places(data: Dataset, read: Structure) -> None:
    plan = data.manifest.plan
    task = tasks.make(plan.task, plan.order, plan.source_order, **plan.parameters)
    for batch in data.split("test").batches(32, structure=read):
        model = Scripted(batch.labels)
        tally = metrics.greedy(model, [batch], CPU, "fp32", task, PositionReading.of(plan.structure, read))
        found = tally.columns()
        assert (found["correct"] == found["tokens"]).all()
        assert torch.equal(model.read * (model.read != SOS), batch.input_ids * (batch.input_ids != SOS))
        real = batch.label_mask  # only real tokens have positions; rows that have ended have none
        at = model.at.expand(len(real), *model.at.shape[1:])
        expected = batch.input_positions.expand(len(real), *batch.input_positions.shape[1:])
        assert torch.equal(at[real], expected[real])


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    """If a model never stops, each row has as many symbols as its answer, even if the batch continues."""
    longer = [[F1, X0, F0, X1, X2, PAD, PAD], [F1, F1, X0, X0, F1, X0, X0]]
    both = batch_of(longer, [[F0, X0]] * 2, [[1, 2, 3, 6, 7, 0, 0], [1, 2, 4, 5, 3, 6, 7]])
    task, line = tasks.make("tree-copy", "depth"), [F1, F1, X0, X0, F0, X1, X2]
    alone = written([line[:5]], tree_batch(), task)
    assert alone == [2]  # the root and f0; the row ends before the children of f0
    assert written([line, line], both, task)[:1] == alone


@pytest.mark.parametrize("model", ["encoder-decoder", "decoder"])
def test_whole_answers_are_right_under_greedy_where_they_are_under_teacher_forcing(tmp_path: Path, model: str) -> None:
    """Both make the same first mistake, so the same rows have none. This holds also if some rows have mistakes.

    It takes 2 seconds, because the model has to learn most rows and not all.
    """
    words = {"task": "copy", "vocabulary": 3, "length_mean": 4, "length_std": 0, "scheme": "rope", "steps": 145}
    trees = {"task": "tree-copy", "order": "depth", "vocabulary": 4, "depth_mean": 1, "depth_std": 0}
    options = words if model == "decoder" else trees | {"scheme": "orthogonal-tree", "steps": 160}
    training = {name: options.pop(name) for name in ("scheme", "steps")} | {"model": model}
    data = write(tmp_path / "copy", rows=(200, 20, 60), **options)
    done = run(data, tmp_path / "results", validate_every_steps=training["steps"], **training).run
    teacher, greedy = (
        evaluate.evaluate(done, data, split="test", decode=decode, device=CPU)["overall"]
        for decode in ("teacher", "greedy")
    )
    assert 0 < teacher["exact_match"] < 1
    assert teacher["exact_match"] == greedy["exact_match"]


def test_trees_of_a_task_that_says_nothing_are_refused() -> None:
    task = tasks.make("copy")
    with pytest.raises(DataError, match="cannot unfold these trees"):
        metrics.greedy(Scripted(torch.ones(1, 1).long()), [], CPU, "fp32", task, PositionReading.of(Tree(2), None))

"""Evaluation: teacher-forced and greedy, by size and operator, on other data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli import evaluate, registry, schema
from ape_cli.dataset import Dataset
from ape_cli.errors import DataError, UsageError
from ape_cli.run import Run
from tests.conftest import write
from tests.test_registry import run

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def trained(words: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(words, tmp_path_factory.mktemp("results"), test=False).run


def test_parts_add_up(trees: Dataset, operations: Dataset, tmp_path: Path) -> None:
    found = run(operations, tmp_path, scheme="orthogonal-tree").evaluation
    assert found is not None
    for parts in (found["by_size"], found["by_op"]):
        for key in ("rows", "tokens"):
            assert sum(p[key] for p in parts) == found["overall"][key]
        right = sum(p["token_accuracy"] * p["tokens"] for p in parts)
        assert right == pytest.approx(found["overall"]["token_accuracy"] * found["overall"]["tokens"])
    assert [p["op"] for p in found["by_op"]] == ["extract", "flip-extract", "truncate", "no-op"]
    assert found["overall"]["rows"] == 40


@pytest.mark.parametrize("decode", ["teacher", "greedy"])
def test_no_result_depends_on_the_batch_size(trained: Run, words: Dataset, decode: str) -> None:
    found = [
        evaluate.evaluate(trained, words, split="test", decode=decode, device=CPU, batch_size=b)["overall"]
        for b in (1, 16, 256)
    ]
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-5)


class Scripted(torch.nn.Module):
    """Writes what it is told, whatever it reads: one line of ids for each row."""

    def __init__(self, lines: list[list[int]]) -> None:
        super().__init__()
        self.lines = torch.tensor(lines)

    def encode(self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ids, None

    def decode(self, ids: torch.Tensor, positions: torch.Tensor, memory: Any, source: Any) -> torch.Tensor:
        assert positions.shape[1] == ids.shape[1]
        m = ids.shape[1]
        return torch.nn.functional.one_hot(self.lines[:, :m], 10).float()


def test_greedy_counts_what_was_written() -> None:
    """Right; one wrong; stops early; does not stop. EOS counts as a token, and is met once."""
    from ape_cli.dataset import Batch

    eos, pad = schema.EOS, schema.PAD
    target = [3, 4, 5, eos, pad, pad]
    lines = [[3, 4, 5, eos, 9, 9], [3, 6, 5, eos, 9, 9], [3, eos, 5, eos, 9, 9], [3, 4, 5, 6, 7, 8]]
    labels = torch.tensor([target] * 4)
    at, none = torch.arange(6)[None], torch.zeros(4, dtype=torch.int64).numpy()
    batch = Batch(labels, at, labels != pad, labels, at, labels, none, none, none - 1)
    tally = evaluate.greedy(Scripted(lines), [batch], CPU, "fp32")  # type: ignore[arg-type]
    assert tally.columns()["correct"].tolist() == [4, 3, 1, 3]
    assert tally.columns()["tokens"].tolist() == [4, 4, 4, 4]
    summary = evaluate.summarise(tally, "copy", entropy=False)["overall"]
    assert summary["exact_match"] == 0.25
    assert summary["token_accuracy"] == 11 / 16
    assert "cross_entropy" not in summary


def test_greedy_agrees_with_teacher_forcing_where_all_is_right(tmp_path: Path) -> None:
    """A model that has learned a trivial task: words of one symbol."""
    data = write(tmp_path / "copy", "copy", vocabulary=1, length_mean=4, length_std=0)
    done = run(data, tmp_path / "results", steps=60).run
    teacher, greedy = (
        evaluate.evaluate(done, data, split="test", decode=d, device=CPU)["overall"] for d in ("teacher", "greedy")
    )
    assert teacher["exact_match"] == greedy["exact_match"] == 1.0


def test_longer_words_than_in_training(trained: Run, tmp_path: Path) -> None:
    longer = write(tmp_path / "long", "reverse", length_mean=15, length_std=1)
    found = evaluate.evaluate(trained, longer, split="validation", decode="teacher", device=CPU)
    assert min(p["size"] for p in found["by_size"]) > 10
    name = f"{longer.manifest.fingerprint[:12]}-validation-teacher"
    assert trained.evaluation(name) == found


def test_deeper_trees_for_a_bounded_scheme(trees: Dataset, tmp_path: Path) -> None:
    """The size is that of the training data, whatever is evaluated."""
    done = run(trees, tmp_path, scheme="tree", d_model=32).run
    deeper = write(tmp_path / "deep", "tree-rotate", "breadth", depth_mean=6, depth_std=0)
    assert evaluate.evaluate(done, deeper, split="test", decode="teacher", device=CPU)["overall"]["rows"] == 40


def test_what_does_not_fit_is_refused(trained: Run, trees: Dataset, tmp_path: Path) -> None:
    other = write(tmp_path / "wide", "reverse", vocabulary=25)
    with pytest.raises(DataError, match=r"another vocabulary[\s\S]*28 ids[\s\S]*23 ids"):
        evaluate.evaluate(trained, other, split="test", decode="teacher", device=CPU)
    with pytest.raises(DataError, match="another task"):
        evaluate.evaluate(trained, write(tmp_path / "copy", "copy"), split="test", decode="teacher", device=CPU)
    with pytest.raises(DataError, match="another task"):
        evaluate.evaluate(trained, trees, split="test", decode="teacher", device=CPU)
    empty = write(tmp_path / "empty", "reverse", rows=(10, 10, 0))
    with pytest.raises(DataError, match="test split is empty"):
        evaluate.evaluate(trained, empty, split="test", decode="teacher", device=CPU)
    with pytest.raises(UsageError, match="unknown decoding"):
        evaluate.evaluate(trained, other, split="test", decode="beam", device=CPU)


def test_greedy_is_for_sequences(trees: Dataset, tmp_path: Path) -> None:
    done = run(trees, tmp_path, scheme="orthogonal-tree").run
    with pytest.raises(UsageError, match="greedy decoding is for sequences"):
        evaluate.evaluate(done, trees, split="test", decode="greedy", device=CPU)


def test_pending_runs(words: Dataset, trees: Dataset, tmp_path: Path) -> None:
    one = run(words, tmp_path, test=False).run
    run(trees, tmp_path, scheme="tree", test=False)
    found = registry.open(tmp_path)
    assert len(evaluate.pending(found, None, "test", "teacher")) == 2
    assert [r.name for r in evaluate.pending(found, words, "test", "teacher")] == [one.name]
    assert [r.name for r in evaluate.pending(found, None, "test", "greedy")] == [one.name]
    evaluate.evaluate(one, words, split="test", decode="teacher", device=CPU)
    assert len(evaluate.pending(found, None, "test", "teacher")) == 1
    assert evaluate.pending(found, words, "test", "teacher") == []


def test_data_that_changed_since_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    done = run(write(folder, "copy"), tmp_path / "results").run
    assert evaluate.own_dataset(done).name == "data"
    import shutil

    shutil.rmtree(folder)
    write(folder, "copy", length_mean=9)
    with pytest.raises(DataError, match="has changed since"):
        evaluate.own_dataset(done)

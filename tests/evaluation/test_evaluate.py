"""Evaluation with teacher forcing and greedy decoding, by size and operator, and on other data."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import ape_cli
from ape_cli.attention import Attention
from ape_cli.core.errors import DataError, RunError, UsageError, left_out
from ape_cli.data.loader import Dataset
from ape_cli.evaluation import evaluate
from ape_cli.evaluation.evaluate import fitting, pending
from ape_cli.experiment import Experiment
from ape_cli.runs.record import DatasetRecord
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from tests.conftest import write
from tests.runs.test_registry import run

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def trained(words: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(words, tmp_path_factory.mktemp("results"), test=False).run


def test_long_rows_are_evaluated_in_small_batches(tmp_path: Path) -> None:
    """Up to 256 tokens a batch is as large as usual; with four times as many tokens it has a sixteenth of the rows."""
    sizes = {"length_std": 0, "rows": (1, 0, 1)}
    usual, long = (write(tmp_path / str(n), "copy", length_mean=n, **sizes).split("test") for n in (256, 1024))
    assert evaluate.rows_at_once(usual) == 16 * evaluate.rows_at_once(long) > 16


def test_parts_add_up(operations: Dataset, tmp_path: Path) -> None:
    found = run(operations, tmp_path, scheme="orthogonal-tree").evaluation
    assert found is not None
    for parts in (found["by_size"], found["by_op"]):
        for key in ("rows", "tokens"):
            assert sum(p[key] for p in parts) == found["overall"][key]
        nats = sum(p["cross_entropy"] * p["tokens"] for p in parts)
        assert nats == pytest.approx(found["overall"]["cross_entropy"] * found["overall"]["tokens"])
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


def test_evaluation_has_the_precision_of_the_run(trained: Run, words: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of a loaded model. On a CPU, TF32 is only a flag."""
    monkeypatch.setattr("ape_cli.models.device._WIDE", 1)  # channels from which on a CPU computes in bfloat16
    loaded, attend = ape_cli.load(trained), Attention.forward
    settings: set[tuple[bool, bool]] = set()

    def watched(*given: Any, **named: Any) -> torch.Tensor:
        settings.add((torch.is_autocast_enabled("cpu"), torch.backends.cuda.matmul.allow_tf32))
        return attend(*given, **named)

    monkeypatch.setattr(Attention, "forward", watched)
    for precision, expected in (("bf16", (True, False)), ("tf32", (False, True)), ("fp32", (False, False))):
        loaded.config = trained.record.config.model_copy(update={"precision": precision})
        on = Experiment(loaded.config, words)
        for decode in ("teacher", "greedy"):
            evaluate.evaluate(trained, on, split="validation", decode=decode, device=CPU)
            loaded.evaluate(words, "validation", decode)
            assert settings == {expected}
            settings.clear()
        loaded.predict(words.split("validation")[:1])
        loaded.logits(next(loaded.batches(words.split("validation"))))
        assert settings == {expected}
        settings.clear()


def described(data: Dataset, **fields: Any) -> DatasetRecord:
    """A dataset as a run records it that was trained on other rows of the same form."""
    rows = {"train": 1, "validation": 1, "test": 1}
    made = {"name": "own", "fingerprint": "0" * 64, "order": None, "structure": "seq", "seed": 1, "image": None}
    made |= {"mean_size": 1.0, "mean_tokens": 1.0, "tagged": bool(data.manifest.plan.tagged), "largest": {}}
    return DatasetRecord(**(made | {"rows": rows, "parameters": data.parameters} | fields))


def test_longer_words_than_in_training(trained: Run, tmp_path: Path) -> None:
    longer = write(tmp_path / "long", "reverse", length_mean=15, length_std=1)
    found = evaluate.evaluate(trained, longer, split="validation", decode="teacher", device=CPU)
    assert min(p["size"] for p in found["by_size"]) > 10
    name = f"eval/{longer.manifest.fingerprint[:12]}-validation-teacher.json"
    assert trained.evaluation(name) == found


def test_deeper_trees_for_a_bounded_scheme(trees: Dataset, tmp_path: Path) -> None:
    """The model keeps the size of its training data when it is evaluated on other data."""
    done = run(trees, tmp_path, scheme="tree", d_model=32).run
    deeper = write(tmp_path / "deep", "tree-rotate", "breadth", depth_mean=6, depth_std=0)
    assert evaluate.evaluate(done, deeper, split="test", decode="teacher", device=CPU)["overall"]["rows"] == 40


def test_what_does_not_fit_is_refused(trained: Run, trees: Dataset, tmp_path: Path) -> None:
    other = write(tmp_path / "wide", "reverse", vocabulary=25)
    with pytest.raises(DataError, match=r"the vocabulary of the dataset differs[\s\S]*28 ids[\s\S]*23 ids"):
        evaluate.evaluate(trained, other, split="test", decode="teacher", device=CPU)
    for task in (write(tmp_path / "copy", "copy"), trees):
        with pytest.raises(DataError, match="the task or order of the dataset differs"):
            evaluate.evaluate(trained, task, split="test", decode="teacher", device=CPU)
    empty = write(tmp_path / "empty", "reverse", rows=(10, 10, 0))
    with pytest.raises(DataError, match="test split is empty"):
        evaluate.evaluate(trained, empty, split="test", decode="teacher", device=CPU)
    with pytest.raises(UsageError, match="unknown decoding"):
        evaluate.evaluate(trained, other, split="test", decode="beam", device=CPU)


def test_pending_runs(words: Dataset, trees: Dataset, tmp_path: Path) -> None:
    one = run(words, tmp_path, test=False).run
    run(trees, tmp_path, scheme="tree", test=False)
    found = open_registry(tmp_path)

    def waiting(data: list[Dataset], decode: str = "teacher") -> list[tuple[str, str | None]]:
        pairs = pending(found, data, "test", decode)
        return [(r.name, None if d is None else d.name) for r, d in pairs]

    assert len(waiting([])) == 2
    assert waiting([words]) == [(one.name, words.name)]
    assert len(waiting([], "greedy")) == 2
    evaluate.evaluate(one, words, split="test", decode="teacher", device=CPU)
    assert len(waiting([])) == 1
    assert waiting([words]) == []
    longer = write(tmp_path / "long", "reverse", length_mean=15)
    shorter = write(tmp_path / "short", "reverse", length_mean=3)
    assert waiting([longer, words, shorter]) == [(one.name, "long"), (one.name, "short")]
    assert {name for name, _ in waiting([longer, trees])} == {r.name for r in found}
    assert fitting(one, [trees, words]) == [words]
    assert fitting(one, [trees]) == [trees]  # its evaluation raises the reason
    with left_out() as left:
        pending(found, [longer, trees], "test", "teacher")
        assert left == []
        pending(found, [longer], "test", "teacher")
    assert left == ["finished runs of another task, structure or vocabulary: 1"]


def test_runs_without_weights_are_counted_and_left_out(words: Dataset, tmp_path: Path) -> None:
    """The repository has no weights of its committed runs. A run without weights is an error only if it is named."""
    (kept, gone) = (run(words, tmp_path, seed=seed, test=False).run for seed in (1, 2))
    (gone.folder / "model.safetensors").unlink()
    with left_out() as bad:
        found = pending(open_registry(tmp_path), [], "test", "teacher")
    assert [waiting.name for waiting, _ in found] == [kept.name]
    assert [line.split(" weights")[0] for line in bad] == ["finished runs without"]
    with pytest.raises(RunError, match="no weights"):
        evaluate.evaluate(gone, words, split="test", decode="teacher", device=CPU)


def test_data_that_changed_since_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    done = run(write(folder, "copy"), tmp_path / "results").run
    assert evaluate.own_dataset(done).name == "data"
    shutil.move(folder, tmp_path / "other" / "data")
    write(folder, "copy", length_mean=9)
    with pytest.raises(DataError, match="has changed since"):
        evaluate.own_dataset(done)
    assert evaluate.own_dataset(done, tmp_path / "other").folder == tmp_path / "other" / "data"


@pytest.mark.parametrize(
    ("task", "options", "difference"),
    [
        ("tree-copy", {"branching": 3, "order": "breadth"}, {"binarise": True}),
        ("repeat", {}, {"repeats": 3}),
        ("group-word", {"group": "cyclic-7", "answers": "product"}, {"answers": "prefixes"}),
        ("tree-convert", {"from": "prefix", "to": "postfix"}, {"from": "postfix", "to": "prefix"}),
    ],
)
def test_a_dataset_with_other_answers_is_refused(
    tmp_path: Path, task: str, options: dict[str, Any], difference: dict[str, Any]
) -> None:
    """The vocabulary and the order are the same. Trees have another structure, or the same source another answer."""
    rows = (40, 10, 10)
    own = write(tmp_path / "own", task, rows=rows, **options)
    there = write(tmp_path / "there", task, rows=rows, **{**options, **difference})
    trained = described(own, task=task, order=own.order, structure=own.structure.expression)
    assert own.manifest.vocabulary == there.manifest.vocabulary
    assert evaluate.misfit(trained, own.manifest.vocabulary, own) is None
    error = evaluate.misfit(trained, own.manifest.vocabulary, there)
    assert error is not None
    assert f"the {'structure' if task == 'tree-copy' else 'kind of answers'} of the dataset differs" in str(error)

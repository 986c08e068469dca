"""Runs that cannot fit into memory are refused before they start, and a run that runs out of memory can be resumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from ape_cli import attention, experiment, position
from ape_cli.core.memory import OutOfMemoryError
from ape_cli.data import generation
from ape_cli.data.loader import Dataset
from ape_cli.evaluation import evaluate
from ape_cli.models.decoder import DecoderOnly
from ape_cli.models.transformer import Transformer
from ape_cli.runs.registry import Registry, open_registry
from ape_cli.sweep import worker
from ape_cli.training import least_memory, trainer
from ape_cli.training.least_memory import least_bytes
from tests.conftest import ape, write
from tests.core.test_memory import CPU, GPU
from tests.runs.test_registry import resolve

TINY = ("--preset", "tiny", "--scheme", "none", "--device", "cpu", "--set", "validate_every_steps=1")


def command(data: Dataset, results: Path, *more: str, steps: int = 3) -> tuple[str, ...]:
    return "train", *TINY, f"--set=steps={steps}", "--data", str(data.folder), "--results", str(results), *more


def raising(error: Exception) -> Callable[..., Any]:
    """A function that raises an error, whatever it is called with."""

    def fails(*_: Any, **__: Any) -> Any:
        raise error

    return fails


def bytes_of(
    scheme: str = "none", kind: str = "dot", dropout: float = 0.0, n: int = 100, m: int = 50, **more: Any
) -> int:
    """The estimate for batches of 3 rows, and a model of width 8 with 2 heads, and 1 layer on each side."""
    made = position.make(scheme, d_model=8, heads=2, **more)
    sizes: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 1, "d_ff": 8, "ids": 9, "dropout": dropout}
    model = Transformer(made, attention_type=attention.make(kind), **sizes)
    return least_bytes(model, (3, n, m), torch.device("cpu"), torch.float32)


LINEAR = 4 * 2 * 3 * 8 * ((100 + 100) + (50 + 50) + (50 + 100))  # bytes of queries, keys, values and results
SCORES = 3 * 2 * (100 * 100 + 50 * 50 + 50 * 100)  # numbers, of three attentions


@pytest.mark.parametrize(
    ("options", "beside"),
    [
        ({"kind": "linear"}, 0),
        ({}, 4 * (50 * 50 + 50 * 50 // 4)),  # torch's kernel keeps the causal mask
        ({"dropout": 0.1}, 4 * (SCORES + 3 * 2 * 100 * 100)),  # all weights, and the scores of the largest attention
        ({"kind": "euclidean"}, 4 * (SCORES + 3 * 2 * 100 * 100)),
        ({"decay": 0.9}, 4 * (SCORES + 3 * 2 * 100 * 100 + 100 * 100)),  # and the locality bias
        ({"scheme": "t5"}, 4 * (SCORES + 3 * 2 * 100 * 100)),  # a learned bias has no fused kernel on a CPU
    ],
)
def test_the_estimate_by_hand(options: dict[str, Any], beside: int) -> None:
    assert bytes_of(**options) == LINEAR + beside


def test_blocks_need_less_than_all_scores() -> None:
    """From 2^20 pairs on, blocks of 64 queries have 3 · 2 · 64 scores and weights for each key."""
    in_blocks = bytes_of("t5", n=2**12, m=1)
    assert in_blocks - bytes_of("none", n=2**12, m=1) == pytest.approx(4 * 2 * 3 * 2 * 64 * 2**12, rel=0.01)


def test_a_decoder_reads_source_and_target_as_one() -> None:
    made = position.make("none", d_model=8, heads=2)
    model = DecoderOnly(made, layers=2, sides=True, d_ff=8, ids=9, dropout=0.1)
    found = least_bytes(model, (3, 100, 50), torch.device("cpu"), torch.float32)
    plain = 2 * 3 * 2 * 100**2 + 3 * 2 * 100**2 + 100**2 + 100**2 // 4  # the last two hide keys
    assert found == 4 * (2 * 2 * 3 * 8 * (100 + 100) + plain)


def test_a_run_that_cannot_fit_is_refused_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the need and the batch, and nothing is registered. With as much memory as needed, it trains.

    Two steps need memory for the larger of two batches, which may be shorter than the longest rows.
    """
    data = write(tmp_path / "data", "copy", length_mean=20, length_std=3)
    estimated, trained = dict[Any, int](), set[Any]()
    least, update = least_memory.least_bytes, trainer.Trainer.update

    def noted(model: Any, shape: Any, *of: Any) -> int:
        estimated[shape] = least(model, shape, *of)
        return estimated[shape]

    def updated(self: trainer.Trainer, batch: Any, labels: Any) -> Any:
        longest = int(batch.size.max())
        trained.add((len(batch.row), longest, longest))
        return update(self, batch, labels)

    monkeypatch.setattr(least_memory, "least_bytes", noted)
    monkeypatch.setattr(trainer.Trainer, "update", updated)
    monkeypatch.setattr(least_memory, "most_memory", lambda: max(estimated.values()) - 1)
    words = command(data, tmp_path, "--set", "batch_size=8", "--no-eval", steps=2)
    _, error = ape(*words, code=2)
    assert "error: a training step needs more memory than this machine has" in error
    assert " GiB or more for a batch of 8 rows of " in error
    assert "`batch_size`" in error
    assert list(open_registry(tmp_path)) == []
    monkeypatch.setattr(least_memory, "most_memory", lambda: max(estimated.values()))
    ape(*words)
    assert set(estimated) == {max(trained)}
    assert len(trained) == 2
    assert max(trained)[1] < data.largest_size


@pytest.mark.parametrize("error", [RuntimeError(CPU), torch.OutOfMemoryError(GPU), MemoryError()])
def test_a_run_that_runs_out_of_memory_can_be_resumed(
    words: Dataset, tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third step fails after two checkpoints: one message, the exit status 1, and the status `stopped`."""
    update = trainer.Trainer.update

    def failing(self: trainer.Trainer, *of: Any) -> Any:
        if len(done) == 2:
            raise error
        done.append(of)
        return update(self, *of)

    done: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(trainer.Trainer, "update", failing)
        _, printed = ape(*command(words, tmp_path), code=1)
    assert "Traceback" not in printed
    assert printed.count("error:") == 1
    assert "has not enough memory" in printed
    assert "training in batches of" in printed
    (run,) = open_registry(tmp_path)
    assert run.status == "stopped"
    assert run.has_state()
    ape(*command(words, tmp_path, "--resume"))
    assert run.status == "finished"


def test_validation_and_evaluation_explain_errors_of_memory(
    words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = raising(RuntimeError(CPU))
    with monkeypatch.context() as patched:
        patched.setattr(trainer, "teacher_forced", fails)
        _, printed = ape(*command(words, tmp_path), code=1)
    assert "scoring the validation split in batches of" in printed
    ape(*command(words, tmp_path, "--no-eval"))
    run = next(iter(open_registry(tmp_path))).name
    for function, decode in (("teacher_forced", "teacher"), ("greedy", "greedy")):
        with monkeypatch.context() as patched:
            patched.setattr(evaluate, function, fails)
            _, printed = ape("eval", run, "--results", str(tmp_path), "--decode", decode, code=1)
        assert "evaluating the test split in batches of 256 rows" in printed
        assert "Traceback" not in printed


def test_a_trial_of_a_sweep_explains_errors_of_memory(
    words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep shows the error, and its log has no traceback."""
    monkeypatch.setattr(trainer.Trainer, "update", raising(torch.OutOfMemoryError(GPU)))
    config = experiment.complete(resolve(steps=2), words)
    name = Registry(tmp_path).run_for(config, words).name
    context: Any = SimpleNamespace(number=0, stopping=lambda: False, report=lambda report: None)
    with pytest.raises(OutOfMemoryError, match="the GPU has not enough memory"):
        worker.train_one(context, worker.Work(name, config, words.folder, tmp_path, "cpu", compiled=False))
    assert "Traceback" not in worker.log_of(tmp_path, name).read_text()
    assert Registry(tmp_path).find(name).status == "stopped"


def test_rows_that_do_not_fit_into_memory_are_not_called_damaged(
    words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(pq.ParquetFile, "read_row_group", raising(pa.ArrowMemoryError("malloc of size 512 failed")))
        _, printed = ape(*command(words, tmp_path), code=1)
    assert "this machine has not enough memory" in printed
    assert "damaged" not in printed
    assert "generate it again" not in printed
    monkeypatch.setattr(generation, "generate", raising(MemoryError()))  # in another command
    _, printed = ape("gen", "copy", "--n", "9", "--out", str(tmp_path / "data"), code=1)
    assert "error: this machine has not enough memory" in printed

"""Scores under maps of positions: they depend on no batch, and greedy decoding reads the same positions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import ape_cli
from ape_cli import experiment
from ape_cli.core.vocabulary import PAD, SOS
from ape_cli.data.loader import Dataset
from ape_cli.evaluation import evaluate
from ape_cli.evaluation.metrics import written
from ape_cli.evaluation.sharing import exported
from ape_cli.models.checkpoint import load_weights
from ape_cli.models.factory import of_experiment
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from ape_cli.training import trial
from ape_cli.training.execution import Execution
from tests.conftest import write
from tests.experiment.test_mapping import resolve
from tests.training.test_trainer import check_resume

CPU = torch.device("cpu")
CASES = [
    ("randomised", "encoder-decoder", "rope"),
    ("randomised", "decoder", "rope"),
    ("offset", "encoder-decoder", "learned"),
    ("coupled", "decoder", "sinusoidal"),
]


def trained(data: Dataset, where: Path, positions: str, **options: Any) -> tuple[Run, experiment.Experiment]:
    """A run, and its experiment."""
    found = experiment.of(resolve(positions, **options), data)
    return trial.run_trial(found, open_registry(where), Execution(CPU), test=False).run, found


def scores(run: Run, found: experiment.Experiment, decode: str, size: int) -> dict[str, Any]:
    model = of_experiment(found)
    load_weights(run, model)
    return evaluate.scores(model, found, found.data.split("test"), decode=decode, batch_size=size)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Short words."""
    where = tmp_path_factory.mktemp("short") / "data"
    return write(where, "copy", length_mean=2, length_std=1, vocabulary=4, rows=(60, 20, 60))


@torch.no_grad()
@pytest.mark.parametrize(("positions", "model", "scheme"), CASES)
def test_what_is_written_is_what_teacher_forcing_predicts_after_it(
    words: Dataset, positions: str, model: str, scheme: str
) -> None:
    """Each symbol is the best one after the symbols before it, at the positions of the batch."""
    found = experiment.of(resolve(positions, scheme, model=model), words)
    made = of_experiment(found).eval()
    torch.manual_seed(2)
    made.decoder_norm.weight.normal_()  # so that a model without training does not write what it reads
    for weight in made.decoder.parameters():
        weight.mul_(4.0)
    task, read = evaluate.how_to_write(found)
    for batch in words.split("test").batches(16, options=found.batch_options()):
        ((_, ids),) = written(made, [batch], CPU, "fp32", task, read)
        inputs = torch.cat([torch.full_like(ids[:, :1], SOS), ids[:, :-1]], dim=1)
        memory, source = made.encode(batch.source_ids, batch.source_positions, batch.source_mask)
        expected = made.decode(inputs, batch.input_positions, memory, source).argmax(-1)
        here = batch.label_mask & (ids != PAD)
        assert torch.equal(expected[here], ids[here])
        assert len(set(ids[here].tolist())) > 3


@pytest.mark.parametrize("model", ["encoder-decoder", "decoder"])
def test_the_tree_unfolds_at_the_positions_of_the_batch(trees: Dataset, model: str) -> None:
    """The positions that the model is given in greedy decoding are those of teacher forcing."""
    found = experiment.of(resolve("randomised", "alibi", model=model), trees)
    made, seen = of_experiment(found).eval(), []
    decode = made.decode

    def spy(ids: torch.Tensor, at: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
        seen.append(at)
        return decode(ids, at, *rest, **named)

    made.decode = spy
    batch = next(iter(trees.split("test").batches(40, options=found.batch_options())))
    task, read = evaluate.how_to_write(found)
    list(written(made, [batch], CPU, "fp32", task, read))
    assert seen
    for m, at in enumerate(seen, 1):
        assert torch.equal(at, batch.input_positions[:, :m])


@pytest.mark.parametrize("model", ["encoder-decoder", "decoder"])
def test_an_export_reads_the_positions_of_the_run(short: Dataset, tmp_path: Path, model: str) -> None:
    """Scores are those of the run, and words that are given as text are answered as the rows of a split."""
    run, found = trained(short, tmp_path / "results", "randomised", model=model, steps=40, lr_peak=0.01)
    exported.export(run, tmp_path / "out")
    loaded = ape_cli.load(tmp_path / "out")
    for decode in ("teacher", "greedy"):
        assert loaded.evaluate(short, decode=decode) == scores(run, found, decode, 256)
    answers = loaded.predict(short.split("test"))
    names = short.manifest.vocabulary
    rows = short.split("test").table()["source_ids"].to_pylist()
    given = loaded.predict([[names[i] for i in row] for row in rows])
    for answer, expected, row in zip(given, answers, rows, strict=True):
        assert answer[: len(expected)] == expected  # of a split, at most as many symbols as the true answer
        assert len(answer) <= len(row) + 2
    text = (tmp_path / "out" / "README.md").read_text()
    assert "--positions randomised" in text


def test_a_resumed_run_draws_the_same_positions(words: Dataset) -> None:
    options = {"steps": 20, "validate_every_steps": 5, "dropout": 0.1}
    check_resume(experiment.complete(resolve("randomised", "rope", **options), words), words)

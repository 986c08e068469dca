"""The attention weights of a run on one row: those of its trained model, without padding, with the right tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ape_cli import experiment
from ape_cli.core.errors import UsageError
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.evaluation.attention_maps import attention_maps
from ape_cli.models.checkpoint import load_weights
from ape_cli.models.factory import of_experiment
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from tests.conftest import ape


@pytest.fixture(scope="module")
def run(words: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Run:
    results = tmp_path_factory.mktemp("results")
    words_of = ("--preset", "tiny", "--set", "dropout=0.5", "--device", "cpu", "--no-eval")
    ape("train", "--scheme", "none", "--data", str(words.folder), *words_of, "--results", str(results))
    return next(iter(Registry(Path(results))))


def test_weights_by_hand(run: Run, words: Dataset) -> None:
    """In the first layer of the encoder, they are the softmax of q k / sqrt(K) of the embedded source."""
    found = attention_maps(run, words, "test", 5, "encoder")
    batch = next(b for b in words.split("test").batches(1) if b.row.tolist() == [5])
    model = of_experiment(experiment.of(run.record.config, words)).eval()
    load_weights(run, model)
    with torch.no_grad():
        layer = model.encoder[0]
        x = layer.self_norm(model.embedding[batch.source_ids] * 32**0.5)  # width 32, no positions
        q, k = (
            part(x).unflatten(-1, (2, 16)).transpose(1, 2)
            for part in (layer.self_attention.query, layer.self_attention.key)
        )
        expected = torch.softmax(q @ k.mT / 16**0.5, -1)[0].numpy()
    assert found.weights.shape == (1, 2, batch.source_ids.shape[1], batch.source_ids.shape[1])
    np.testing.assert_allclose(found.weights[0], expected, atol=1e-5)
    names = [words.manifest.vocabulary[i].strip("<>") for i in batch.source_ids[0].tolist()]
    assert found.queries == found.keys == names


def test_the_decoder_sees_only_what_was_written(run: Run, words: Dataset) -> None:
    found = attention_maps(run, words, "test", 5, "decoder")
    assert found.queries[0] == "sos"
    assert not np.triu(found.weights, 1).any()
    np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-5)


def test_the_decoder_asks_the_source(run: Run, words: Dataset) -> None:
    found, source = (attention_maps(run, words, "test", 5, part) for part in ("cross", "encoder"))
    assert found.queries[0] == "sos"
    assert found.keys == source.keys
    assert found.queries[1:] == source.keys[-2::-1]  # the task reverses the word
    np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-5)


def test_what_does_not_exist_is_an_error(run: Run, words: Dataset) -> None:
    with pytest.raises(UsageError, match="no such row"):
        attention_maps(run, words, "test", 40, "encoder")
    with pytest.raises(UsageError, match="attention of the model"):
        attention_maps(run, words, "test", 0, "decode")


def test_the_tokens_of_an_image_are_rows_and_columns(here: Path) -> None:
    """Digits of 8 x 8 pixels become 4 x 4 tokens. Each weight is of the encoder, the only part of the model."""
    ape("gen", "images", "--source", "digits", "--n", "40", "--n-validation", "10", "--n-test", "10", "--out", "digits")
    options = ("--preset", "tiny", "--set", "steps=2", "--set", "validate_every_steps=2", "--device", "cpu")
    ape("train", "--scheme", "orthogonal-grid", "--data", "digits", "--no-eval", *options)
    run, data = next(iter(Registry(here / "results"))), open_dataset(here / "digits")
    found = attention_maps(run, data, "test", 3, "encoder")
    assert found.weights.shape == (1, 2, 16, 16)
    assert found.queries == found.keys == [f"{i},{j}" for i in (1, 2, 3, 4) for j in (1, 2, 3, 4)]
    np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-5)
    with pytest.raises(UsageError, match="attention of the model"):
        attention_maps(run, data, "test", 3, "cross")

"""A decoder that reads one state of the encoder: that of the last token of each source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ape_cli import experiment
from ape_cli.core.errors import UsageError
from ape_cli.data.batches import SequenceBatch
from ape_cli.data.loader import Dataset
from ape_cli.evaluation.attention_maps import attention_maps
from ape_cli.experiment import ExperimentSpec
from ape_cli.models import factory
from ape_cli.models.transformer import Transformer
from ape_cli.runs.config import Config
from tests.conftest import write
from tests.evaluation.sharing.conftest import exported_and_loaded
from tests.evaluation.sharing.test_exported import by_hand, check_same_predictions

SCHEMES = [("words", name) for name in ("rope", "learned", "t5", "relative", "transformer-xl")]
SCHEMES += [("trees", name) for name in ("orthogonal-tree", "tree-path")]


def wanted(scheme: str, model: str = "encoder-decoder", **settings: Any) -> Config:
    return ExperimentSpec(preset="tiny", scheme=scheme, model=model, set=settings | {"memory": "last"}).config(
        "sequence"
    )


def built(data: Dataset, scheme: str) -> tuple[Transformer, SequenceBatch]:
    """A model of two decoder layers, and a batch with sources of different lengths."""
    setup = experiment.of(wanted(scheme, decoder_layers=2), data)
    model = factory.of_experiment(setup).double().eval()
    batch = next(iter(data.split("test").batches(40, options=setup.batch_options())))
    assert isinstance(model, Transformer)
    assert isinstance(batch, SequenceBatch)
    assert len(set(batch.source_mask.sum(1).tolist())) > 1
    return model, batch


@pytest.mark.parametrize(("kind", "scheme"), SCHEMES)
def test_the_decoder_reads_the_last_state_alone(kind: str, scheme: str, request: pytest.FixtureRequest) -> None:
    """So do later calls, in which tokens are added one by one."""
    model, batch = built(request.getfixturevalue(kind), scheme)
    memory, source = model.encode(batch.source_ids, batch.source_positions, batch.source_mask)

    def scores(states: Tensor) -> Tensor:
        return model.decode(batch.input_ids, batch.input_positions, states, source)

    expected, rows = scores(memory), torch.arange(len(memory))
    last = batch.source_mask.sum(1) - 1
    noise = torch.randn_like(memory)
    others, own = noise.clone(), memory.clone()
    others[rows, last] = memory[rows, last]
    own[rows, last] = noise[rows, last]
    assert torch.equal(scores(others), expected)
    assert not torch.isclose(scores(own), expected).all(-1).any()
    assert torch.equal(model(*batch.inputs), expected)
    past = model.past()
    for count in range(1, batch.input_ids.shape[1] + 1):
        positions = batch.input_positions[:, :count]
        step = model.decode(batch.input_ids[:, :count], positions, memory, source, past=past)
        assert torch.allclose(step[:, -1], expected[:, count - 1])


def test_runs_and_exported_models_read_it(tmp_path: Path) -> None:
    data = write(tmp_path / "data", "compression", sizes=(5, 8), vocabulary=4)
    done, trained = exported_and_loaded(data, tmp_path, memory="last", steps=2)
    assert done.record.variant["memory"] == "last"
    assert isinstance(trained.module, Transformer)
    assert trained.module.memory == "last"
    check_same_predictions((done, trained), data)
    sources = [[data.manifest.vocabulary[i] for i in row] for row in ([5, 3, 4], [4, 4, 6, 3, 5])]
    assert trained.predict(sources, max_tokens=9) == [by_hand(trained, source, 9) for source in sources]
    maps = attention_maps(done, data, "test", 0, "cross")
    assert maps.keys == ["eos"]
    assert maps.weights.shape[-1] == 1
    assert (maps.weights == 1).all()


def test_it_is_refused_without_an_encoder_that_reads_the_source(words: Dataset, tmp_path: Path) -> None:
    stream = write(tmp_path / "stream", "in-context-recall", length=8)
    for config, data, why in (
        (wanted("rope", model="decoder"), words, "`model=decoder`"),
        (wanted("rope", encoder_layers=0), words, "encoder_layers=0"),
        (wanted("rope"), stream, "causal tags"),
    ):
        with pytest.raises(UsageError, match=f"no encoder reads the source[\\s\\S]*{why}"):
            experiment.complete(config, data)
    with pytest.raises(UsageError, match="memory"):
        ExperimentSpec(preset="tiny", scheme="rope", set={"memory": "last"}).config("image")

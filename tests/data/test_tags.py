"""Targets that are tags of the source: what the decoder reads, and that it never reads an answer."""

from __future__ import annotations

import pytest
import torch

from ape_cli import position
from ape_cli.core.vocabulary import EOS, PAD, SOS
from ape_cli.data.loader import Dataset, Split
from ape_cli.data.padding import few_lengths
from ape_cli.evaluation import evaluate
from ape_cli.evaluation.sharing.trained_model import TrainedModel
from ape_cli.models import factory, settling
from ape_cli.runs import config
from tests.conftest import write


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Words of residues modulo 5. Each has a tag, the sum so far."""
    folder = tmp_path_factory.mktemp("tags") / "sums"
    return write(folder, "group-word", group="cyclic-5", length_mean=6, length_std=1)


def test_the_decoder_reads_the_source(sums: Dataset) -> None:
    assert sums.manifest.plan.tagged
    split = sums.split("test")
    assert isinstance(split, Split)
    rows = {row["row"]: row for row in split.table().to_pylist()}
    for batch in split.batches(7):
        assert not {SOS, EOS} & set(batch.input_ids.flatten().tolist())
        assert batch.input_positions.tolist() == [list(range(1, batch.labels.shape[1] + 1))]
        assert (batch.source_ids == EOS).sum(1).tolist() == [1] * len(batch.row)
        for number, given, labels in zip(batch.row, batch.input_ids, batch.labels, strict=True):
            row = rows[int(number)]
            assert given[given != PAD].tolist() == row["source_ids"]
            assert labels[labels != PAD].tolist() == row["target_ids"]
            total = 0
            for residue, tag in zip(row["source_ids"], row["target_ids"], strict=True):
                total = (total + residue - 3) % 5
                assert tag == 3 + total


def test_other_answers_change_no_score(sums: Dataset) -> None:
    """The scores of the model are a function of the source alone, and symbol i has no influence before its tag."""
    settled = settling.settle(config.resolve("tiny", "rope", position.options("rope")), sums)
    model = factory.of_data(settled, sums).eval()
    split = sums.split("test")
    assert isinstance(split, Split)
    batch = next(iter(split.batches(5)))
    padded = next(iter(split.batches(5, padding=few_lengths)))
    memory, source = model.encode(batch.source_ids, batch.source_positions, batch.source_mask)
    scores = model.decode(batch.input_ids, batch.input_positions, memory, source)
    assert torch.equal(scores, model(*batch.inputs))
    later = batch.input_ids.clone()
    later[:, 3:] = 3
    changed = model.decode(later, batch.input_positions, memory, source)
    assert torch.equal(changed[:, :3], scores[:, :3])
    assert not torch.allclose(changed[:, 3:], scores[:, 3:])
    length = scores.shape[1]
    assert torch.allclose(model(*padded.inputs)[:, :length][batch.label_mask], scores[batch.label_mask], atol=1e-5)


def test_greedy_decoding_writes_what_teacher_forcing_scores(sums: Dataset) -> None:
    settled = settling.settle(config.resolve("tiny", "rope", position.options("rope")), sums)
    model = factory.of_data(settled, sums)
    teacher, greedy = (
        evaluate.scores(model, settled, sums, sums.split("test"), decode=decode)["overall"]
        for decode in ("teacher", "greedy")
    )
    assert {name: teacher[name] for name in greedy} == greedy
    assert teacher["tokens"] == sum(sums.split("test").table()["size"].to_pylist())  # no EOS
    names = sums.manifest.vocabulary
    about = {
        "dataset": {
            "task": "group-word",
            "order": None,
            "structure": "seq",
            "parameters": sums.parameters,
        }
    }
    trained = TrainedModel(model, settled, names, about)
    rows = sums.split("test").table()["source_ids"].to_pylist()
    answers = trained.predict([[names[i] for i in row] for row in rows], max_tokens=2)
    assert answers == trained.predict(sums.split("test"))
    assert [len(answer) for answer in answers] == list(map(len, rows))

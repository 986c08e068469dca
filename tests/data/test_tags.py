"""Targets that are tags of the source: what the decoder reads, and that it never reads an answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch

from ape_cli import experiment
from ape_cli.core.errors import DataError
from ape_cli.core.vocabulary import EOS, PAD, SOS
from ape_cli.data import collation
from ape_cli.data.batches import DecoderOnlyBatch, few_lengths
from ape_cli.data.collation import Window
from ape_cli.data.loader import Dataset, Split
from ape_cli.evaluation import evaluate
from ape_cli.evaluation.attention_maps import attention_maps
from ape_cli.evaluation.evaluate import misfit
from ape_cli.experiment import ExperimentSpec
from ape_cli.models import factory
from ape_cli.models.transformer import SequenceModel, loss
from ape_cli.runs import config
from ape_cli.tasks._rules import check_rows
from tests.conftest import write
from tests.evaluation.sharing.conftest import exported_and_loaded
from tests.runs.test_registry import run


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
        assert batch.label_places is None  # every tag is asked for
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
    settled = experiment.complete(ExperimentSpec(preset="tiny", scheme="rope").config("sequence"), sums)
    model = factory.of_experiment(experiment.of(settled, sums)).eval()
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


def test_greedy_decoding_writes_what_teacher_forcing_scores(sums: Dataset, tmp_path: Path) -> None:
    done, trained = exported_and_loaded(sums, tmp_path)
    setup = experiment.of(done.record.config, sums)
    teacher, greedy = (
        evaluate.scores(trained.module, setup, sums.split("test"), decode=decode)["overall"]
        for decode in ("teacher", "greedy")
    )
    assert {name: teacher[name] for name in greedy} == greedy
    assert teacher["tokens"] == sum(sums.split("test").table()["size"].to_pylist())  # no EOS
    names, rows = sums.manifest.vocabulary, sums.split("test").table()["source_ids"].to_pylist()
    answers = trained.predict([[names[i] for i in row] for row in rows], max_tokens=2)
    assert answers == trained.predict(sums.split("test"))


@pytest.fixture(scope="module")
def recall(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Sequences of different lengths, in which few tokens have a tag."""
    folder = tmp_path_factory.mktemp("tags") / "recall"
    return write(folder, "associative-recall", pairs=3, keys=5, values=6, length=20)


@pytest.mark.parametrize("model", config.MODELS)
def test_only_tags_that_are_asked_for_are_scored(
    recall: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    """The scores are those of the full output, in training too, and so are sums and metrics."""
    settled = experiment.complete(ExperimentSpec(preset="tiny", scheme="rope", model=model).config("sequence"), recall)
    setup = experiment.of(settled, recall)
    built = factory.of_experiment(setup).train()
    split = recall.split("test")
    assert isinstance(split, Split)
    few = next(iter(split.batches(5, options=setup.batch_options())))
    found = [evaluate.scores(built, setup, split, decode=decode) for decode in ("teacher", "greedy")]
    given = built(*few.inputs)
    loss(given, few.labels).backward()
    gradient = built.embedding.grad.clone()
    built.zero_grad()

    monkeypatch.setattr(collation, "_asked", lambda tags, padding: None)
    every = next(iter(split.batches(5, options=setup.batch_options())))
    assert few.label_places is not None
    assert every.label_places is None
    assert every.labels.shape == every.input_ids.shape
    assert few.labels.shape == (5, int(every.label_mask.sum(1).max()))
    assert few.counts == every.counts
    scores = built(*every.inputs)
    assert torch.allclose(given[few.label_mask], scores[every.label_mask], atol=1e-5)
    assert few.labels[few.label_mask].tolist() == every.labels[every.label_mask].tolist()
    total = loss(scores, every.labels)
    assert torch.allclose(loss(given, few.labels), total)
    total.backward()
    assert torch.allclose(gradient, built.embedding.grad, atol=1e-5)
    for decode, metrics in zip(("teacher", "greedy"), found, strict=True):
        assert metrics["overall"] == pytest.approx(evaluate.scores(built, setup, split, decode=decode)["overall"])


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Sequences in which each answer is also the next token."""
    folder = tmp_path_factory.mktemp("tags") / "stream"
    return write(folder, "in-context-recall", keys=3, values=4, sizes=(8, 14))


@pytest.mark.parametrize("model", config.MODELS)
def test_causal_tags_are_predicted_from_the_tokens_up_to_them(stream: Dataset, model: str) -> None:
    """Models read an EOS, and then the source once. Later tokens have no influence on a tag."""
    assert stream.manifest.plan.causal
    settled = experiment.complete(ExperimentSpec(preset="tiny", scheme="rope", model=model).config("sequence"), stream)
    setup = experiment.of(settled, stream)
    built = factory.of_experiment(setup).eval()
    table = stream.split("test").table().filter(pc.field("size") == 8).combine_chunks()
    ids = np.array(table["source_ids"].to_pylist())
    later = ids.copy()
    later[:, 5:] = 3
    changed = pa.Table.from_pylist(
        [row | {"source_ids": new} for row, new in zip(table.to_pylist(), later.tolist(), strict=True)], table.schema
    )
    every = np.arange(len(table))
    first, second = (collation.collate(Window.of(rows), every, setup.reading) for rows in (table, changed))
    assert first.source_ids.tolist() == [[EOS]] * len(table)
    assert first.input_ids.tolist() == ids.tolist()
    assert first.counts == (int(first.label_mask.sum()), ids.size + len(table))  # tokens of sources, with EOS
    if isinstance(first, DecoderOnlyBatch):
        assert first.ids.tolist() == [[EOS, *row] for row in ids.tolist()]
        assert first.positions.tolist() == [list(range(1, ids.shape[1] + 2))]
    scores, other = built(*first.inputs), built(*second.inputs)
    assert first.label_places is not None
    before = (first.label_places < 5) & first.label_mask
    after = (first.label_places >= 5) & first.label_mask
    assert before.sum() > 10
    assert torch.allclose(scores[before], other[before], atol=1e-5)
    assert not torch.isclose(scores[after], other[after]).all(-1).any()

    spec = ExperimentSpec(preset="tiny", scheme="rope", model=model, positions="randomised", set={"maximum": 20})
    reading = experiment.of(spec.config("sequence"), stream).reading
    drawn = collation.collate(Window.of(table), every, reading).input_positions
    assert (drawn.diff() > 0).all(), "there are enough for the source"


def test_causal_tags_are_predicted_by_runs_and_exported_models(stream: Dataset, tmp_path: Path) -> None:
    split = stream.split("test")
    for model in config.MODELS:
        done, trained = exported_and_loaded(stream, tmp_path / model, model=model)
        setup = experiment.of(done.record.config, stream)
        assert done.record.dataset.causal
        found = [evaluate.scores(trained.module, setup, split, decode=decode) for decode in ("teacher", "greedy")]
        teacher, greedy = (scores["overall"] for scores in found)
        assert {name: teacher[name] for name in greedy} == greedy
        names = stream.manifest.vocabulary
        rows = [[names[i] for i in row] for row in split.table()["source_ids"].to_pylist()]
        assert isinstance(trained.module, SequenceModel)
        trained.module.embedding.data.zero_()  # all scores are equal; a place without a tag may have any token
        assert trained.predict(rows) == [[names[PAD]] * len(row) for row in rows]


def test_tags_are_those_of_the_tokens(sums: Dataset) -> None:
    """PAD is a tag that is not asked for, and never a token."""
    plan, rows = sums.manifest.plan, sums.split("test").table().to_pylist()[:2]

    def check(**changed: list[int]) -> None:
        table = pa.Table.from_pylist([rows[0] | changed, rows[1]], schema=plan.shard)
        check_rows(table, plan.structure, sums.ids, tagged=True)

    check()
    check(target_ids=[*rows[0]["target_ids"][:1], *[PAD] * (len(rows[0]["target_ids"]) - 1)])
    with pytest.raises(DataError, match="a target has nothing to predict"):
        check(target_ids=[PAD] * len(rows[0]["target_ids"]))
    with pytest.raises(DataError, match="a source id is not in the vocabulary"):
        check(source_ids=[PAD] * len(rows[0]["source_ids"]))


def test_runs_on_tags_are_drawn_and_not_mixed_with_others(sums: Dataset, tmp_path: Path) -> None:
    """A run on tags is not evaluated on products that are written, even if nothing else differs."""
    done = run(sums, tmp_path).run
    assert done.read().dataset.tagged
    names = [sums.manifest.vocabulary[i] for i in sums.split("test").table().to_pylist()[0]["source_ids"]]
    assert attention_maps(done, sums, "test", 0, "decoder").queries == names
    about = done.read().dataset.model_copy(update={"fingerprint": "0" * 64})
    assert misfit(about, about.vocabulary, sums) is None
    assert "as tags" in str(misfit(about.model_copy(update={"tagged": False}), about.vocabulary, sums))

"""Teacher-forced scores: averages are ratios of two sums, and bf16 is close to fp32."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ape_cli.core.numbers import perplexity
from ape_cli.core.vocabulary import PAD
from ape_cli.data.batches import SequenceBatch
from ape_cli.data.loader import Dataset
from ape_cli.evaluation import metrics
from ape_cli.experiment.reading import structure_for
from ape_cli.models import factory, transformer
from tests.training.test_trainer import CPU, tiny


def batch(labels: list[list[int]], sizes: list[int]) -> SequenceBatch:
    ids = torch.tensor(labels)
    count = len(labels)
    zeros, none = np.zeros(count, dtype=np.int64), np.full(count, -1)
    return SequenceBatch(ids, ids, ids != PAD, ids, ids, ids, zeros, np.array(sizes), none)


def test_accuracy_is_a_ratio_of_two_sums() -> None:
    """Not a mean of batch means: a batch with one wrong token and one with nine right ones give 90%, not 50%."""
    tally = metrics.MetricSums()
    wrong, right = batch([[5]], [1]), batch([[5] * 9], [9])
    tally.add(wrong, torch.tensor([[6]]), torch.tensor([[2.0]]))
    tally.add(right, torch.full((1, 9), 5), torch.ones(1, 9))
    assert tally.token_accuracy == 0.9
    assert tally.cross_entropy == 1.1
    columns = tally.columns()
    assert columns["tokens"].tolist() == [1, 9]
    assert columns["correct"].tolist() == [0, 9]


def test_padding_counts_for_nothing() -> None:
    tally = metrics.MetricSums()
    one = batch([[5, 6, PAD, PAD]], [2])
    tally.add(one, torch.tensor([[5, 7, PAD, PAD]]), torch.tensor([[1.0, 3.0, 50.0, 50.0]]))
    assert tally.token_accuracy == 0.5
    assert tally.cross_entropy == 2.0


def test_perplexity_from_the_probabilities_of_a_model(words: Dataset) -> None:
    """exp of the mean of -log p over all target tokens, each taken from the softmax by hand."""
    wanted = tiny("rope", words)
    model = factory.build(wanted, words.structure, words.ids).eval()
    read = structure_for("rope", words.structure)
    surprises: list[float] = []
    for one in words.split("test").batches(7, structure=read):
        probabilities = transformer.forward(model, one, "fp32").detach().double().softmax(-1)
        for row, labels in zip(probabilities, one.labels.tolist(), strict=True):
            surprises += [-math.log(row[i, label]) for i, label in enumerate(labels) if label != PAD]
    expected = math.exp(math.fsum(surprises) / len(surprises))
    scored = metrics.teacher_forced(model, words.split("test").batches(16, structure=read), CPU, "fp32")
    assert perplexity(scored.cross_entropy) == pytest.approx(expected, rel=1e-6)
    assert sum(tokens.sum() for tokens in scored.tokens) == len(surprises)
    assert 1 < expected < 10 * words.ids


@pytest.mark.parametrize("scheme", ["rope", "orthogonal-tree", "tree", "relative"])
def test_scores_do_not_depend_on_the_batch_size(trees: Dataset, scheme: str) -> None:
    wanted = tiny(scheme, trees)
    model = factory.build(wanted, trees.structure, trees.ids)
    read = structure_for(scheme, trees.structure)
    found = []
    for size in (1, 7, 40):
        batches = trees.split("test").batches(size, structure=read)
        columns = metrics.teacher_forced(model, batches, CPU, "fp32").columns()
        order = columns["row"].argsort()
        found.append({k: v[order] for k, v in columns.items()})
    for other in found[1:]:
        assert (other["correct"] == found[0]["correct"]).all()
        assert np.allclose(other["nats"], found[0]["nats"], rtol=1e-5)

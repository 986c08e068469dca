"""Padding to few lengths, as on a GPU, gives the scores and gradients of padding to the exact length."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from ape_cli import experiment
from ape_cli.data.batches import Padding, exact_length, few_lengths
from ape_cli.data.loader import Dataset, Split
from ape_cli.experiment import ExperimentSpec
from ape_cli.models import factory
from ape_cli.models.transformer import loss


def test_lengths_are_few_and_not_much_longer() -> None:
    assert [few_lengths(n) for n in (0, 1, 8, 9, 100, 128, 129, 256, 257)] == [8, 8, 8, 16, 104, 128, 144, 256, 288]
    for length in range(1, 2000):
        assert length <= few_lengths(length) <= max(8, length + 7, 1.125 * length)
    assert len({few_lengths(n) for n in range(1, 2000)}) < 50
    assert exact_length(17) == 17


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        *itertools.product(["words", "trees"], ["none", "relative", "orthogonal-seq"]),
        ("operations", "orthogonal-tree"),
    ],
)
def test_few_lengths_change_nothing(name: str, scheme: str, request: pytest.FixtureRequest) -> None:
    """Scores and gradients agree to 1e-12 in float64. The lengths of sequences include EOS."""
    data: Dataset = request.getfixturevalue(name)
    found = experiment.complete(ExperimentSpec(preset="tiny", scheme=scheme, seed=3).config("sequence"), data)
    split = data.split("train")
    assert isinstance(split, Split)

    def results(padding: Padding) -> tuple[list[int], list[Tensor]]:
        model: Any = factory.of_experiment(experiment.of(found, data)).double().eval()
        batch = next(iter(split.batches(24, 5, padding=padding, options=experiment.of(found, data).batch_options())))
        scores = model(*batch.inputs)
        total = loss(scores.double(), batch.labels)
        total.backward()
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        lengths = [batch.source_ids.shape[1], batch.labels.shape[1]]
        return lengths, [scores[batch.label_mask], *grads]

    (lengths, exact), (few, padded) = results(exact_length), results(few_lengths)
    assert few == [few_lengths(length) for length in lengths]
    for one, other in zip(padded, exact, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-12)

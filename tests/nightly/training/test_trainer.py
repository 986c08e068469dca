"""Compiled training gives the same results."""

from __future__ import annotations

import functools
import warnings

import pytest
import torch

from ape_cli.data.loader import Dataset
from ape_cli.models import factory
from ape_cli.training import trainer
from ape_cli.training.execution import Execution
from tests.training.test_trainer import CPU, Memory, fit, tiny, weights


def test_compiled_training_comes_to_the_same(words: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--compile` does not change weights or results, and does not compile the scheme's own work.

    Without the last stage of compilation, the making of machine code, which would take half a minute.
    """
    monkeypatch.setattr(trainer, "compile_around", functools.partial(factory.compile_around, backend="aot_eager"))
    wanted = tiny("orthogonal-seq", words, steps=2, validate_every_steps=2, dropout=0.0)
    stores = Memory(), Memory()
    with warnings.catch_warnings():  # torch's warnings about itself
        warnings.simplefilter("ignore")
        outcomes = [
            fit(wanted, words, store, Execution(CPU, compiled=c))
            for store, c in zip(stores, (False, True), strict=True)
        ]
    assert outcomes[0].best_accuracy == pytest.approx(outcomes[1].best_accuracy)
    one, other = (weights(store) for store in stores)
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.allclose(value, other[name], atol=1e-5), name

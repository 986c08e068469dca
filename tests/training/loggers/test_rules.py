"""Loggers that fail, or that draw random numbers from the streams of the training: each breaks a rule."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from ape_cli.core import user_parts
from ape_cli.core.errors import ApeError
from ape_cli.training.loggers._rules import RULES
from tests.training.loggers.test_contract import Recorder


@pytest.mark.parametrize(
    ("rule", "method", "wrong"),
    [
        ("metrics", "log", lambda self, step, metrics: metrics["validation_loss"]),  # not at every step
        ("metrics", "log", lambda self, step, metrics: round(metrics.get("validation_loss", 0.0))),  # of infinity
        ("metrics", "failed", lambda self, error: error.step),
        ("random numbers", "log", lambda self, step, metrics: torch.rand(1)),
        ("random numbers", "__init__", lambda self, run: np.random.seed(0)),
        ("random numbers", "close", lambda self: random.random()),
    ],
)
def test_a_mistake_breaks_a_rule(rule: str, method: str, wrong: Any) -> None:
    with pytest.raises(ApeError, match="logger 'test-rules'"):
        user_parts.apply(RULES[rule], type("Mine", (Recorder,), {method: wrong, "__module__": __name__}))
    user_parts.apply(RULES[rule], Recorder)

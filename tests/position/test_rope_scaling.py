"""Scaled frequencies of RoPE: worked out by hand, those of another implementation, and what stays of its laws."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ape_cli import attention, position
from ape_cli.core.errors import UsageError
from ape_cli.position.rope import Rope
from tests.position.golden import GOLDEN

TURN = 2 * math.pi
LLAMA3 = {"rope_type": "llama3", "factor": 2, "original_max_position_embeddings": 8}


def make(scaling: dict[str, Any], channels: int = 8, **options: Any) -> Rope:
    scheme = position.make("rope", d_model=channels, heads=1, scaling=scaling, **options)
    assert isinstance(scheme, Rope)
    return scheme


def near(found: Tensor, expected: list[float]) -> bool:
    return torch.allclose(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)


def test_llama3_worked_out() -> None:
    """In 100 turns of the first pair, the others make 10, 1 and 0.1; 1 is a tenth of the way from 0.5 to 5.5.

    The third frequency is 0.01 (1/10 + 9/10 * 1/8).
    """
    given = {"factor": 8.0, "low_freq_factor": 0.5, "high_freq_factor": 5.5}
    scheme = make({"rope_type": "llama3", "original_max_position_embeddings": 100 * TURN} | given)
    assert near(scheme.frequencies(), [1, 0.1, 0.002125, 0.000125])


@pytest.mark.parametrize("rounded", [True, False])
def test_yarn_worked_out(rounded: bool) -> None:
    """In 1000 turns of the first pair, pair i makes 10^(3 - i). So 100 turns are pair 1, and 1 turn is pair 3.

    Pair 2 is half-way: 0.01 (1/2 + 1/2 * 1/4). 90 and 2 turns are at 1.05 and 2.7, which are rounded to 1 and 3.
    """
    fast, slow = (90.0, 2.0) if rounded else (100.0, 1.0)
    given = {"factor": 4.0, "beta_fast": fast, "beta_slow": slow, "truncate": rounded}
    scheme = make({"rope_type": "yarn", "original_max_position_embeddings": 1000 * TURN} | given)
    assert near(scheme.frequencies(), [1, 0.1, 0.00625, 0.00025])


def test_yarn_that_ends_beyond_the_last_pair() -> None:
    """Pair i makes 10^(5 - i) turns, so 1 turn would be pair 5. Pairs 2 and 3 are 1/4 and 2/4 of the way there."""
    given = {"factor": 4.0, "beta_fast": 1e4, "beta_slow": 1.0, "truncate": False}
    scheme = make({"rope_type": "yarn", "original_max_position_embeddings": 1e5 * TURN} | given)
    assert near(scheme.frequencies(), [1, 0.1, 0.008125, 0.000625])


def test_other_implementation() -> None:
    for case in GOLDEN["rope_scaling"]["cases"]:
        scheme = make(case["scaling"], channels=32, base=case["base"])
        expected = torch.tensor(case["frequencies"], dtype=torch.float64)
        assert torch.allclose(scheme.frequencies(), expected, rtol=1e-6, atol=0), case
        assert scheme.scaling is not None
        assert scheme.scaling.magnitude == pytest.approx(case["magnitude"], abs=1e-9)


def test_yarn_multiplies_scores_by_the_square_of_its_factor() -> None:
    """Scores still depend on offsets alone, at 100,000 steps too. The operators are no longer orthogonal."""
    given = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1000.0}
    scheme, same = (make(given | {"attention_factor": factor}) for factor in (1.5, 1.0))
    q, k = torch.randn(2, 1, 1, 4, 8, dtype=torch.float64)

    def scores(one: Rope, first: int) -> Tensor:
        context = one.context(torch.tensor([[0, 1, 40, 900]]) + first)
        return attention.logits(one, q, k, context, context)

    assert torch.allclose(scores(scheme, 0), 2.25 * scores(same, 0), atol=1e-12)
    assert torch.allclose(scores(scheme, 100_000), scores(scheme, 0), atol=1e-9)
    assert (scheme.homomorphism, same.homomorphism) == ("", "orthogonal")


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        ({"rope_type": "dynamic", "factor": 2.0}, "rope_type[\\s\\S]*linear, llama3, yarn"),
        ({"rope_type": "yarn", "factor": 2.0}, "original_max_position_embeddings"),
        ({"rope_type": "linear", "factor": 2.0, "beta_fast": 3.0}, "beta_fast"),
        ({"rope_type": "linear", "factor": 0.0}, "above 0"),
        ({"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8, "truncate": 1}, "truncate"),
        (LLAMA3 | {"low_freq_factor": 4, "high_freq_factor": 1}, "high_freq_factor above low_freq_factor"),
    ],
)
def test_bad_scalings_are_refused(scaling: Any, message: str) -> None:
    with pytest.raises(UsageError, match=f"bad scaling of rope[\\s\\S]*{message}"):
        position.make("rope", d_model=8, heads=1, scaling=scaling)

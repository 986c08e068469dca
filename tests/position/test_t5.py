"""T5: buckets of another implementation, a scalar for each head, and separate scalars for each part of the model."""

from __future__ import annotations

import pytest
import torch

from ape_cli import attention, position
from ape_cli.position.t5 import T5
from tests.position.golden import GOLDEN


def make(**options: bool | int) -> T5:
    scheme = position.make("t5", d_model=16, heads=2, generator=torch.Generator().manual_seed(1), **options)
    assert isinstance(scheme, T5)
    return scheme.double()


@pytest.mark.parametrize("way", ["bidirectional", "unidirectional"])
def test_buckets_of_another_implementation(way: str) -> None:
    """Offsets are key - query. The text of T5 leaves the rounding open."""
    found = make().bucket(torch.arange(-200, 201), both_ways=way == "bidirectional")
    assert found.tolist() == GOLDEN["t5"][way]


def test_scalars_of_the_right_part_head_and_bucket() -> None:
    scheme = make()
    q, k = torch.zeros(2, 1, 2, 6, 8, dtype=torch.float64)
    at = torch.arange(6)[None]
    plain, causal = scheme.context(at), scheme.context(at, causal=True)
    for part, (q_context, k_context) in enumerate([(plain, plain), (causal, causal), (causal, plain)]):
        found = attention.logits(scheme, q, k, q_context, k_context)
        for h in range(2):
            for i in range(6):
                for j in range(i + 1):  # keys behind: a bucket of its own with both directions and with one
                    assert found[0, h, i, j] == scheme.scalars[part, h, i - j]
                for j in range(i + 1, 6):
                    assert found[0, h, i, j] == scheme.scalars[part, h, 0 if part == 1 else 16 + j - i]


def test_the_source_has_none_between_decoder_and_encoder() -> None:
    scheme = make(cross=False)
    at = torch.arange(4)[None]
    q = torch.zeros(1, 2, 4, 8, dtype=torch.float64)
    assert scheme.bias(q, scheme.context(at, causal=True), scheme.context(at)) is None
    assert scheme.scalars.shape[0] == 2

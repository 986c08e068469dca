"""`Attention.weights`: the mean of the values with these weights is what the layer itself computes, for every kind."""

from __future__ import annotations

import pytest
import torch

from ape_cli import attention, position
from ape_cli.attention import Attention, AttentionContext


@pytest.mark.parametrize("kind", attention.names())
def test_the_output_is_the_mean_of_values_with_these_weights(kind: str) -> None:
    torch.manual_seed(0)
    scheme = position.make("rope", 16, 2)
    layer = Attention(scheme, 0.5, attention.make(kind)).eval()
    x, mask = torch.randn(2, 7, 16), torch.ones(2, 7, dtype=torch.bool)
    mask[0, 5:] = False
    context = scheme.context(torch.arange(1, 8)[None], mask)
    link = AttentionContext.of(scheme, context, context)
    with torch.no_grad():
        weights = layer.weights(x, x, scheme, link)
        assert weights.shape == (2, 2, 7, 7)
        values = layer.value(x).unflatten(-1, (2, 8)).transpose(1, 2)  # [B, H, N, K]
        mixed = layer.out((weights @ values).transpose(1, 2).flatten(-2))
        torch.testing.assert_close(mixed[mask], layer(x, x, scheme, link)[mask], atol=1e-5, rtol=1e-5)
        assert not weights[0, :, :5, 5:].any()

"""Transformer-XL: scores and the relative shift of another implementation, and the four terms by hand."""

from __future__ import annotations

import pytest
import torch

from ape_cli import attention, position
from ape_cli.position.transformer_xl import TransformerXl
from tests.position.golden import GOLDEN

THEIRS = GOLDEN["transformer_xl"]


def array(value: list) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize("example", ["scores", "scores_with_memory"])
def test_scores_of_another_implementation(example: str) -> None:
    """Their table has all sines first, and ours alternates with cosines.

    The columns of W_R are permuted accordingly.
    """
    given = THEIRS[example]
    q, k, u, v, w = (array(given[name]) for name in ("q", "k", "r_w_bias", "r_r_bias", "r_net_weight"))
    heads, channels = u.shape
    scheme = position.make("transformer-xl", d_model=w.shape[1], heads=heads).double()
    assert isinstance(scheme, TransformerXl)
    dealt = torch.stack([w[:, : w.shape[1] // 2], w[:, w.shape[1] // 2 :]], dim=-1).flatten(1)
    with torch.no_grad():  # the heads of the example are narrower than D / H, so the other channels are 0
        for own, value in ((scheme.project, dealt.view(heads, channels, -1)), (scheme.u, u), (scheme.v, v)):
            own.zero_()
            own[:, :channels] = value
    wide = scheme.shape.head_dim
    q, k = (torch.nn.functional.pad(x.transpose(0, 1)[None], (0, wide - channels)) for x in (q, k))
    at = torch.arange(k.shape[2])[None]
    q_context, k_context = scheme.context(at[:, given["n_mem"] :]), scheme.context(at)
    found = attention.logits(scheme, q, k, q_context, k_context)[0] * wide**0.5  # their scores are not scaled
    seen = at <= at[0, given["n_mem"] :, None]
    assert torch.allclose(found[:, seen], array(given["scores"])[:, seen], atol=1e-12)

"""Laws of a whole model that hold for every scheme and every kind of attention.

Each function takes a model in float64 with some target tokens and their positions, ids [B, M] and at [B, M] or
[B, M, C]. The source is the same tokens without the first. A law that fails raises `AssertionError`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ape_cli.evaluation.laws.model import scores
from ape_cli.models.transformer import SequenceModel


def check_padding(net: SequenceModel, ids: Tensor, at: Tensor) -> None:
    """The scores of the first row are the same alone, and with padding in a batch with other rows."""
    count = ids.shape[1] * 3 // 4
    mask = torch.ones_like(ids[:, 1:], dtype=torch.bool)
    mask[0, 5:] = False
    source, source_at = ids[:, 1:] * mask, at[:, 1:] * (mask if at.dim() == 2 else mask[..., None])
    together = scores(net, source, source_at, mask, ids, at)
    alone = scores(net, source[:1, :5], source_at[:1, :5], mask[:1, :5], ids[:1, :count], at[:1, :count])
    assert torch.allclose(together[:1, :count], alone, rtol=0, atol=1e-12)

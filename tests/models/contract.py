"""Laws of a whole model that hold for every scheme and every kind of attention.

Each function takes a model in float64 with some target tokens and their positions, ids [B, M] and at [B, M] or
[B, M, C]. The source is the same tokens without the first. A law that fails raises `AssertionError`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ape_cli.evaluation.laws.model import scores
from ape_cli.models.transformer import SequenceModel


def check_causality(net: SequenceModel, ids: Tensor, at: Tensor) -> None:
    """Neither targets after the middle nor the content of padding change the scores up to there, also with dropout."""
    middle, other = ids.shape[1] // 2, len(net.embedding) - 3
    mask = torch.ones_like(ids[:, 1:], dtype=torch.bool)
    mask[:, middle + 1 :] = False

    def run(target: Tensor, target_at: Tensor, source: Tensor) -> Tensor:
        torch.manual_seed(11)
        return scores(net, source, at[:, 1:], mask, target, target_at)

    later, later_at = ids.clone(), at.clone()
    later[:, middle:] = 3 + (later[:, middle:] + 4) % other
    later_at[:, middle:] = later_at[:, middle:].flip(1)
    before, after = run(ids, at, ids[:, 1:]), run(later, later_at, ids[:, 1:])
    assert torch.equal(before[:, :middle], after[:, :middle])
    assert not torch.allclose(before[:, middle:], after[:, middle:])
    padding = ids[:, 1:].clone()
    padding[~mask] = 7
    assert torch.equal(before, run(ids, at, padding))


@torch.no_grad()
def check_one_by_one(net: SequenceModel, ids: Tensor, at: Tensor) -> None:
    """What `decode` keeps from one call to the next replaces the tokens that it has had."""
    mask = torch.ones_like(ids[:, 1:], dtype=torch.bool)
    mask[0, 5:] = False
    memory, source = net.encode(ids[:, 1:], at[:, 1:], mask)
    past = net.past()
    parts = [net.decode(ids[:, :m], at[:, :m], memory, source, past=past) for m in range(3, ids.shape[1] + 1)]
    assert [part.shape[1] for part in parts] == [3, *[1] * (ids.shape[1] - 3)]
    assert torch.allclose(torch.cat(parts, dim=1), net.decode(ids, at, memory, source), atol=1e-9)


def check_padding(net: SequenceModel, ids: Tensor, at: Tensor) -> None:
    """The scores of the first row are the same alone, and with padding in a batch with other rows."""
    count = ids.shape[1] * 3 // 4
    mask = torch.ones_like(ids[:, 1:], dtype=torch.bool)
    mask[0, 5:] = False
    source, source_at = ids[:, 1:] * mask, at[:, 1:] * (mask if at.dim() == 2 else mask[..., None])
    together = scores(net, source, source_at, mask, ids, at)
    alone = scores(net, source[:1, :5], source_at[:1, :5], mask[:1, :5], ids[:1, :count], at[:1, :count])
    assert torch.allclose(together[:1, :count], alone, rtol=0, atol=1e-12)

"""Softmax attention by torch's FlexAttention: locality bias, bias and masks within one kernel.

On a GPU it is compiled, and the scores are never stored. On a CPU it runs uncompiled, in the same arithmetic but with
stored scores, so that its values can be tested anywhere.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._dynamo import config as dynamo_config
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

from ape_cli.attention import Link

_MULTIPLE = 128  # for other lengths the gradient can become NaN (pytorch/pytorch#153799)
_VARIANTS = 256  # compiled kernels at most: one for each length and each combination of masks, decay and bias


@cache
def _compiled() -> Any:
    """With `fullgraph`, so that a limit of the compiler raises an error and never falls back to stored scores."""
    return torch.compile(flex_attention, dynamic=False, fullgraph=True)


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, link: Link) -> Tensor:
    """The mean of values, weighted by the softmax of (q k) / sqrt(K) * decay + bias over the keys that may be seen.

    q [B, H, M, K] and k [B, H, N, K] are rotated already; v is [B, H, N, K] and bias broadcasts to [B, H, M, N].
    -> [B, H, M, K]
    """
    count, keys = q.shape[2], k.shape[2]
    q, k, v = (_padded(x) for x in (q, k, v))
    decay, seen, causal, first = link.decay, link.keys, link.causal, link.first

    def modify(score: Tensor, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        m, n = query.clamp(max=count - 1), key.clamp(max=keys - 1)  # padding is no place in the tensors below
        if decay is not None:
            score = score * decay[_at(decay, 0, row), 0, m, n]
        if bias is not None:
            score = score + bias[_at(bias, 0, row), _at(bias, 1, head), m, n]
        if seen is not None:
            score = torch.where(seen[_at(seen, 0, row), n], score, -float("inf"))
        if causal:
            score = torch.where(key <= query + first, score, -float("inf"))
        return torch.where(key < keys, score, -float("inf"))

    if q.is_cuda:
        with dynamo_config.patch(recompile_limit=_VARIANTS):
            found: Tensor = _compiled()(q, k, v, score_mod=modify)
    else:
        found = flex_attention(q, k, v, score_mod=modify)
    return found[:, :, :count]


def _padded(x: Tensor) -> Tensor:
    """[B, H, N, K] -> the same with N rounded up, filled with zeros"""
    return functional.pad(x, (0, 0, 0, -x.shape[2] % _MULTIPLE))


def _at(x: Tensor, dim: int, index: Tensor) -> Tensor | int:
    """An index into a dimension that may be 1 and broadcast."""
    return 0 if x.shape[dim] == 1 else index

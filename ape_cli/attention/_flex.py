"""Softmax attention by torch's FlexAttention, with locality bias, bias and masks within one kernel.

On a GPU it is compiled, and the scores are never stored. On a CPU it runs uncompiled, in the same arithmetic but with
stored scores, so that its values can be tested anywhere.

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._dynamo import config as dynamo_config
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

from ape_cli.attention import Link

_MULTIPLE = 128  # of lengths; for other lengths the gradient can become NaN (pytorch/pytorch#153799)
_VARIANTS = 256  # maximum of compiled kernels: one for each length and combination of masks, decay and bias


@cache
def _compiled() -> Any:
    """The compiled FlexAttention.

    `fullgraph` makes a limit of the compiler raise an error. Without it, the compiler would fall back to stored
    scores.
    """
    return torch.compile(flex_attention, dynamic=False, fullgraph=True)


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, link: Link) -> Tensor:
    """Softmax attention with the logits (q k) / sqrt(K) * decay + bias, over the keys that may be seen. -> [B, H, M, K]

    q [B, H, M, K] and k [B, H, N, K] are rotated already; v is [B, H, N, K], and bias broadcasts to [B, H, M, N].
    """
    count = q.shape[2]
    modify = score_mod(bias, link, count, k.shape[2])
    q, k, v = (_padded(x) for x in (q, k, v))
    if q.is_cuda:
        with dynamo_config.patch(recompile_limit=_VARIANTS):
            found: Tensor = _compiled()(q, k, v, score_mod=modify)
    else:
        found = flex_attention(q, k, v, score_mod=modify)
    return found[:, :, :count]


def score_mod(bias: Tensor | None, link: Link, count: int, keys: int) -> Callable[..., Tensor]:
    """The function that makes a logit from each score: locality bias, bias and masks.

    `count` and `keys` are the numbers of queries and keys without padding. Padding is never attended to.
    """
    decay, seen, causal, first = link.decay, link.keys, link.causal, link.first

    def modify(score: Tensor, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """The logit of one pair, from its score after the scaling by 1/sqrt(K)."""
        m, n = query.clamp(max=count - 1), key.clamp(max=keys - 1)  # the tensors below have no entries for padding
        if decay is not None:
            score = score * decay[_at(decay, 0, row), 0, m, n]
        if bias is not None:
            score = score + bias[_at(bias, 0, row), _at(bias, 1, head), m, n]
        if seen is not None:
            score = torch.where(seen[_at(seen, 0, row), n], score, -float("inf"))
        if causal:
            score = torch.where(key <= query + first, score, -float("inf"))
        return torch.where(key < keys, score, -float("inf"))

    return modify


def _padded(x: Tensor) -> Tensor:
    """Pad N to a multiple of `_MULTIPLE` with zeros. [B, H, N, K] -> [B, H, padded N, K]"""
    return functional.pad(x, (0, 0, 0, -x.shape[2] % _MULTIPLE))


def _at(x: Tensor, dim: int, index: Tensor) -> Tensor | int:
    """The index to use in a dimension whose size may be 1, so that it broadcasts."""
    return 0 if x.shape[dim] == 1 else index

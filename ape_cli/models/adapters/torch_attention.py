"""The inputs of torch's two attention functions, for any scheme.

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ape_cli.attention import AttentionContext, additive, checked_context, rotated
from ape_cli.core.errors import UsageError
from ape_cli.position import Context, Scheme


class SdpaInputs(NamedTuple):
    """The arguments of `torch.nn.functional.scaled_dot_product_attention`, except the values."""

    q: Tensor  # [B, H, M, K], rotated; the function scales by 1/√K itself
    k: Tensor  # [B, H, N, K], rotated
    attn_mask: Tensor | None  # added after 1/√K: floating point, or bool (True: may attend); None: no mask


class FlexInputs(NamedTuple):
    """The arguments of `torch.nn.attention.flex_attention.flex_attention`, except the values."""

    q: Tensor  # [B, H, M, K], rotated; the function scales by 1/√K itself
    k: Tensor  # [B, H, N, K], rotated
    score_mod: Callable[[Tensor, Any, Any, Any, Any], Tensor]  # after 1/√K: locality bias, bias and masks


def sdpa_inputs(
    scheme: Scheme, q: Tensor, k: Tensor, q_context: Context, k_context: Context | None = None
) -> SdpaInputs:
    """The inputs of `scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)`.

    - `q` [B, H, M, K] and `k` [B, H, N, K]: the projections of each head, unrotated.
    - `q_context` and `k_context`: their positions, from `scheme.context(positions, mask, causal=…)`. By default, keys
      are at the positions of the queries.

    -> `q` and `k`, rotated, and `attn_mask`, which broadcasts to [B, H, M, N]. The mask hides padding and, if the
    context of the keys is causal, later tokens. Leave `is_causal` out. If it hides all keys from a query, PyTorch's
    function returns 0 for it on a CPU.

    Raises `UsageError` for a scheme with a locality bias, as `scaled_dot_product_attention` cannot multiply scores, and
    for a scheme that defines `logits`, or if q or k does not have the shape of the scheme and its positions.
    """
    _check(scheme)
    context = checked_context(scheme, q, k, q_context, q_context if k_context is None else k_context)
    if context.decay is not None:
        what = f"scaled_dot_product_attention cannot multiply scores by a locality bias, decay={scheme.shape.decay:g}"
        raise UsageError(what, fix="position.make(…, decay=1), or `flex_inputs`")
    rotated_q, rotated_k = rotated(scheme, q, k, context)
    bias = scheme.bias(q, context.q_context, context.k_context)
    return SdpaInputs(rotated_q, rotated_k, additive(bias, context, rotated_q.dtype))


def flex_inputs(
    scheme: Scheme, q: Tensor, k: Tensor, q_context: Context, k_context: Context | None = None
) -> FlexInputs:
    """The inputs of `flex_attention(q, k, v, score_mod=score_mod)`. It takes the same arguments as `sdpa_inputs`.

    FlexAttention has two limitations. On a CPU it computes no gradient. On a GPU, gradients may be NaN for lengths that
    are not multiples of 128 (pytorch/pytorch#153799). In that case pad the returned `q` and `k`, and `v`, with zeros;
    `score_mod` hides the padding.

    Raises `UsageError` for a scheme that defines `logits`, and for wrong shapes of q or k.

    >>> import torch
    >>> from ape_cli import adapters, position
    >>> scheme = position.make("orthogonal-seq", d_model=4, heads=2)  # with a locality bias
    >>> context = scheme.context(torch.tensor([[1, 2, 3]]))
    >>> inputs = adapters.flex_inputs(scheme, *torch.randn(2, 1, 2, 3, 2), context)
    >>> inputs.q.shape, callable(inputs.score_mod)
    (torch.Size([1, 2, 3, 2]), True)
    """
    _check(scheme)
    context = checked_context(scheme, q, k, q_context, q_context if k_context is None else k_context)
    bias = scheme.bias(q, context.q_context, context.k_context)
    return FlexInputs(*rotated(scheme, q, k, context), _score_mod(bias, context, q.shape[2], k.shape[2]))


def _check(scheme: Scheme) -> None:
    """Raises `UsageError` for a scheme whose scores are not a product of queries and keys."""
    if scheme.overrides("logits"):
        what = f"the scores of {scheme.name} are not the product of queries and keys, which this function computes"
        raise UsageError(what, fix="compute them with `attention.logits`, or choose another scheme")


def _score_mod(bias: Tensor | None, context: AttentionContext, count: int, keys: int) -> Callable[..., Tensor]:
    """The function that makes a logit from each score: locality bias, bias and masks.

    `count` and `keys` are the numbers of queries and keys without padding. Padding is never attended to.
    """
    decay, seen, causal, first = context.decay, context.keys, context.causal, context.first

    def modify(score: Tensor, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """The logit of one pair, from its score after the scaling by 1/√K."""
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


def _at(x: Tensor, dim: int, index: Tensor) -> Tensor | int:
    """The index to use in a dimension whose size may be 1, so that it broadcasts."""
    return 0 if x.shape[dim] == 1 else index

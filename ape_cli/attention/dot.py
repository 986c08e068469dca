r"""Dot: the scaled dot product and a softmax over keys.

Source: Algebraic Positional Encodings, sections 2 and 4.2; Vaswani et al. 2017, section 3.2.1. Logits are
$(q k) / \sqrt{K}$, times decay, plus bias, plus mask. A scheme may replace $(q k) / \sqrt{K}$ by its own scores.

`backend` selects the PyTorch operations that compute them. If a score has more terms than the product, long sequences
are computed in blocks of queries, so that the $M N$ scores and biases are never all in memory. Each query has its own
softmax, so blocks are independent. A block of a decoder uses only the keys up to its last query. The backward pass
recomputes the scores of a block from queries and keys (Rabe & Staats 2021, arXiv:2112.05682, which cuts the keys as
well; a CPU's cache holds all of them).

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, cat
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from ape_cli.attention import (
    AttentionContext,
    AttentionKind,
    additive,
    adjusted,
    average,
    backend,
    require_plain,
    rotated,
    scaled,
    scores_of,
)
from ape_cli.position import Scheme

_LONG = 2**20  # number of pairs of a query and a key from which on blocks are faster
_LONG_FUSED = 2**22  # the same number if torch's kernel takes the bias
_AT_ONCE = 2**20  # scores of a block, over all rows and heads: 4 MB
_AT_LEAST = 64  # minimum number of queries in a block

Answer = Callable[[Tensor, Tensor, Tensor, Tensor, AttentionContext], Tensor]


class Dot(AttentionKind):
    """Scaled dot-product attention."""

    refuses_content = ""
    takes_frame = True
    about = "softmax of (q k) / sqrt(K)"
    cost = "M N K products"
    source = "Vaswani et al. 2017, section 3.2.1"

    def attend(
        self, scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float
    ) -> Tensor:
        """The mean of values, weighted by the softmax of the logits. [B, H, M or N, K] -> [B, H, M, K]

        Raises `UsageError` if the requested backend cannot compute it.
        """
        if scheme.overrides("logits"):
            return of_content(scheme, q, k, v, context, dropout)
        rotated_q, rotated_k = rotated(scheme, q, k, context)

        def answer(q: Tensor, rotated_q: Tensor, rotated_k: Tensor, v: Tensor, context: AttentionContext) -> Tensor:
            """The result for some of the queries, which `context` describes.

            `q` is unrotated, as `Scheme.bias` needs it.
            """
            bias = scheme.bias(q, context.q_context, context.k_context)
            chosen = backend(rotated_q, bias, context.decay, dropout)
            if chosen == "plain":
                return average(adjusted(scaled(rotated_q, rotated_k), bias, context), v, context, dropout)
            mask = additive(bias, context.filled, rotated_q.dtype)
            fused = functional.scaled_dot_product_attention
            return context.zero_empty(fused(rotated_q, rotated_k, v, attn_mask=mask, dropout_p=dropout))

        if in_blocks(scheme, q, k, context):
            return each_block(answer, q, rotated_q, rotated_k, v, context, rng=dropout > 0)
        return answer(q, rotated_q, rotated_k, v, context)

    def least_numbers(self, scheme: Scheme, q: Tensor, k: Tensor, *, causal: bool, dropout: float) -> tuple[int, int]:
        """All weights are kept, or those of a block are needed at a time, or torch's kernel keeps its mask."""
        queries, keys = q.shape[-2], k.shape[-2]
        pairs, rows = queries * keys, q.shape[:-2].numel()  # of all heads
        decays, biased, own = scheme.shape.decay != 1.0, scheme.overrides("bias"), scheme.overrides("logits")
        hidden = pairs + pairs // 4 if causal else 0  # the penalty, and the mask, whose elements have a byte
        beside = pairs if decays else 0
        if _content_in_blocks(q, k) if own else _in_blocks(scheme, q, k, decays=decays):
            size = min(queries, _block(q, k))
            seen = max(0, keys - size) if causal else keys  # by the last block of full size
            return 0, beside + (hidden if own else 0) + 2 * rows * size * seen  # scores and weights
        bias = q.new_empty(0).requires_grad_(any(True for _ in scheme.parameters())) if biased else None
        if own or backend(q, bias, q if decays else None, dropout) == "plain":
            return rows * pairs, rows * pairs + beside + hidden
        return pairs if biased or causal else 0, pairs // 4 if causal else 0


def of_content(scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float) -> Tensor:
    """The mean of values, weighted by the softmax of the scheme's own scores. [B, H, M or N, K] -> [B, H, M, K]

    Raises `UsageError` if torch's fused kernel is requested, which computes products alone.
    """
    require_plain("the scores of the scheme are its own")

    def answer(q: Tensor, _: Tensor, k: Tensor, v: Tensor, context: AttentionContext) -> Tensor:
        """The result for some of the queries, which `context` describes."""
        return average(scores_of(scheme, q, k, context), v, context, dropout)

    if _content_in_blocks(q, k) and context.q_context.prepare is None:
        return each_block(answer, q, q, k, v, context, rng=dropout > 0)
    return answer(q, q, k, v, context)


def in_blocks(scheme: Scheme, q: Tensor, k: Tensor, context: AttentionContext) -> bool:
    """Whether blocks are faster, because many scores or biases would have to be stored. q, k: [B, H, ., K]

    The thresholds were measured on a CPU, so blocks are not used on other devices.
    """
    has_state = context.q_context.prepare is not None or context.k_context.prepare is not None
    if scheme.overrides("bias") and has_state:
        return False  # the context of a part has no state
    return _in_blocks(scheme, q, k, decays=context.decay is not None)


def _in_blocks(scheme: Scheme, q: Tensor, k: Tensor, *, decays: bool) -> bool:
    """`in_blocks` for contexts without a state. `decays`: whether there is a locality bias."""
    pairs = q.shape[-2] * k.shape[-2]
    if pairs < _LONG or q.device.type != "cpu" or not (scheme.overrides("bias") or decays):
        return False
    fused = not decays and not any(True for _ in scheme.parameters())
    return pairs >= _LONG_FUSED or not fused


def _content_in_blocks(q: Tensor, k: Tensor) -> bool:
    """Whether scores of a scheme's own are computed in blocks. q, k: [B, H, ., K]"""
    return q.shape[-2] * k.shape[-2] >= _LONG and q.device.type == "cpu"


def _block(q: Tensor, k: Tensor) -> int:
    """The number of queries in a block. q, k: [B, H, ., K]"""
    return max(_AT_LEAST, _AT_ONCE // (q.shape[:-2].numel() * k.shape[-2]))


def each_block(
    answer: Answer, q: Tensor, rotated_q: Tensor, rotated_k: Tensor, v: Tensor, context: AttentionContext, rng: bool
) -> Tensor:
    """Call `answer(q, rotated_q, rotated_k, v, context)` for each block of q and rotated_q. -> [B, H, M, K]

    `rng`: whether `answer` draws random numbers, which then have to be the same when it is computed again.
    """
    count, size = q.shape[-2], _block(q, rotated_k)

    def block(begin: int, q: Tensor, rotated_q: Tensor) -> Tensor:
        """The answer of the block of queries that starts at `begin`."""
        # made anew in each pass, so that nothing that is kept in its contexts is reused
        part = context.part(begin, begin + q.shape[-2])
        seen = slice(part.k_context.positions.shape[1])
        return answer(q, rotated_q, rotated_k[:, :, seen], v[:, :, seen], part)

    parts = zip(range(0, count, size), q.split(size, dim=-2), rotated_q.split(size, dim=-2), strict=True)
    return cat([checkpoint(block, *of, use_reentrant=False, preserve_rng_state=rng) for of in parts], dim=-2)

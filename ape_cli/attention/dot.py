r"""Dot: the scaled dot product and a softmax over keys.

Source: Algebraic Positional Encodings, sections 2 and 4.2; Vaswani et al. 2017, section 3.2.1. Logits are
$(q k) / \sqrt{K}$, times decay, plus bias, plus mask. A scheme may replace $(q k) / \sqrt{K}$ by its own scores.

`backend` selects the PyTorch operations that compute them. If a score has more terms than the product, a CPU computes
long sequences in blocks of queries, so that of the $M N$ scores, biases and decays only the decays, which all heads
share, are ever all in memory. Each query has its own softmax, so blocks are independent. A block of a decoder uses only
the keys up to its last query. The backward pass recomputes the scores of a block from queries and keys (Rabe & Staats
2021, arXiv:2112.05682, which cuts the keys as well; a CPU's cache holds all of them).

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from ape_cli.attention._kind import AttentionContext, AttentionType
from ape_cli.attention._layers import drop, matmul
from ape_cli.core.errors import UsageError
from ape_cli.position import Context, FastScheme, Scheme

_LONG = 2**20  # number of pairs of a query and a key from which on blocks are faster
_LONG_FUSED = 2**22  # the same number if torch's kernel takes the bias
_AT_ONCE = 2**20  # scores of a block, over all rows and heads: 4 MB
_AT_LEAST = 64  # minimum number of queries in a block

_LONG_BF16 = 1024  # queries from which on the scores of bfloat16 are not stored
BACKENDS = ("plain", "fused")


class _Requested(threading.local):
    """The backend that this thread requests, None for the fastest. A compiled function can read it."""

    backend: str | None = None


_requested = _Requested()

Attended = Callable[[Tensor, Tensor, Tensor, Tensor, AttentionContext], Tensor]


class Dot(AttentionType):
    """Scaled dot-product attention."""

    refuses_content = ""
    takes_basis = True
    about = "softmax of (q k) / sqrt(K)"
    cost = "M N K products"
    source = "Vaswani et al. 2017, section 3.2.1"

    def attend(
        self, scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float
    ) -> Tensor:
        """The mean of values, weighted by the softmax of the logits. [B, H, M or N, K] -> [B, H, M, K]

        Raises `UsageError` if the requested backend cannot compute it.
        """
        own_scores, biased = type(scheme).logits is not Scheme.logits, type(scheme).bias is not Scheme.bias
        if own_scores:
            require_plain("the scores of the scheme are its own")
        rotated_q, rotated_k = (q, k) if own_scores else rotated(scheme, q, k, context)

        def attended(q: Tensor, rotated_q: Tensor, rotated_k: Tensor, v: Tensor, part: AttentionContext) -> Tensor:
            """The result for some of the queries, which `part` describes. `q` is unrotated, as the bias needs it."""
            if own_scores:
                return average(scores_of(scheme, q, rotated_k, part), v, part, dropout)
            bias = scheme.bias(q, part.q_context, part.k_context) if biased else None
            decay = part.decay
            if backend(rotated_q, bias, decay, dropout) == "plain":
                return average(_adjusted(scaled(rotated_q, rotated_k), bias, decay), v, part, dropout)
            mask = additive(bias, part.filled, rotated_q.dtype)
            fused = functional.scaled_dot_product_attention
            return part.zero_empty(fused(rotated_q, rotated_k, v, attn_mask=mask, dropout_p=dropout))

        if in_blocks(scheme, q, k, context):
            return each_block(attended, q, rotated_q, rotated_k, v, context, rng=dropout > 0)
        return attended(q, rotated_q, rotated_k, v, context)


def in_blocks(scheme: Scheme, q: Tensor, k: Tensor, context: AttentionContext) -> bool:
    """Whether blocks are faster, because many scores or biases would have to be stored. q, k: [B, H, ., K]

    The thresholds were measured on a CPU, so blocks are not used on other devices. The context of a part has no state.
    """
    pairs, own_scores = q.shape[-2] * k.shape[-2], type(scheme).logits is not Scheme.logits
    if pairs < _LONG or q.device.type != "cpu":
        return False
    biased, decays = type(scheme).bias is not Scheme.bias, context.decay is not None
    has_state = context.q_context.prepare is not None or context.k_context.prepare is not None
    if (own_scores or biased) and has_state:
        return False
    fused = not (own_scores or decays or any(True for _ in scheme.parameters()))
    return (own_scores or biased or decays) and (pairs >= _LONG_FUSED or not fused)


def each_block(
    attended: Attended, q: Tensor, rotated_q: Tensor, rotated_k: Tensor, v: Tensor, context: AttentionContext, rng: bool
) -> Tensor:
    """Call `attended(q, rotated_q, rotated_k, v, context)` for each block of q and rotated_q. -> [B, H, M, K]

    `rng`: whether `attended` draws random numbers, which then have to be the same when it is computed again.
    """
    count, decay = q.shape[-2], context.decay
    size = max(_AT_LEAST, _AT_ONCE // (q.shape[:-2].numel() * rotated_k.shape[-2]))

    def block(begin: int, q: Tensor, rotated_q: Tensor) -> Tensor:
        # made anew in each pass, so that nothing that is kept in its contexts is reused
        part = context.part(begin, begin + q.shape[-2], decay)
        seen = slice(part.k_context.positions.shape[1])
        return attended(q, rotated_q, rotated_k[:, :, seen], v[:, :, seen], part)

    parts = zip(range(0, count, size), q.split(size, dim=-2), rotated_q.split(size, dim=-2), strict=True)
    return torch.cat([checkpoint(block, *of, use_reentrant=False, preserve_rng_state=rng) for of in parts], dim=-2)


def logits(
    scheme: Scheme, q: Tensor, k: Tensor, q_context: Context, k_context: Context, content: Tensor | None = None
) -> Tensor:
    """The logits of the attention `dot` before mask and softmax: (q k) / √K, times decay, plus bias.

    q: [B, H, M, K], k: [B, H, N, K], unrotated -> [B, H, M, N]. content: [B, N, ...], the output of the scheme's module
    of this layer for the keys; None for a scheme without modules.

    Raises `UsageError` if q or k does not have the shape of the scheme and its positions.
    """
    context = checked_context(scheme, q, k, q_context, k_context)
    return scores_of(scheme, q, k, context if content is None else replace(context, content=content))


def checked_context(scheme: Scheme, q: Tensor, k: Tensor, q_context: Context, k_context: Context) -> AttentionContext:
    """The context of unrotated q [B, H, M, K] and k [B, H, N, K]. Raises `UsageError` for other shapes.

    Most schemes would compute scores from the wrong channels or heads without an error.
    """
    heads, channels = scheme.shape.heads, scheme.shape.head_dim
    for name, x, context in (("q", q, q_context), ("k", k, k_context)):
        if (positions := getattr(context, "positions", None)) is None:
            got, fix = type(context).__name__, "scheme.context(positions)"
            raise UsageError(f"{name} needs a context", got=got, allowed="a `Context`", fix=fix)
        rows, tokens = positions.shape[:2]
        if x.dim() != 4 or x.shape[1:] != (heads, tokens, channels) or rows not in (1, x.shape[0]):
            what = f"{name} does not fit the scheme and its positions"
            allowed = f"[{'B' if rows == 1 else rows}, {heads}, {tokens}, {channels}]: rows, heads, tokens, channels"
            fix = "make the scheme with the d_model and the heads of your model, and keep this order of axes"
            raise UsageError(what, got=list(x.shape), allowed=allowed, fix=fix)
    return AttentionContext.of(scheme, q_context, k_context)


def scores_of(scheme: Scheme, q: Tensor, k: Tensor, context: AttentionContext) -> Tensor:
    """`logits` in a given context. q: [B, H, M, K], k: [B, H, N, K], unrotated -> [B, H, M, N]"""
    scores = scheme.logits(q, k, context.content, context)
    if scores is None:
        scores = scaled(*rotated(scheme, q, k, context))
    return adjusted(scores, scheme.bias(q, context.q_context, context.k_context), context)


def scaled(q: Tensor, k: Tensor) -> Tensor:
    """(q k) / √K. [B, H, M, K], [B, H, N, K] -> [B, H, M, N]"""
    return matmul(q * q.shape[-1] ** -0.5, k.mT)


def rotated(scheme: Scheme, q: Tensor, k: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
    """Rotated queries and keys. [B, H, M, K], [B, H, N, K] -> the same"""
    rotate = scheme.rotate_in_basis if context.in_its_basis and isinstance(scheme, FastScheme) else scheme.rotate
    return rotate(q, context.q_context, "query"), rotate(k, context.k_context, "key")


def adjusted(scores: Tensor, bias: Tensor | None, context: AttentionContext) -> Tensor:
    """Scores, times decay, plus the scheme's bias, which broadcasts to them. [B, H, M, N] -> the same"""
    return _adjusted(scores, bias, context.decay)


def _adjusted(scores: Tensor, bias: Tensor | None, decay: Tensor | None) -> Tensor:
    if decay is not None:
        scores = scores * decay.to(scores.dtype)
    return scores if bias is None else scores + bias.to(scores.dtype)


def additive(bias: Tensor | None, context: AttentionContext, dtype: torch.dtype) -> Tensor | None:
    """The mask of torch's `scaled_dot_product_attention`: the scheme's bias, which is added, and who may attend.

    Broadcasts to [B, H, M, N]. It is bool (True: may attend) if there is no bias, and None if nothing is hidden either.
    A bias gets the dtype of the queries: on a CPU, torch 2.13 takes a float32 mask beside float64 queries without an
    error, and from 8 keys on the result is wrong.
    """
    if bias is None:
        return context.mask
    bias = bias.to(dtype)
    return bias if context.penalty is None else bias + context.penalty.to(dtype)


def average(scores: Tensor, v: Tensor, context: AttentionContext, dropout: float) -> Tensor:
    """The mean of values, weighted by the softmax over keys of the scores. [B, H, M, N], [B, H, N, K] -> [B, H, M, K]

    Keys that are hidden get no weight. A query that may attend to no key gets 0.
    """
    empty = context.empty
    penalty = (context if empty is None else context.filled).penalty
    if penalty is not None:
        scores = scores + penalty.to(scores.dtype)
    # dropout acts on the weights after the softmax, so it cannot bring back a hidden key
    weights = drop(torch.softmax(scores, dim=-1), dropout)
    result = matmul(weights.to(v.dtype), v)
    return result if empty is None else result.masked_fill(empty, 0.0)


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Within this context, compute softmax attention with the backend `plain` or `fused`.

    Results are equal up to rounding. A compiled function keeps the backend of its first call. Raises `UsageError` for
    an unknown name. Attention raises `UsageError` if the backend cannot compute it.

    >>> import torch
    >>> from ape_cli import attention, position
    >>> scheme = position.make("none", d_model=4, heads=1)
    >>> context = scheme.context(torch.tensor([[1, 2, 3]]))
    >>> pair = attention.AttentionContext.of(scheme, context, context)
    >>> q, k, v = torch.randn(3, 1, 1, 3, 4)
    >>> results = []
    >>> for name in ("plain", "fused"):
    ...     with attention.use_backend(name):
    ...         results.append(attention.make("dot").attend(scheme, q, k, v, pair, dropout=0.0))
    >>> torch.allclose(*results, atol=1e-5)
    True
    """
    if name not in BACKENDS:
        raise UsageError("unknown attention backend", got=repr(name), allowed=", ".join(BACKENDS), fix="choose one")
    before, _requested.backend = _requested.backend, name
    try:
        yield
    finally:
        _requested.backend = before


def require_plain(reason: str) -> None:
    """Raise `UsageError`, with the reason, if the fused backend is requested."""
    if _requested.backend == "fused":
        raise UsageError(f"backend fused cannot compute this attention: {reason}", fix="use plain")


def backend(q: Tensor, bias: Tensor | None, decay: Tensor | None, dropout: float) -> str:
    """The backend for queries [B, H, M, K], a bias [B or 1, H or 1, M, N] and a locality bias [B or 1, 1, M, N].

    | backend | what it is | when it is chosen |
    |---|---|---|
    | `plain` | products and a softmax | with a locality bias; on a CPU also with dropout, learned bias or bfloat16 |
    | `fused` | torch's `scaled_dot_product_attention` | everything else |

    `fused` cannot multiply scores, which a locality bias needs. On a CPU its fused kernel has neither dropout nor a
    gradient for a bias, and torch then takes a slower path of its own. In bfloat16 it is several times as slow there
    as products and a softmax, which are chosen below 1,024 queries, where scores need little memory.

    Raises `UsageError` if the requested backend cannot compute this.
    """
    requested = _requested.backend
    if decay is not None:
        require_plain("it has no locality bias")
    if requested is not None:
        return requested
    learned = bias is not None and bias.requires_grad
    on_cpu = q.device.type == "cpu"
    slow = dropout > 0 or learned or (q.dtype == torch.bfloat16 and q.shape[-2] < _LONG_BF16)
    return "plain" if decay is not None or (on_cpu and slow) else "fused"

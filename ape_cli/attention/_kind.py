"""The base class of kinds of attention, who attends to whom, and the functions that kinds share.

The docstring of `ape_cli.attention` describes what a kind is given, and the shape letters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from ape_cli.attention._layers import drop
from ape_cli.core import plugins
from ape_cli.core.errors import UsageError
from ape_cli.position import Context, FastScheme, Link, Scheme

_LONG_BF16 = 1024  # queries from which on the scores of bfloat16 are not stored
BACKENDS = ("plain", "fused")
_requested: ContextVar[str | None] = ContextVar("_requested", default=None)


@dataclass(frozen=True)
class AttentionContext(Link):
    """Who attends to whom. The layers of one stack share it in a forward pass."""

    decay: Tensor | None = None  # [B or 1, 1, M, N], multiplied into the scores
    keys: Tensor | None = None  # bool [B, N], True for tokens; None if all are tokens
    queries: Tensor | None = None  # bool [B, M], True for tokens; None if all are tokens
    causal: bool = False  # whether the m-th query sees only the keys up to the m-th
    first: int = 0  # index of the first query among all queries
    framed: bool = False  # whether queries and keys are in the scheme's frame already
    content: Tensor | None = None  # [B, N, ...], of one layer: what the scheme's module returned for the keys

    @classmethod
    def of(cls, scheme: Scheme, q_context: Context, k_context: Context) -> AttentionContext:
        """Who attends to whom between two contexts of positions. It is causal if the keys are a decoder's own."""
        decay = scheme.decay(q_context, k_context)
        return cls(q_context, k_context, decay, k_context.mask, q_context.mask, k_context.causal)

    @cached_property
    def in_frame(self) -> AttentionContext:
        """The same context, for queries and keys whose projections have taken in the scheme's frame."""
        return replace(self, framed=True)

    def with_content(self, content: Tensor) -> AttentionContext:
        """The same context for one layer, whose module of the scheme returned `content` for the keys: [B, N, ...]."""
        self.penalty  # noqa: B018 # computed here, so that the layers share it
        one = copy(self)
        object.__setattr__(one, "content", content)
        return one

    def part(self, begin: int, end: int) -> AttentionContext:
        """The same for the queries from `begin` to `end`, and the keys that they may see.

        The contexts of their positions have no state, because the state belongs to all positions.
        """
        seen = end if self.causal else self.k_context.positions.shape[1]
        return replace(
            self,
            q_context=self.q_context.part(begin, end),
            k_context=self.k_context.part(0, seen),
            decay=None if self.decay is None else self.decay[:, :, begin:end, :seen],
            keys=None if self.keys is None else self.keys[:, :seen],
            queries=None if self.queries is None else self.queries[:, begin:end],
            content=None if self.content is None else self.content[:, :seen],
            first=self.first + begin,
        )

    @cached_property
    def mask(self) -> Tensor | None:
        """`keys` and `causal` in one mask: bool, broadcasts to [B, 1, M, N], True if the query may attend.

        None means that every query may attend to every key.

        It is computed once for all layers, and only if a kind asks for it.
        """
        mask = None if self.keys is None else self.keys[:, None, None, :]
        if not self.causal:
            return mask
        at = self.k_context.positions
        count = self.q_context.positions.shape[1], at.shape[1]
        before = torch.ones(count, dtype=torch.bool, device=at.device).tril(self.first)[None, None]
        return before if mask is None else before & mask

    @cached_property
    def penalty(self) -> Tensor | None:
        """-inf where `mask` is false, else 0: float32, broadcasts to [B, 1, M, N], or None.

        To add it takes one pass, and none in the backward pass, where `masked_fill` takes two each.
        """
        if self.mask is None:
            return None
        return torch.zeros(self.mask.shape, device=self.mask.device).masked_fill_(~self.mask, float("-inf"))


class AttentionKind(ABC):
    """Base class of all kinds of attention. A kind states what it can take."""

    # The reason why the kind refuses something. An empty string means that the kind takes it.
    refuses_bias: ClassVar[str] = ""  # a scheme's bias, added to the scores
    refuses_decay: ClassVar[str] = ""  # the locality bias, multiplied into the scores
    # the bias of a scheme that is `dot_only`, or its own `logits`
    refuses_content: ClassVar[str] = "it is a term of the dot product's expansion"

    # whether it uses only rotated queries and keys, so that the projections can take in the scheme's frame
    takes_frame: ClassVar[bool] = False
    # whether it would look ahead in a decoder, whose two attentions are then the default kind
    mixes_queries: ClassVar[bool] = False

    # What it does not have: `dropout` on the attention weights, a `gradient` for queries and keys, or one of the group
    # actions of lemma 2.3 of "Notes on attention and positional encodings", without hooks and masks: `permutation` (of
    # queries, and of keys with their values), `rotation` (one orthogonal g on queries and keys), `values` (an
    # invertible h on values).
    lacks: ClassVar[tuple[str, ...]] = ()

    option_help: ClassVar[dict[str, str]] = {}  # what each of its options means, for `ape fields`
    about: ClassVar[str]  # a description in one line
    cost: ClassVar[str]
    source: ClassVar[str]

    @property
    def name(self) -> str:
        """The name of the kind, which is that of its file."""
        return plugins.name_of(type(self))

    @classmethod
    def claims(cls) -> dict[str, Any]:
        """The properties of the kind, for tables."""
        return {
            "about": cls.about,
            "bias": not cls.refuses_bias,
            "decay": not cls.refuses_decay,
            "content": not cls.refuses_content,
            "dropout": "dropout" not in cls.lacks,
            "differentiable": "gradient" not in cls.lacks,
            "acts_in": "encoder" if cls.mixes_queries else "encoder, decoder, between",
            **{action: action not in cls.lacks for action in ("permutation", "rotation", "values")},
            "cost": cls.cost,
            "source": cls.source,
        }

    @abstractmethod
    def attend(
        self, scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float
    ) -> Tensor:
        """The values that each query gets. q: [B, H, M, K], k and v: [B, H, N, K], unrotated -> [B, H, M, K]

        `dropout`: the probability of dropout on the attention weights, 0 in evaluation.
        """


def logits(
    scheme: Scheme, q: Tensor, k: Tensor, q_context: Context, k_context: Context, content: Tensor | None = None
) -> Tensor:
    """The scores of `dot` before mask and softmax: (q k) / √K, times decay, plus bias.

    q: [B, H, M, K], k: [B, H, N, K], unrotated -> [B, H, M, N]. content: [B, N, ...], what the scheme's module of the
    layer returned for the keys, or None without one. `dot` takes every scheme, so nothing is checked.
    """
    context = AttentionContext.of(scheme, q_context, k_context)
    return scores_of(scheme, q, k, context if content is None else replace(context, content=content))


def scores_of(scheme: Scheme, q: Tensor, k: Tensor, context: AttentionContext) -> Tensor:
    """`logits` in a given context. q: [B, H, M, K], k: [B, H, N, K], unrotated -> [B, H, M, N]"""
    scores = scheme.logits(q, k, context.content, context)
    if scores is None:
        scores = scaled(*rotated(scheme, q, k, context))
    return adjusted(scores, scheme.bias(q, context.q_context, context.k_context), context)


def scaled(q: Tensor, k: Tensor) -> Tensor:
    """(q k) / √K. [B, H, M, K], [B, H, N, K] -> [B, H, M, N]"""
    return (q * q.shape[-1] ** -0.5) @ k.mT


def rotated(scheme: Scheme, q: Tensor, k: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
    """Rotated queries and keys. [B, H, M, K], [B, H, N, K] -> the same"""
    rotate = scheme.rotate_in_frame if context.framed and isinstance(scheme, FastScheme) else scheme.rotate
    return rotate(q, context.q_context, "query"), rotate(k, context.k_context, "key")


def adjusted(scores: Tensor, bias: Tensor | None, context: AttentionContext) -> Tensor:
    """Scores, times decay, plus the scheme's bias, which broadcasts to them. [B, H, M, N] -> the same"""
    if context.decay is not None:
        scores = scores * context.decay.to(scores.dtype)
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

    Keys that are hidden get no weight.
    """
    if context.penalty is not None:
        scores = scores + context.penalty.to(scores.dtype)
    # Dropout acts on the weights after the softmax, so it cannot bring back a masked place.
    weights = drop(torch.softmax(scores, dim=-1), dropout)
    return weights.to(v.dtype) @ v


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Compute softmax attention with one backend within this context: `plain` or `fused`.

    Results stay the same up to rounding. Raises `UsageError` for an unknown name. Attention raises `UsageError` if
    the backend cannot compute what is asked of it.

        with attention.use_backend("plain"):
            scores = model(batch)
    """
    if name not in BACKENDS:
        raise UsageError("unknown attention backend", got=repr(name), allowed=", ".join(BACKENDS), fix="choose one")
    token = _requested.set(name)
    try:
        yield
    finally:
        _requested.reset(token)


def require_plain(reason: str) -> None:
    """Raise `UsageError`, with the reason, if the fused backend is requested."""
    if _requested.get() == "fused":
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
    requested = _requested.get()
    if decay is not None:
        require_plain("it has no locality bias")
    if requested is not None:
        return requested
    learned = bias is not None and bias.requires_grad
    on_cpu = q.device.type == "cpu"
    slow = dropout > 0 or learned or (q.dtype == torch.bfloat16 and q.shape[-2] < _LONG_BF16)
    return "plain" if decay is not None or (on_cpu and slow) else "fused"

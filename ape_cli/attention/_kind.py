"""The base class of kinds of attention, who attends to whom, and the functions that kinds share.

The docstring of `ape_cli.attention` explains what a kind receives, and the shape letters.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from ape_cli.attention._layers import drop
from ape_cli.core import plugins
from ape_cli.core.errors import UsageError
from ape_cli.position import Context, FastScheme, Link, Scheme
from ape_cli.position._context import lazy, reads_values
from ape_cli.position._matmul import matmul

_LONG_BF16 = 1024  # queries from which on the scores of bfloat16 are not stored
BACKENDS = ("plain", "fused")


class _Requested(threading.local):
    """The backend that this thread requests, None for the fastest. A compiled function can read it."""

    backend: str | None = None


_requested = _Requested()


@dataclass(frozen=True)
class AttentionContext(Link):
    """Who attends to whom: a `Link` with masks and the locality bias. All layers of a stack share it.

    >>> import torch
    >>> from ape_cli import attention, position
    >>> scheme = position.make("none", d_model=4, heads=1)
    >>> context = scheme.context(torch.tensor([[1, 2]]), causal=True)
    >>> attention.AttentionContext.of(scheme, context, context).mask[0, 0].tolist()
    [[True, False], [True, True]]
    """

    decays: Callable[[], Tensor | None] | None = None  # returns `decay`; None for none
    keys: Tensor | None = None  # bool [B, N], True for tokens; None if all are tokens
    queries: Tensor | None = None  # bool [B, M], True for tokens; None if all are tokens
    causal: bool = False  # whether query m sees only the keys up to m
    first: int = 0  # index of the first query among all queries
    framed: bool = False  # whether queries and keys are already in the frame of the scheme
    fills: bool = False  # whether queries without visible keys are shown all keys (see `filled`)
    content: Tensor | None = None  # [B, N, ...], output of the scheme's module for the keys, in a single layer

    @classmethod
    def of(cls, scheme: Scheme, q_context: Context, k_context: Context) -> AttentionContext:
        """Create one from the contexts of queries and keys. It is causal if that of the keys is."""
        decays = partial(q_context.cached, k_context, scheme.decay)
        return cls(q_context, k_context, decays, k_context.mask, q_context.mask, k_context.causal)

    @property
    def decay(self) -> Tensor | None:
        """The locality bias, a factor of the scores, which all layers share. -> [B or 1, 1, M, N], None for none"""
        return None if self.decays is None else self.decays()

    @lazy
    def in_frame(self) -> AttentionContext:
        """The same context, for queries and keys whose projections have taken in the scheme's frame."""
        return replace(self, framed=True)

    def with_content(self, content: Tensor) -> AttentionContext:
        """The same context for one layer, whose module of the scheme returned `content` for the keys: [B, N, ...]."""
        self.filled.penalty  # noqa: B018 # computed here, so that the layers share it
        one = copy(self)
        object.__setattr__(one, "content", content)
        return one

    def part(self, begin: int, end: int) -> AttentionContext:
        """The same for the queries from `begin` to `end`, and the keys that they may see.

        The contexts of their positions have no state, because the state belongs to all positions.
        """
        seen = end if self.causal else self.k_context.positions.shape[1]

        def decays() -> Tensor | None:
            """The rows and columns of the locality bias."""
            whole = self.decay
            return None if whole is None else whole[:, :, begin:end, :seen]

        return replace(
            self,
            q_context=self.q_context.part(begin, end),
            k_context=self.k_context.part(0, seen),
            decays=decays,
            keys=None if self.keys is None else self.keys[:, :seen],
            queries=None if self.queries is None else self.queries[:, begin:end],
            content=None if self.content is None else self.content[:, :seen],
            first=self.first + begin,
        )

    @lazy
    def mask(self) -> Tensor | None:
        """Which keys each query may attend to: bool, broadcasts to [B, 1, M, N]; None if it may attend to all.

        It combines `keys` and `causal`, and is computed once for all layers, on first use.
        """
        mask = None if self.keys is None else self.keys[:, None, None, :]
        if self.causal:
            at = self.k_context.positions
            count = self.q_context.positions.shape[1], at.shape[1]
            before = torch.ones(count, dtype=torch.bool, device=at.device).tril(self.first)[None, None]
            mask = before if mask is None else before & mask
        return mask | self.empty if self.fills and mask is not None and self.empty is not None else mask

    @lazy
    def empty(self) -> Tensor | None:
        """Which queries may attend to no key: bool, broadcasts to [B, 1, M, 1]; None if each query has a key.

        These are all queries of a row of padding, and in causal attention those before the first token. Where values
        are not read (see `reads_values`), it is None only without `keys`.
        """
        if self.keys is None:
            return None
        if self.causal:
            last = torch.arange(self.first, self.first + self.q_context.positions.shape[1], device=self.keys.device)
            before = self.keys.cumsum(1)[:, last.clamp(max=self.keys.shape[1] - 1)]  # tokens up to each query
            empty = before[:, None, :, None] == 0
        else:
            empty = ~self.keys.any(1)[:, None, None, None]
        return None if reads_values(empty) and not empty.any() else empty

    @property
    def filled(self) -> AttentionContext:
        """The same context, in which queries without visible keys see all keys, so that their softmax is not NaN.

        Their results are then set to zero by `zero_empty`.
        """
        return self if self.empty is None else self._filled

    @lazy
    def _filled(self) -> AttentionContext:
        """`filled`, kept for all layers. It is another object, because one that refers to itself is released late."""
        return replace(self, fills=True)

    def zero_empty(self, x: Tensor) -> Tensor:
        """The results of attention, with zeros for queries that may attend to no key. [B, H, M, K] -> the same"""
        return x if self.empty is None else x.masked_fill(self.empty, 0.0)

    @lazy
    def penalty(self) -> Tensor | None:
        """0 where `mask` is true, else -inf: float32, broadcasts to [B, 1, M, N]; None without a mask.

        Adding it takes one pass forward and none backward; `masked_fill` takes two each.
        """
        if self.mask is None:
            return None
        return torch.zeros(self.mask.shape, device=self.mask.device).masked_fill_(~self.mask, float("-inf"))


class AttentionKind(ABC):
    """Base class of kinds of attention. A subclass overrides `attend`, and gives a reason for what it does not support.

    >>> import torch
    >>> from ape_cli import attention, position
    >>> scheme = position.make("none", d_model=4, heads=1)
    >>> context = scheme.context(torch.tensor([[1, 2, 3]]))
    >>> q, k, v = torch.randn(3, 1, 1, 3, 4)
    >>> kind = attention.make("dot")
    >>> kind.attend(scheme, q, k, v, attention.AttentionContext.of(scheme, context, context), dropout=0.0).shape
    torch.Size([1, 1, 3, 4])
    """

    part_kind: ClassVar[str] = "attention"  # for messages
    refuses_bias: ClassVar[str] = ""  # why it does not support the bias of a scheme; empty if it does
    refuses_decay: ClassVar[str] = ""  # why it does not support a locality bias; empty if it does
    # why it does not support `logits` of a scheme, or the bias of a scheme that is `dot_only`; empty if it does
    refuses_content: ClassVar[str] = "it is a term of the dot product's expansion"

    # whether it uses only rotated queries and keys, so that projections can absorb the frame of the scheme
    takes_frame: ClassVar[bool] = False
    # whether it would look ahead in a decoder; the decoder then uses the default kind
    mixes_queries: ClassVar[bool] = False

    # what it lacks: `dropout` of attention weights, a `gradient` for queries and keys, or an invariance of lemma 2.3 of
    # "Notes on attention and positional encodings" (without hooks and masks): `permutation` (of queries, and of keys
    # with their values), `rotation` (one orthogonal g on queries and keys), `values` (an invertible h on values); or
    # `relative` (with an orthogonal encoding, a prefix of all paths changes nothing)
    lacks: ClassVar[tuple[str, ...]] = ()

    option_help: ClassVar[dict[str, str]] = {}  # a description of each option, for `ape fields`
    about: ClassVar[str]  # a description in one line
    cost: ClassVar[str]  # the cost, for tables
    source: ClassVar[str]  # the publication

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
        """The result of attention. q: [B, H, M, K], k and v: [B, H, N, K], all unrotated -> [B, H, M, K]

        A query that may attend to no key gets 0, and no gradient (see `AttentionContext.filled`).
        `dropout`: the dropout probability of the attention weights, 0 in evaluation.
        """

    def least_numbers(self, scheme: Scheme, q: Tensor, k: Tensor, *, causal: bool, dropout: float) -> tuple[int, int]:
        """At least how many numbers a training step has in memory for pairs of a query and a key.

        The first is what each layer keeps for its backward pass, and the second is what one layer needs beside them.
        Of q, [B, H, M, K], and k, [B, H, N, K], only shapes, device and dtype count. The default is none.
        """
        return 0, 0


def logits(
    scheme: Scheme, q: Tensor, k: Tensor, q_context: Context, k_context: Context, content: Tensor | None = None
) -> Tensor:
    """The logits of the attention `dot` before mask and softmax: (q k) / √K, times decay, plus bias.

    q: [B, H, M, K], k: [B, H, N, K], unrotated -> [B, H, M, N]. content: [B, N, ...], the output of the scheme's module
    of this layer for the keys; None for a scheme without modules.
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
    return matmul(q * q.shape[-1] ** -0.5, k.mT)


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

    Keys that are hidden get no weight. A query that may attend to no key gets 0.
    """
    penalty = context.filled.penalty
    if penalty is not None:
        scores = scores + penalty.to(scores.dtype)
    # Dropout acts on the weights after the softmax, so it cannot bring back a masked place.
    weights = drop(torch.softmax(scores, dim=-1), dropout)
    return context.zero_empty(matmul(weights.to(v.dtype), v))


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Within this context, compute softmax attention with the backend `plain` or `fused`.

    Results are equal up to rounding. A compiled function keeps the backend of its first call. Raises `UsageError` for
    an unknown name. Attention raises `UsageError` if the backend cannot compute it.

    >>> import torch
    >>> from ape_cli import attention, position
    >>> scheme = position.make("none", d_model=4, heads=1)
    >>> context = scheme.context(torch.tensor([[1, 2, 3]]))
    >>> at = attention.AttentionContext.of(scheme, context, context)
    >>> q, k, v = torch.randn(3, 1, 1, 3, 4)
    >>> results = []
    >>> for name in ("plain", "fused"):
    ...     with attention.use_backend(name):
    ...         results.append(attention.make("dot").attend(scheme, q, k, v, at, dropout=0.0))
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

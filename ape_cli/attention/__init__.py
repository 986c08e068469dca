"""Attention: its kinds, one file each, which are found by name; and the multi-head layer that holds one of them.

A kind gets the scheme, the projections of each head, which are still unrotated, and a `Link` that says who may attend
to whom:

    mix(scheme, q, k, v, link, dropout)    [B, H, M, K], [B, H, N, K], [B, H, N, K] -> [B, H, M, K]

A kind calls the scheme's hooks itself, because not all kinds rotate at the same point. `dot` is the paper's (sections
2 and 4.2): its logits are (q k) / sqrt(K), times decay, plus bias, plus mask. If a kind cannot take something (a
bias, a locality bias, a term of the dot product), it raises an error that says why (`check`).

Shapes: B batch, H heads, M queries, N keys, K channels of a head, D channels of the model.

The scores of three tokens with equal queries and keys, under a locality bias of 0.5 to the power of the distance:

    >>> import torch
    >>> from ape_cli import attention, position
    >>> scheme = position.make("none", d_model=4, heads=1, decay=0.5)
    >>> context = scheme.context(torch.tensor([[1, 2, 3]]))
    >>> q = k = torch.ones(1, 1, 3, 4)
    >>> attention.logits(scheme, q, k, context, context)[0, 0]
    tensor([[2.0000, 1.0000, 0.5000],
            [1.0000, 2.0000, 1.0000],
            [0.5000, 1.0000, 2.0000]])
"""

from __future__ import annotations

import pkgutil
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ape_cli.attention._backend import use_backend as use_backend
from ape_cli.attention._dropout import drop
from ape_cli.core import plugins
from ape_cli.core.errors import UsageError
from ape_cli.position import Context, Scheme

__path__ = pkgutil.extend_path(__path__, __name__)  # folders ape_cli/attention elsewhere on the path add files


@dataclass(frozen=True)
class Link:
    """Who attends to whom. The layers of one stack share it in a forward pass."""

    q_context: Context
    k_context: Context
    decay: Tensor | None = None  # [B or 1, 1, M, N], multiplied into the scores
    keys: Tensor | None = None  # bool [B, N], True for tokens; None if all are tokens
    queries: Tensor | None = None  # bool [B, M], True for tokens; None if all are tokens
    causal: bool = False  # whether the m-th query sees only the keys up to the m-th
    first: int = 0  # index of the first query among all queries
    framed: bool = False  # whether queries and keys are in the scheme's frame already

    @classmethod
    def of(cls, scheme: Scheme, q_context: Context, k_context: Context) -> Link:
        """The link between two contexts. It is causal if the keys are a decoder's own."""
        decay = scheme.decay(q_context, k_context)
        return cls(
            q_context,
            k_context,
            decay=decay,
            keys=k_context.mask,
            queries=q_context.mask,
            causal=k_context.causal,
        )

    @cached_property
    def in_frame(self) -> Link:
        """The same link, for queries and keys whose projections have taken in the scheme's frame."""
        return replace(self, framed=True)

    def part(self, begin: int, end: int) -> Link:
        """The link for the queries from `begin` to `end`, and the keys that they may see.

        Its contexts have no state, because the state belongs to all positions.
        """
        seen = end if self.causal else self.k_context.positions.shape[1]
        return replace(
            self,
            q_context=self.q_context.part(begin, end),
            k_context=self.k_context.part(0, seen),
            decay=None if self.decay is None else self.decay[:, :, begin:end, :seen],
            keys=None if self.keys is None else self.keys[:, :seen],
            queries=None if self.queries is None else self.queries[:, begin:end],
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
    def hidden(self) -> Tensor | None:
        """The negation of `mask`, or None."""
        return None if self.mask is None else ~self.mask


class Kind(ABC):
    """Base class of all kinds of attention. A kind states what it can take, and mixes values."""

    # The reason why the kind refuses something. An empty string means that the kind takes it.
    refuses_bias: ClassVar[str] = ""  # a scheme's bias, added to the scores
    refuses_decay: ClassVar[str] = ""  # the locality bias, multiplied into the scores
    # the bias of a scheme that is `dot_only`
    refuses_content: ClassVar[str] = "it is a term of the dot product's expansion"

    takes_dropout: ClassVar[bool] = True  # whether dropout acts on the attention weights
    differentiable: ClassVar[bool] = True  # whether queries and keys get a gradient
    # whether it uses only rotated queries and keys, so that the projections can take in the scheme's frame
    takes_frame: ClassVar[bool] = False
    # whether it would look ahead in a decoder, whose two attentions are then the default kind
    mixes_queries: ClassVar[bool] = False

    # Which group actions of lemma 2.3 of "Notes on attention and positional encodings" hold, without hooks and masks.
    permutation: ClassVar[bool] = True  # permutations of queries, and of keys with their values
    rotation: ClassVar[bool] = True  # one orthogonal g on queries and keys
    values: ClassVar[bool] = True  # an invertible h on values

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
            "dropout": cls.takes_dropout,
            "differentiable": cls.differentiable,
            "acts_in": "encoder" if cls.mixes_queries else "encoder, decoder, between",
            "permutation": cls.permutation,
            "rotation": cls.rotation,
            "values": cls.values,
            "cost": cls.cost,
            "source": cls.source,
        }

    @abstractmethod
    def mix(self, scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, link: Link, dropout: float) -> Tensor:
        """Mix values by attention. q: [B, H, M, K], k and v: [B, H, N, K], unrotated -> [B, H, M, K]

        `dropout`: the probability of dropout on the attention weights, 0 in evaluation.
        """


class Attention(nn.Module):
    """Multi-head attention of one kind, in the shape of a scheme.

    `scheme`: the one that each call of `forward` is given. `dropout`: the probability for the attention
    weights. `kind`: None for the default. Raises `UsageError` if the kind cannot take the scheme.
    """

    def __init__(self, scheme: Scheme, dropout: float, kind: Kind | None = None) -> None:
        """Create the projections."""
        super().__init__()
        d_model = scheme.shape.d_model
        self.heads, self.dropout, self.kind = scheme.shape.heads, dropout, kind or make()
        check(self.kind, type(scheme), scheme.shape.decay)
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, memory: Tensor, scheme: Scheme, link: Link) -> Tensor:
        """Attend from x to memory. x: [B, M, D], memory: [B, N, D] -> [B, M, D]"""
        q_frame = k_frame = None
        if self.kind.takes_frame:
            link = link.in_frame
            q_frame, k_frame = scheme.frame(link.q_context), scheme.frame(link.k_context)
        asks, answers = (self.query, q_frame), [(self.key, k_frame), (self.value, None)]
        if x.is_cuda and memory is x:  # a GPU computes one large product faster than several small ones
            q, k, v = self._project(x, asks, *answers)
        elif x.is_cuda:
            q, k, v = *self._project(x, asks), *self._project(memory, *answers)
        else:
            q, k, v = *self._project(x, asks), *(self._project(memory, one)[0] for one in answers)
        rate = self.dropout if self.training else 0.0
        mixed = self.kind.mix(scheme, q, k, v, link, rate)
        return self.out(mixed.transpose(1, 2).flatten(-2))

    def _project(self, x: Tensor, *layers: tuple[nn.Linear, Tensor | None]) -> list[Tensor]:
        """Project x by each of the layers, in a frame [H, K, K] if there is one.

        [B, N, D] -> [B, H, N, K] for each layer
        """
        weights, biases = zip(*(self._framed(layer, frame) for layer, frame in layers), strict=True)
        if len(layers) == 1:
            found = functional.linear(x, weights[0], biases[0])
        else:
            found = functional.linear(x, torch.cat(weights), torch.cat(biases))
        return [part.transpose(1, 2) for part in found.unflatten(-1, (len(layers), self.heads, -1)).unbind(2)]

    def _framed(self, layer: nn.Linear, frame: Tensor | None) -> tuple[Tensor, Tensor]:
        """The weight and the bias of a layer in a frame F: (x W' + b) F = x (F' W)' + b F."""
        weight: Tensor = layer.weight
        bias: Tensor = layer.bias
        if frame is not None:
            turn = frame.mT.to(weight.dtype)
            weight = (turn @ weight.unflatten(0, (self.heads, -1))).flatten(0, 1)
            bias = (turn @ bias.view(self.heads, -1, 1)).flatten()
        return weight, bias


# What kinds share --------------------------------------------------------------------------------


def logits(scheme: Scheme, q: Tensor, k: Tensor, q_context: Context, k_context: Context) -> Tensor:
    """The scores of `dot` before mask and softmax: (q k) / sqrt(K), times decay, plus bias.

    q: [B, H, M, K], k: [B, H, N, K], unrotated -> [B, H, M, N]. `dot` takes every scheme, so nothing is checked.
    """
    link = Link.of(scheme, q_context, k_context)
    return adjusted(scaled(*turned(scheme, q, k, link)), scheme.bias(q, q_context, k_context), link)


def scaled(q: Tensor, k: Tensor) -> Tensor:
    """(q k) / sqrt(K). [B, H, M, K], [B, H, N, K] -> [B, H, M, N]"""
    return (q * q.shape[-1] ** -0.5) @ k.mT


def turned(scheme: Scheme, q: Tensor, k: Tensor, link: Link) -> tuple[Tensor, Tensor]:
    """Rotated queries and keys. [B, H, M, K], [B, H, N, K] -> the same"""
    act = scheme.turn if link.framed else scheme.rotate
    return act(q, link.q_context, "query"), act(k, link.k_context, "key")


def adjusted(scores: Tensor, bias: Tensor | None, link: Link) -> Tensor:
    """Scores, times decay, plus the scheme's bias, which broadcasts to them. [B, H, M, N] -> the same"""
    if link.decay is not None:
        scores = scores * link.decay.to(scores.dtype)
    return scores if bias is None else scores + bias.to(scores.dtype)


def average(scores: Tensor, v: Tensor, link: Link, dropout: float) -> Tensor:
    """The mean of values, weighted by the softmax over keys of the scores. [B, H, M, N], [B, H, N, K] -> [B, H, M, K]

    Keys that are hidden get no weight.
    """
    if link.hidden is not None:
        scores = scores.masked_fill(link.hidden, float("-inf"))
    # Dropout acts on the weights after the softmax, so it cannot bring back a masked place.
    weights = drop(torch.softmax(scores, dim=-1), dropout)
    return weights.to(v.dtype) @ v


# Discovery ---------------------------------------------------------------------------------------


def names() -> list[str]:
    """The names of all kinds, from the files in this folder."""
    return plugins.names(sys.modules[__name__])


@cache
def load(name: str) -> type[Kind]:
    """The class of a kind. Raises `UsageError` for an unknown name, and `ApeError` if its file cannot be imported."""
    return plugins.load(sys.modules[__name__], "attention", name, Kind)  # type: ignore[type-abstract]


def options(name: str) -> dict[str, Any]:
    """The options of a kind, with their defaults."""
    return plugins.options(load(name))


def make(name: str = "dot", **given: Any) -> Kind:
    """Create a kind by its name, with its options. Raises `UsageError` for names and options that are not valid."""
    return load(name)(**plugins.settings(f"attention {name}", given, options(name)))


def check(kind: Kind, scheme: type[Scheme], decay: float) -> None:
    """Check that a kind can take a scheme and a locality bias. `decay`: the locality bias c.

    Raises `UsageError`, with the reason, if it cannot.
    """
    name, another = plugins.name_of(scheme), "another --attention, or another scheme (`ape schemes`)"
    if scheme.bias is not Scheme.bias and kind.refuses_bias:
        raise _refusal(kind, "refuses_bias", "a bias", f"scheme {name}, which adds one", another)
    if scheme.dot_only and kind.refuses_content:
        raise _refusal(kind, "refuses_content", f"the bias of {name}", f"scheme {name}", another)
    if decay != 1.0 and kind.refuses_decay:
        no_decay = "another --attention, or --set decay=1"
        raise _refusal(kind, "refuses_decay", "a locality bias", f"decay={decay:g}", no_decay)


def _refusal(kind: Kind, claim: str, what: str, got: str, fix: str) -> UsageError:
    """The error for something that a kind refuses, with the names of the kinds that take it."""
    others = ", ".join(name for name in names() if not getattr(load(name), claim))
    reason = getattr(kind, claim)
    return UsageError(f"attention {kind.name} cannot take {what}: {reason}", got=got, allowed=f"with {others}", fix=fix)

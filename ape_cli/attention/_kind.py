"""The base class of kinds of attention, who attends to whom, and which kinds there are.

The docstring of `ape_cli.attention` explains what a kind receives, and the shape letters.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from ape_cli.core import part_options, plugins, renamed
from ape_cli.core.errors import CombinationError
from ape_cli.position import AttentionPair, Context, Role, Scheme
from ape_cli.position._context import lazy, reads_values


@dataclass(frozen=True)
class AttentionContext(AttentionPair):
    """Who attends to whom: an `AttentionPair` with masks and the locality bias. All layers of a stack share it.

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
    causal: bool = False  # whether query m sees only the keys up to first + m
    first: int = 0  # index among the keys of the first query, in causal attention
    in_its_basis: bool = False  # whether queries and keys are already in the basis of the scheme
    fills: bool = False  # whether queries without visible keys are shown all keys (see `filled`)
    content: Tensor | None = None  # [B, N, ...], output of the scheme's module for the keys, in a single layer

    @classmethod
    def of(cls, scheme: Scheme, q_context: Context, k_context: Context) -> AttentionContext:
        """Create one from the contexts of queries and keys. It is causal if that of the keys is."""
        decays = partial(q_context.cached, k_context, scheme.decay)
        first = k_context.positions.shape[1] - q_context.positions.shape[1] if k_context.causal else 0
        return cls(q_context, k_context, decays, k_context.mask, q_context.mask, k_context.causal, first)

    @property
    def decay(self) -> Tensor | None:
        """The locality bias, a factor of the scores, which all layers share. -> [B or 1, 1, M, N], None for none"""
        return None if self.decays is None else self.decays()

    @lazy
    def in_basis(self) -> AttentionContext:
        """The same context, for queries and keys whose projections have taken in the scheme's basis."""
        return replace(self, in_its_basis=True)

    def with_content(self, content: Tensor) -> AttentionContext:
        """The same context for one layer, whose module of the scheme returned `content` for the keys: [B, N, ...]."""
        self.filled.penalty  # noqa: B018 # computed here, so that the layers share it
        of_layer = copy(self)
        object.__setattr__(of_layer, "content", content)
        return of_layer

    def part(self, begin: int, end: int, decay: Tensor | None = None) -> AttentionContext:
        """The same for the queries from `begin` to `end`, and the keys that they may see.

        The contexts of their positions have no state, because the state belongs to all positions. `decay`: that of all
        queries and keys, which is not computed again.
        """
        seen = self.first + end if self.causal else self.k_context.positions.shape[1]
        return replace(
            self,
            q_context=self.q_context.part(begin, end),
            k_context=self.k_context.part(0, seen),
            decays=None if decay is None else lambda: decay[:, :, begin:end, :seen],
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
            positions = self.k_context.positions
            count = self.q_context.positions.shape[1], positions.shape[1]
            before = torch.ones(count, dtype=torch.bool, device=positions.device).tril(self.first)[None, None]
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
        # another object, because one that refers to itself is released late
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


class AttentionType(ABC):
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
    refuses_content: ClassVar[str] = "it belongs to the dot product of query and key"

    # whether it uses only rotated queries and keys, so that projections can absorb the basis of the scheme
    takes_basis: ClassVar[bool] = False
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

    def __init_subclass__(cls) -> None:
        """Accept the old name of an attribute."""
        super().__init_subclass__()
        renamed.members(cls, {"takes_frame": "takes_basis"})

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


def names() -> list[str]:
    """The names of all kinds: of the files in `ape_cli/attention/`, here and in folders on the Python path."""
    return plugins.names(sys.modules["ape_cli.attention"])


@cache
def load(name: str) -> type[AttentionType]:
    """The class of a kind. Raises `UsageError` for an unknown name, and `ApeError` if its file cannot be imported."""
    return plugins.load(sys.modules["ape_cli.attention"], name, AttentionType)  # type: ignore[type-abstract]


def options(name: str) -> dict[str, Any]:
    """The options of a kind and their defaults.

    >>> from ape_cli import attention
    >>> attention.options("clustered")
    {'clusters': 16, 'iterations': 5}
    """
    return part_options.options(load(name))


def make(name: str = "dot", **settings: Any) -> AttentionType:
    """Create a kind by name, with its options. Raises `UsageError` for an unknown name or option."""
    chosen = part_options.settings(f"attention {name}", settings, options(name))
    made = load(name)(**chosen)
    vars(made)["_made_with"] = chosen  # also in a frozen dataclass
    return made


def check(attention_type: AttentionType, scheme: type[Scheme], decay: float) -> None:
    """Check that a kind can take a scheme and a locality bias. `decay`: the locality bias c.

    Raises `CombinationError`, with the reason, if it cannot.
    """
    for claim, applies in (
        ("refuses_bias", scheme.bias is not Scheme.bias),
        ("refuses_content", scheme.dot_only or scheme.logits is not Scheme.logits),
        ("refuses_decay", decay != 1.0),
    ):
        if applies and (reason := getattr(attention_type, claim)):
            if claim == "refuses_decay":
                what, fix = f"the locality bias decay={decay:g}", "another `attention`, or `decay=1`"
            else:
                what = f"the {'scores' if scheme.overrides('logits') else 'bias'} of scheme {plugins.name_of(scheme)}"
                fix = "another `attention`, or another scheme (`ape schemes`)"
            allowed = f"with {', '.join(name for name in names() if not getattr(load(name), claim))}"
            what = f"attention {attention_type.name} cannot take {what}: {reason}"
            raise CombinationError(what, allowed=allowed, fix=fix)


def check_role(scheme: type[Scheme], role: Role, *, images: bool = False) -> None:
    """Check that a scheme acts in an attention of this role. Raises `CombinationError`, with the reason, if not.

    `images`: whether the model is for images, which have no decoder.
    """
    if scheme.causal_only and role != "decoder":
        where = "between decoder and encoder" if role == "cross" else "in an encoder"
        what = f"scheme {plugins.name_of(scheme)} acts only in causal attention: {scheme.causal_only}"
        fix = f"{'' if images else '`model=decoder`, or '}another scheme (`ape schemes`)"
        raise CombinationError(what, got=f"attention {where}", fix=fix)


def check_without_encoder(attention_type: AttentionType, scheme: type[Scheme] | None = None) -> None:
    """Check that a kind of attention, and a scheme in a decoder-only model, act without an encoder.

    Raises `CombinationError` if one does not.
    """
    if scheme is not None and scheme.needs_encoder:
        what = f"scheme {plugins.name_of(scheme)} acts only in a model with an encoder: {scheme.needs_encoder}"
        raise CombinationError(
            what, got="a decoder-only model", fix="`model=encoder-decoder`, or another scheme (`ape schemes`)"
        )
    if attention_type.mixes_queries:
        what = f"attention {attention_type.name} acts only in an encoder, and this model has none"
        raise CombinationError(what, fix="`model=encoder-decoder` with encoder layers, or another `attention`")

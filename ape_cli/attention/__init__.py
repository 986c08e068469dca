"""Kinds of attention, each a single file, and the multi-head layer that holds one.

A kind receives the scheme, the unrotated projections of each head, and an `AttentionContext`, which specifies who may
attend to whom:

    attend(scheme, q, k, v, context, dropout)    [B, H, M, K], [B, H, N, K], [B, H, N, K] -> [B, H, M, K]

A kind calls the hooks of the scheme itself, because not all kinds rotate at the same point. `dot` is that of the paper
(sections 2 and 4.2): its logits are (q k) / √K, times decay, plus bias, plus mask. A kind that cannot support a bias, a
locality bias or a term of the dot product refuses such schemes, with the reason.

Shapes: B batch, H heads, M queries, N keys, K channels of a head, D channels of the model.

The logits of three tokens with equal queries and keys, with a locality bias of 0.5 to the power of the distance:

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
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from ape_cli.attention._kind import (
    AttentionContext,
    AttentionKind,
    additive,
    adjusted,
    average,
    backend,
    logits,
    require_plain,
    rotated,
    scaled,
    scores_of,
    use_backend,
)
from ape_cli.attention._layers import LinearLayer
from ape_cli.attention._rules import RULES
from ape_cli.core import part_options, plugins
from ape_cli.core.errors import UsageError
from ape_cli.position import FastScheme, Role, Scheme
from ape_cli.position._matmul import affine
from ape_cli.runs.config import check_names

__all__ = [
    "RULES",
    "Attention",
    "AttentionContext",
    "AttentionKind",
    "Past",
    "RoleError",
    "additive",
    "adjusted",
    "average",
    "backend",
    "check",
    "check_role",
    "check_without_encoder",
    "load",
    "logits",
    "make",
    "names",
    "options",
    "require_plain",
    "rotated",
    "scaled",
    "scores_of",
    "use_backend",
]

__path__ = pkgutil.extend_path(__path__, __name__)  # folders ape_cli/attention elsewhere on the path add files


class Past:
    """Keys and values, [B, H, N, K] each, that an attention has already projected. They are unrotated.

    If the layers of the scheme have modules, it also holds their output for the keys, [B, N, ...].
    """

    def __init__(self) -> None:
        """Start with none."""
        self._both: tuple[Tensor, Tensor] | None = None
        self._content: Tensor | None = None

    @property
    def count(self) -> int:
        """The number of tokens, N."""
        return 0 if self._both is None else self._both[0].shape[2]

    def extended(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of the tokens that follow, and return those of all. [B, H, N, K] each"""
        if self._both is not None:
            k, v = (torch.cat(pair, dim=2) for pair in zip(self._both, (k, v), strict=True))
        self._both = k, v
        return k, v

    def move_to_end(self, lengths: Tensor) -> None:
        """Move the tokens of each row, which come first, to the end. lengths: int64 [B], their number in each row."""
        assert self._both is not None
        rows = torch.arange(len(lengths), device=lengths.device)[:, None]
        place = (torch.arange(self.count, device=lengths.device) + lengths[:, None]) % self.count  # [B, N]
        k, v = (x.transpose(1, 2)[rows, place].transpose(1, 2) for x in self._both)
        self._both = k, v
        self._content = None if self._content is None else self._content[rows, place]

    def extended_content(self, content: Tensor) -> Tensor:
        """Add the content of the tokens that follow, and return that of all. [B, N, ...]"""
        self._content = content if self._content is None else torch.cat([self._content, content], dim=1)
        return self._content


class Attention(nn.Module):
    """A multi-head attention layer.

    - `scheme`: the scheme that is passed to each call; it determines width and number of heads.
    - `dropout`: the dropout probability of the attention weights.
    - `kind`: the kind of attention; None for `dot`.
    - `role` and `index`: where the layer acts, and its number in the stack. They identify its parameters in the scheme.

    Raises `UsageError` if the kind does not support the scheme, or if the scheme does not act in this role.

    >>> import torch
    >>> from ape_cli import attention, position
    >>> scheme = position.make("none", d_model=16, heads=4)
    >>> layer = attention.Attention(scheme, dropout=0.0)
    >>> context = scheme.context(torch.tensor([[1, 2, 3]]), causal=True)
    >>> x = torch.randn(1, 3, 16)
    >>> layer(x, x, scheme, attention.AttentionContext.of(scheme, context, context)).shape
    torch.Size([1, 3, 16])
    """

    def __init__(
        self,
        scheme: Scheme,
        dropout: float,
        kind: AttentionKind | None = None,
        role: Role = "decoder",
        index: int = 0,
    ) -> None:
        """Create the projections."""
        super().__init__()
        d_model = scheme.shape.d_model
        self.heads, self.dropout, self.kind = scheme.shape.heads, dropout, kind or make()
        check(self.kind, type(scheme), scheme.shape.decay)
        check_role(type(scheme), role)
        self.key_in_scheme = scheme.attach(role, index)
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.out = LinearLayer(d_model, d_model)

    def forward(
        self, x: Tensor, memory: Tensor, scheme: Scheme, context: AttentionContext, past: Past | None = None
    ) -> Tensor:
        """Attend from x to memory. x: [B, M, D], memory: [B, N, D] -> [B, M, D]

        `past` holds the keys and values of the tokens before `memory`. They are attended to as well, and those of
        `memory` are appended. The keys of `context` cover both.
        """
        q, k, v, context = self._projected(x, memory, scheme, context)
        if past is not None:
            k, v = past.extended(k, v)
            if context.content is not None:
                context = context.with_content(past.extended_content(context.content))
        rate = self.dropout if self.training else 0.0
        heads = self.kind.attend(scheme, q, k, v, context, rate)
        return self.out(heads.transpose(1, 2).flatten(-2))

    def weights(self, x: Tensor, memory: Tensor, scheme: Scheme, context: AttentionContext) -> Tensor:
        """The attention weights, without dropout. x: [B, M, D], memory: [B, N, D] -> [B, H, M, N]

        Every kind is linear in the values, so its output for the rows of the identity as values is the weights.
        """
        q, k, _, context = self._projected(x, memory, scheme, context)
        one_each = torch.eye(k.shape[2], dtype=k.dtype, device=k.device).expand(*k.shape[:2], -1, -1)
        return self.kind.attend(scheme, q, k, one_each, context, 0.0)

    def _projected(
        self, x: Tensor, memory: Tensor, scheme: Scheme, context: AttentionContext
    ) -> tuple[Tensor, Tensor, Tensor, AttentionContext]:
        """Queries [B, H, M, K], keys and values [B, H, N, K], unrotated, and the context to attend in.

        x: [B, M, D], memory: [B, N, D]
        """
        q_frame = k_frame = None
        if self.kind.takes_frame and isinstance(scheme, FastScheme):
            context = context.in_frame
            q_frame, k_frame = scheme.frame(context.q_context), scheme.frame(context.k_context)
        query, others = (self.query, q_frame), [(self.key, k_frame), (self.value, None)]
        if x.is_cuda and memory is x:  # a GPU computes one large product faster than several small ones
            q, k, v = self._project(x, query, *others)
        elif x.is_cuda:
            q, k, v = *self._project(x, query), *self._project(memory, *others)
        else:
            q, k, v = *self._project(x, query), *(self._project(memory, one)[0] for one in others)
        if self.key_in_scheme in scheme.layers:
            context = context.with_content(scheme.layers[self.key_in_scheme](memory))
        return q, k, v, context

    def _project(self, x: Tensor, *layers: tuple[nn.Linear, Tensor | None]) -> list[Tensor]:
        """Project x by each of the layers, in a frame [H, K, K] if there is one.

        [B, N, D] -> [B, H, N, K] for each layer
        """
        weights, biases = zip(*(self._framed(layer, frame) for layer, frame in layers), strict=True)
        if len(layers) == 1:
            projected = affine(x, weights[0], biases[0])
        else:
            projected = affine(x, torch.cat(weights), torch.cat(biases))
        return [part.transpose(1, 2) for part in projected.unflatten(-1, (len(layers), self.heads, -1)).unbind(2)]

    def _framed(self, layer: nn.Linear, frame: Tensor | None) -> tuple[Tensor, Tensor]:
        """The weight and the bias of a layer in a frame F: (x W' + b) F = x (F' W)' + b F."""
        weight: Tensor = layer.weight
        bias: Tensor = layer.bias
        if frame is not None:
            basis = frame.mT.to(weight.dtype)
            weight = (basis @ weight.unflatten(0, (self.heads, -1))).flatten(0, 1)
            bias = (basis @ bias.view(self.heads, -1, 1)).flatten()
        return weight, bias


def names() -> list[str]:
    """The names of all kinds: of the files in `ape_cli/attention/`, here and in folders on the Python path."""
    return plugins.names(sys.modules[__name__])


@cache
def load(name: str) -> type[AttentionKind]:
    """The class of a kind. Raises `UsageError` for an unknown name, and `ApeError` if its file cannot be imported."""
    return plugins.load(sys.modules[__name__], name, AttentionKind)  # type: ignore[type-abstract]


def options(name: str) -> dict[str, Any]:
    """The options of a kind and their defaults.

    >>> from ape_cli import attention
    >>> attention.options("clustered")
    {'clusters': 16, 'iterations': 5}
    """
    found = part_options.options(load(name))
    check_names(f"attention {name}", found)
    return found


def make(name: str = "dot", **settings: Any) -> AttentionKind:
    """Create a kind by name, with its options. Raises `UsageError` for an unknown name or option."""
    chosen = part_options.settings(f"attention {name}", settings, options(name))
    kind = load(name)(**chosen)
    vars(kind)["_made_with"] = chosen  # also in a frozen dataclass
    return kind


def check(kind: AttentionKind, scheme: type[Scheme], decay: float) -> None:
    """Check that a kind can take a scheme and a locality bias. `decay`: the locality bias c.

    Raises `UsageError`, with the reason, if it cannot.
    """
    for claim, applies in (
        ("refuses_bias", scheme.bias is not Scheme.bias),
        ("refuses_content", scheme.dot_only or scheme.overrides("logits")),
        ("refuses_decay", decay != 1.0),
    ):
        if applies and (reason := getattr(kind, claim)):
            if claim == "refuses_decay":
                what, fix = f"the locality bias decay={decay:g}", "another `attention`, or `decay=1`"
            else:
                what = f"the {'scores' if scheme.overrides('logits') else 'bias'} of scheme {plugins.name_of(scheme)}"
                fix = "another `attention`, or another scheme (`ape schemes`)"
            allowed = f"with {', '.join(name for name in names() if not getattr(load(name), claim))}"
            what = f"attention {kind.name} cannot take {what}: {reason}"
            raise UsageError(what, allowed=allowed, fix=fix, field="attention")


class RoleError(UsageError):
    """A scheme or a kind of attention does not act in a part of the model."""


def check_role(scheme: type[Scheme], role: Role, *, images: bool = False) -> None:
    """Check that a scheme acts in an attention of this role. Raises `RoleError`, with the reason, if it does not.

    `images`: whether the model is for images, which have no decoder.
    """
    if scheme.causal_only and role != "decoder":
        where = "between decoder and encoder" if role == "cross" else "in an encoder"
        what = f"scheme {plugins.name_of(scheme)} acts only in causal attention: {scheme.causal_only}"
        fix = f"{'' if images else '`model=decoder`, or '}another scheme (`ape schemes`)"
        raise RoleError(what, got=f"attention {where}", fix=fix)


def check_without_encoder(kind: AttentionKind) -> None:
    """Check that a kind of attention acts in a model without an encoder. Raises `RoleError` if it does not."""
    if kind.mixes_queries:
        what = f"attention {kind.name} acts only in an encoder, and this model has none"
        raise RoleError(what, fix="`model=encoder-decoder` with encoder layers, or another `attention`")

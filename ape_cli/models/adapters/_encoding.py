"""What the families of models share: the encoding that is put into a model, and attention with it.

Shapes: B batch, H heads, M queries, N keys, K channels of a head, C factors of a product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ape_cli import attention
from ape_cli.core.errors import UsageError
from ape_cli.position import Context, Scheme
from ape_cli.structure import Seq

Arguments = tuple[tuple[Any, ...], dict[str, Any]]  # of a module, by place and by name
Given = tuple[Tensor | None, Tensor | None]  # the positions of `Encoding.at`
# by encoding, in this thread or task
_given: ContextVar[Mapping[nn.Module, Given]] = ContextVar("positions", default=MappingProxyType({}))


@dataclass(frozen=True)
class Encoded:
    """What a layer needs of a forward pass: the scheme and the contexts of its positions."""

    scheme: Scheme
    tokens: Context  # positions of the tokens of the stack
    source: Context | None = None  # positions of the encoder's tokens, for a decoder


class Encoding(nn.Module):
    """The scheme of a model, as `use_scheme` returns it.

    Positions along a sequence are implied. For other structures, `at` supplies the positions of each forward pass.
    """

    def __init__(self, scheme: Scheme) -> None:
        """Keep the scheme as a part of the model."""
        super().__init__()
        self.scheme = scheme
        self._open: dict[int, Given] = {}  # of all threads; a compiled model reads it, as it cannot read `_given`

    @contextmanager
    def at(self, positions: Tensor, target_positions: Tensor | None = None) -> Iterator[None]:
        """Within the block, tokens are at these positions: int64 [B or 1, N], or [B or 1, N, C] for a product.

        A start token is at position 0. Fewer tokens take the first positions, so that a model can generate token by
        token. `target_positions` are the positions of the decoder of a T5. Each thread and each asynchronous task has
        positions of its own. A compiled model takes positions from one thread at a time.

            with encoding.at(torch.tensor([[1, 2, 3, 6, 7]])):  # five nodes of a binary tree
                model(input_ids)

        Raises `UsageError` for positions of another dtype or shape.
        """
        given = positions, target_positions
        for of_stack in (p for p in given if p is not None):
            self.scheme.check_positions(of_stack)
        before = _given.set({**_given.get(), self: given})
        self._open[id(given)] = given
        try:
            yield
        finally:
            del self._open[id(given)]
            _given.reset(before)

    def positions(self, count: int, usual: Tensor, *, target: bool = False) -> Tensor:
        """The positions of `count` tokens: those that `at` was given, else the usual ones. int64 [B or 1, N (, C)]

        Raises `UsageError` if there are too few, or none for a structure that is no sequence.
        """
        if torch.compiler.is_dynamo_compiling():
            given = [(None, None), *self._open.values()][-1]
        else:
            given = _given.get().get(self, (None, None))
        positions = given[target]
        if positions is None:
            if self.scheme.structure != Seq():
                arguments = "positions, target_positions" if target else "positions"
                what = f"the positions of the tokens are missing: structure {self.scheme.structure}"
                raise UsageError(what, fix=f"with encoding.at({arguments}): model(…)")
            return usual
        if positions.shape[1] < count:
            raise UsageError(f"there are fewer positions than tokens: {positions.shape[1]} for {count} tokens")
        return positions[:, :count].to(usual.device)


def attend(
    encoded: Encoded, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, cross: bool, dropout: float
) -> Tensor:
    """Softmax attention with the scheme. q [B, H, M, K], k and v [B, H, N, K], unrotated -> [B, M, H K]

    q is scaled so that its scores are those of the model after division by sqrt(K). `mask`: added to the scores,
    broadcasts to [B, H, M, N]; hidden keys have the lowest number of its dtype, or -inf. A query whose keys are all
    hidden gets 0. `cross`: whether keys are the encoder's. Raises `UsageError` if no mask hides later tokens.
    """
    keys = encoded.source if cross else encoded.tokens
    assert keys is not None
    if keys.causal and (mask is None or not mask.is_floating_point()):
        fix = 'model.set_attn_implementation("eager"), which `use_scheme` sets'
        raise UsageError("no mask hides later tokens", got="another `attn_implementation`", allowed="eager", fix=fix)
    scores = attention.logits(encoded.scheme, q, k, encoded.tokens, keys)
    empty = None if mask is None else mask.amax(-1, keepdim=True) <= torch.finfo(mask.dtype).min
    if mask is not None and empty is not None:
        scores = scores + mask.masked_fill(empty, 0.0)
    exact = torch.promote_types(scores.dtype, torch.float32)
    weights = torch.softmax(scores, dim=-1, dtype=exact).to(v.dtype)
    mixed = functional.dropout(weights, dropout) @ v
    return (mixed if empty is None else mixed.masked_fill(empty, 0.0)).transpose(1, 2).flatten(2)


def split_heads(x: Tensor, heads: int, groups: int = 1) -> Tensor:
    """The projections of each head, repeated for each head of a group. [B, N, H K] -> [B, H groups, N, K]"""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2).repeat_interleave(groups, dim=1)


def refuse_cache(arguments: dict[str, Any]) -> None:
    """Check the arguments of an attention module. Raises `UsageError` if there is a key-value cache."""
    if any(arguments.get(name) is not None for name in ("cache", "past_key_values")):
        raise UsageError("this attention has no key-value cache", got="use_cache=True", fix="use_cache=False")

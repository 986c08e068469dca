"""Encodings in models of the library `transformers`, in place of their own: Llama and T5, one file for each.

`use_scheme` changes a model: its attention modules are replaced by modules with the same projections, which get their
encoding from a scheme. The weights and their names stay, except that those of the model's own encoding are gone. The
parameters of the scheme become parameters of the model.

The library itself is not imported. Tested with transformers 5.24.

Shapes: B batch, H heads, M queries, N keys, K channels of a head, D channels of the model, C factors of a product.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from ape_cli import attention, position
from ape_cli.core.errors import UsageError, pick
from ape_cli.position import Context, Scheme
from ape_cli.structure import Seq, Structure


@dataclass(frozen=True)
class Encoded:
    """What a layer needs of a forward pass: the scheme and the contexts of its positions."""

    scheme: Scheme
    own: Context  # positions of the tokens of the stack
    source: Context | None = None  # positions of the encoder's tokens, for a decoder


class Encoding(nn.Module):
    """The scheme of a model, and the positions of its tokens. `use_scheme` returns it.

    Positions along a sequence need not be given. For other structures, `at` gives them to the forward passes within a
    block.
    """

    def __init__(self, scheme: Scheme) -> None:
        """Keep the scheme as a part of the model."""
        super().__init__()
        self.scheme = scheme
        self._given: tuple[Tensor | None, Tensor | None] = None, None

    @contextmanager
    def at(self, positions: Tensor, target_positions: Tensor | None = None) -> Iterator[None]:
        """Within the block, tokens are at these positions: int64 [B or 1, N], or with an axis [.., C] for products.

        0 is the position of a start token. If there are fewer tokens, they take the first positions, so that a model
        can generate token by token. `target_positions`: of the decoder of a T5.

            with encoding.at(torch.tensor([[1, 2, 3, 6, 7]])):  # five nodes of a binary tree
                model(input_ids)
        """
        before, self._given = self._given, (positions, target_positions)
        try:
            yield
        finally:
            self._given = before

    def positions(self, count: int, usual: Tensor, *, target: bool = False) -> Tensor:
        """The positions of `count` tokens: those that `at` was given, else the usual ones. int64 [B or 1, N (, C)]

        Raises `UsageError` if there are too few, or none for a structure that is no sequence.
        """
        found = self._given[target]
        if found is None:
            if self.scheme.structure != Seq():
                which = "target_positions" if target else "positions"
                raise UsageError(
                    f"the {which} of the tokens are missing",
                    got=f"structure {self.scheme.structure}",
                    allowed="structure seq, or positions",
                    fix=f"with encoding.at({'positions, ' if target else ''}{which}): model(…)",
                )
            return usual
        if found.shape[1] < count:
            raise UsageError(
                "there are fewer positions than tokens", got=f"{found.shape[1]} for {count} tokens", fix="give more"
            )
        return found[:, :count].to(usual.device)


def use_scheme(
    model: Any,
    scheme: str,
    *,
    structure: str | Structure | None = None,
    max_size: int = 100,
    decay: float | None = None,
    generator: torch.Generator | None = None,
    **options: Any,
) -> Encoding:
    """Use a scheme in place of the encoding of a Llama or T5 of `transformers`. The model is changed.

    `model`: any model class of one of these families. The other arguments are those of `position.make`; the width and
    the number of heads are the model's.

    - **Llama**: no RoPE. Tokens have positions 0, 1, …, or the model's `position_ids`.
    - **T5**: no relative bias. The encoder's tokens have positions 1, 2, …, and the decoder's 0, 1, …, as in the models
      of this package. The scheme also acts in the attention between decoder and encoder. T5 does not scale scores by
      1/√K, and that stays: each term of the scheme has the size that it would have if T5's queries were √K times larger
      and then scaled.

    Schemes that act on embeddings act on those that the first layer is given. Scores are computed in full, and
    attention weights are not returned. There is no key-value cache, so `use_cache` is switched off.

    Raises `UsageError` for a model of another family, and if the model is changed already or cannot have the scheme.
    """
    from ape_cli.models.adapters import _llama, _t5

    families: dict[str, Family] = {"llama": _llama, "t5": _t5}
    kind = str(getattr(getattr(model, "config", None), "model_type", type(model).__name__))
    family = families[pick("kind of model", kind, families)]
    width, heads, head_dim = family.sizes(model.config)
    if any(isinstance(part, Encoding) for part in model.modules()):
        raise UsageError("the model has a scheme already", got=kind, fix="build the model again from its configuration")
    made = position.make(scheme, heads * head_dim, heads, structure, max_size, decay, generator, **options)
    if made.overrides("embed") and width != heads * head_dim:
        raise UsageError(
            f"{scheme} adds positions to embeddings, whose width is not that of the heads",
            got=f"width {width}, {heads} heads of {head_dim} channels",
            allowed=f"width {heads * head_dim}",
            fix="change the configuration of the model, or choose a scheme that acts in attention (`ape schemes`)",
        )
    weight = next(model.parameters())
    encoding = Encoding(made.to(weight.device, weight.dtype))
    for part in model.modules():  # the stacks of a model may have configurations of their own
        if hasattr(part, "set_attn_implementation"):
            part.set_attn_implementation("eager")  # so that masks are complete, and added to scores
            part.config.use_cache = False
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.use_cache = False
    family.install(model, encoding)
    return encoding


def attend(
    encoded: Encoded, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, cross: bool, dropout: float
) -> Tensor:
    """Softmax attention with the scheme. q [B, H, M, K], k and v [B, H, N, K], unrotated -> [B, M, H K]

    q is scaled so that its scores are those of the model after division by sqrt(K). `mask`: added to the scores,
    broadcasts to [B, H, M, N]. `cross`: whether keys are the encoder's.
    """
    keys = encoded.source if cross else encoded.own
    assert keys is not None
    scores = attention.logits(encoded.scheme, q, k, encoded.own, keys)
    if mask is not None:
        scores = scores + mask
    exact = torch.promote_types(scores.dtype, torch.float32)
    weights = torch.softmax(scores, dim=-1, dtype=exact).to(v.dtype)
    return (functional.dropout(weights, dropout) @ v).transpose(1, 2).flatten(2)


def split_heads(x: Tensor, heads: int, groups: int = 1) -> Tensor:
    """The projections of each head, repeated for each head of a group. [B, N, H K] -> [B, H groups, N, K]"""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2).repeat_interleave(groups, dim=1)


def refuse_cache(given: dict[str, Any]) -> None:
    """Check the arguments of an attention module. Raises `UsageError` if there is a key-value cache."""
    if any(given.get(name) is not None for name in ("cache", "past_key_values")):
        raise UsageError("this attention has no key-value cache", got="use_cache=True", fix="use_cache=False")


class Family(Protocol):
    """What a module for a family of models has. (For type checkers; a module is one.)"""

    def sizes(self, config: Any) -> tuple[int, int, int]:
        """Width, heads and channels of a head."""

    def install(self, model: Any, encoding: Encoding) -> None:
        """Put an encoding into a model."""

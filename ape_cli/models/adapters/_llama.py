"""Llama: a decoder that turns queries and keys by RoPE. Its rotary module gives positions to all layers.

Shapes: B batch, N tokens, D channels of the model.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from torch import Tensor, nn

from ape_cli.models.adapters._encoding import Encoded, Encoding, attend, refuse_cache, split_heads
from ape_cli.position.rope import SCALINGS


def sizes(config: Any) -> tuple[int, int, int]:
    """Width, heads and channels of a head."""
    heads = config.num_attention_heads
    return config.hidden_size, heads, getattr(config, "head_dim", None) or config.hidden_size // heads


def own_options(config: Any) -> dict[str, Any]:
    """The options of `rope` in a Llama. It pairs channels i and i + K/2. The others are fields of the model.

    A type that `rope` does not have is returned as it is, for `rope` to refuse. Fields that a type does not have are
    left out, because a Llama does not read them either.
    """
    given = {name: value for name, value in config.rope_parameters.items() if value is not None}
    scaling, rope_type = None, given.get("rope_type", "default")
    if rope_type != "default":
        read = {field.name for field in fields(SCALINGS[rope_type])} if rope_type in SCALINGS else set()
        scaling = {"rope_type": rope_type} | {name: value for name, value in given.items() if name in read}
        if rope_type == "yarn" and "factor" not in scaling:
            scaling["factor"] = config.max_position_embeddings / scaling["original_max_position_embeddings"]
    return {"interleaved": False, "base": float(given["rope_theta"]), "scaling": scaling}


def install(model: Any, encoding: Encoding) -> None:
    """Replace the rotary module and the attention of each layer."""
    decoder = getattr(model, model.base_model_prefix, model)
    decoder.rotary_emb = _Positions(encoding)
    for layer in decoder.layers:
        layer.self_attn = _LlamaAttention(layer.self_attn)
    decoder.layers[0].register_forward_pre_hook(_embed, with_kwargs=True)


class _Positions(nn.Module):
    """Takes the place of the rotary module, whose result all layers are given."""

    def __init__(self, encoding: Encoding) -> None:
        """Keep the encoding, whose parameters become those of the model."""
        super().__init__()
        self.encoding = encoding

    def forward(self, x: Tensor, position_ids: Tensor) -> Encoded:
        """The encoding of tokens at their positions. x: [B, N, D], position_ids: int64 [B or 1, N]"""
        scheme = self.encoding.scheme
        return Encoded(scheme, scheme.context(self.encoding.positions(x.shape[1], position_ids), causal=True))


def _embed(
    layer: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Before the first layer: add positions to the embeddings, if the scheme does that."""
    encoded = named["position_embeddings"]
    return (encoded.scheme.embed(arguments[0], encoded.tokens), *arguments[1:]), named


class _LlamaAttention(nn.Module):
    """The attention of a layer, with its own projections."""

    def __init__(self, old: Any) -> None:
        """Take the projections of the layer's attention."""
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = old.q_proj, old.k_proj, old.v_proj, old.o_proj
        self.train(old.training)
        self.heads, self.groups = old.config.num_attention_heads, old.num_key_value_groups
        self.scale, self.dropout = old.scaling * old.head_dim**0.5, old.attention_dropout

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: Encoded,
        attention_mask: Tensor | None = None,
        **named: Any,
    ) -> tuple[Tensor, None]:
        """Attend among the tokens. [B, N, D] -> the same, and None for the weights"""
        refuse_cache(named)
        q = split_heads(self.q_proj(hidden_states), self.heads) * self.scale
        k, v = (
            split_heads(project(hidden_states), self.heads // self.groups, self.groups)
            for project in (self.k_proj, self.v_proj)
        )
        rate = self.dropout if self.training else 0.0
        return self.o_proj(attend(position_embeddings, q, k, v, attention_mask, cross=False, dropout=rate)), None

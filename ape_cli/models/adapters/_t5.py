"""T5: an encoder and a decoder whose first layers add a relative bias to all scores.

Each stack gives its arguments on to its layers. A hook before the stack adds the encoding to them.

Shapes: B batch, N source tokens, M target tokens, D channels of the model.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ape_cli.models.adapters._encoding import Arguments, Encoded, Encoding, attend, refuse_cache, split_heads


def sizes(config: Any) -> tuple[int, int, int]:
    """Width, heads and channels of a head."""
    return config.d_model, config.num_heads, config.d_kv


def own_options(config: Any) -> dict[str, Any]:
    """None: the bias of a T5 is learned, so a scheme cannot take its place without further training."""
    return {}


def install(model: Any, encoding: Encoding) -> None:
    """Replace the attention of each layer of both stacks. A model may have an encoder alone."""
    base = getattr(model, model.base_model_prefix, model)
    base.encoding = encoding
    for stack in (base.encoder, getattr(base, "decoder", None)):
        if stack is None:
            continue
        stack.encoded_by = (encoding,)  # in a tuple, so that its parameters are those of one module alone
        stack.register_forward_pre_hook(_encode, with_kwargs=True)
        stack.block[0].register_forward_pre_hook(_embed, with_kwargs=True)
        for block in stack.block:
            block.layer[0].SelfAttention = _T5Attention(block.layer[0].SelfAttention)
            if stack.is_decoder:
                block.layer[1].EncDecAttention = _T5Attention(block.layer[1].EncDecAttention)


def _encode(stack: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Arguments:
    """Before a stack: add the encoding of its tokens to its arguments."""
    tokens = named.get("inputs_embeds")
    if tokens is None:
        tokens = named["input_ids"] if "input_ids" in named else arguments[0]
    (encoding,), source, memory = stack.encoded_by, None, named.get("encoder_hidden_states")
    if memory is not None:
        source = encoding.scheme.context(_places(encoding, memory, 1))
    at = _places(encoding, tokens, 0 if stack.is_decoder else 1, target=stack.is_decoder)
    positions = encoding.scheme.context(at, None, stack.is_decoder, source)
    return arguments, named | {"encoded": Encoded(encoding.scheme, positions, source)}


def _places(encoding: Encoding, tokens: Tensor, first: int, *, target: bool = False) -> Tensor:
    """The positions of tokens, [B, N, ...], which usually are `first` and those that follow. int64 [1, N]"""
    count = tokens.shape[1]
    return encoding.positions(count, torch.arange(first, first + count, device=tokens.device)[None], target=target)


def _embed(block: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> Arguments:
    """Before the first layer: add positions to the embeddings, if the scheme does that."""
    encoded = named["encoded"]
    return (encoded.scheme.embed(arguments[0], encoded.tokens), *arguments[1:]), named


class _T5Attention(nn.Module):
    """Self-attention or cross-attention of a layer, with its own projections."""

    def __init__(self, old: Any) -> None:
        """Take the projections of the layer's attention."""
        super().__init__()
        self.q, self.k, self.v, self.o = old.q, old.k, old.v, old.o
        self.train(old.training)
        self.heads, self.dropout = old.n_heads, old.dropout
        self.scale = old.key_value_proj_dim**0.5  # T5's scores have no factor 1/sqrt(K)

    def forward(
        self,
        hidden_states: Tensor,
        encoded: Encoded,
        mask: Tensor | None = None,
        key_value_states: Tensor | None = None,
        position_bias: None = None,
        **named: Any,
    ) -> tuple[Tensor, None, None]:
        """Attend. [B, M, D] -> the same, and None for the bias that layers share and for the weights

        `key_value_states`: [B, N, D], the encoder's output, for cross-attention.
        """
        refuse_cache(named)
        cross = key_value_states is not None
        memory = hidden_states if key_value_states is None else key_value_states
        q, k, v = (
            split_heads(project(x), self.heads)
            for project, x in ((self.q, hidden_states), (self.k, memory), (self.v, memory))
        )
        rate = self.dropout if self.training else 0.0
        return self.o(attend(encoded, q * self.scale, k, v, mask, cross=cross, dropout=rate)), None, None

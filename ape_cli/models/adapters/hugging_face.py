"""Schemes in models of the library `transformers`, in place of their own encoding: Llama and T5, a file for each.

`use_scheme` changes a model: it replaces the attention modules by modules with the same projections that take their
encoding from a scheme. Weights keep their names; only those of the model's own encoding are removed. The parameters of
the scheme become parameters of the model.

The library itself is not imported. Tested with transformers 5.24.

Shapes: B batch, H heads, M queries, N keys, K channels of a head, D channels of the model, C factors of a product.
"""

from __future__ import annotations

from typing import Any

import torch

from ape_cli import position
from ape_cli.core.errors import UsageError, pick
from ape_cli.models.adapters import _llama, _t5
from ape_cli.models.adapters._encoding import Encoding
from ape_cli.structure import Structure


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
    """Replace the encoding of a Llama or T5 model of `transformers` by a scheme. The model is changed in place.

    `model` is any model class of these families. The other arguments are those of `position.make`; width and number of
    heads come from the model.

    - **Llama** loses RoPE. Tokens are at positions 0, 1, …, or at the model's `position_ids`. By default, `rope` has
      `interleaved=False`, and the base and the scaling of the model, so a pretrained model computes the same function
      as before. This holds for the types `default`, `linear`, `llama3` and `yarn`; `rope` refuses the others.
    - **T5** loses its relative bias. The encoder's tokens are at positions 1, 2, … and the decoder's at 0, 1, …, as in
      the models of this package. The scheme also acts in the attention between decoder and encoder. T5 still does not
      scale scores by 1/√K. Terms of the scheme have the size that they would have if T5's queries were √K times larger
      and the scores were then scaled.

    Schemes that act on embeddings act on the input of the first layer. Scores are computed in full, and attention
    weights are not returned. There is no key-value cache, so `use_cache` is switched off. Padding may be on either
    side, but positions count it: if it is on the left, pass `position_ids` to a Llama, and positions to a T5 with
    `Encoding.at`. A query that sees no key gets 0. Gradient checkpointing is supported, reentrant or not.

    Raises `UsageError` for a model of another family, for a model that already has a scheme, for a scheme that the
    model does not support, and for a scheme with parameters if the weights of the model are on the meta device, where
    their initial values would be lost.

        from transformers import LlamaConfig, LlamaForCausalLM

        model = LlamaForCausalLM(LlamaConfig(hidden_size=64, num_attention_heads=4, num_hidden_layers=2))
        encoding = adapters.use_scheme(model, "alibi")
    """
    families: dict[str, Any] = {"llama": _llama, "t5": _t5}  # modules with the same functions
    model_type = str(getattr(getattr(model, "config", None), "model_type", type(model).__name__))
    family = families[pick("kind of model", model_type, families)]
    width, heads, head_dim = family.sizes(model.config)
    if any(isinstance(part, Encoding) for part in model.modules()):
        raise UsageError(
            "the model already has a scheme", got=model_type, fix="build the model again from its configuration"
        )
    own = family.own_options(model.config)
    if own.keys() <= position.options(scheme).keys():
        options = own | options
    installed = position.make(scheme, heads * head_dim, heads, structure, max_size, decay, generator, **options)
    if installed.overrides("embed") and width != heads * head_dim:
        what = f"{scheme} adds positions to embeddings: their width is {width}, that of the heads {heads * head_dim}"
        raise UsageError(what, fix="choose a scheme that acts in attention (`ape schemes`)")
    obstacle = installed.obstacle("encoder-decoder" if model_type == "t5" else "decoder")
    if installed.overrides("layer") or obstacle:
        reason = obstacle or "its layers have parameters that read the tokens"
        raise UsageError(
            f"{scheme} cannot be put into this model: {reason}", got=model_type, fix="choose another scheme"
        )
    weight = next(model.parameters())
    if weight.is_meta and installed.state_dict():
        what = f"{scheme} has parameters, whose initial values would be lost with a model that has no weights yet"
        raise UsageError(what, got="weights on the meta device", fix="load the model first, then call `use_scheme`")
    encoding = Encoding(installed.to(weight.device, weight.dtype))
    for part in model.modules():  # the stacks of a model may have configurations of their own
        if hasattr(part, "set_attn_implementation"):
            part.set_attn_implementation("eager")  # so that masks are complete, and added to scores
            part.config.use_cache = False
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.use_cache = False
    family.install(model, encoding)
    return encoding

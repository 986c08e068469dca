"""Encodings in models of the library `transformers`, in place of their own: Llama and T5, one file for each.

`use_scheme` changes a model: its attention modules are replaced by modules with the same projections, which get their
encoding from a scheme. The weights and their names stay, except that those of the model's own encoding are gone. The
parameters of the scheme become parameters of the model.

The library itself is not imported. Tested with transformers 5.24.

Shapes: B batch, H heads, M queries, N keys, K channels of a head, D channels of the model, C factors of a product.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch

from ape_cli import position
from ape_cli.core.errors import UsageError, pick
from ape_cli.models.adapters import _llama, _t5
from ape_cli.models.adapters._encoding import Encoding
from ape_cli.structure import Structure


class Family(Protocol):
    """What a module for a family of models has. (For type checkers; a module is one.)"""

    def sizes(self, config: Any) -> tuple[int, int, int]:
        """Width, heads and channels of a head."""

    def own_options(self, config: Any) -> dict[str, Any]:
        """The options with which a scheme of this package is the model's own encoding."""

    def install(self, model: Any, encoding: Encoding) -> None:
        """Put an encoding into a model."""


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

    - **Llama**: no RoPE. Tokens have positions 0, 1, …, or the model's `position_ids`. By default, `rope` has
      `interleaved=False` and the base of the model, so a pretrained model computes the same function as before.
    - **T5**: no relative bias. The encoder's tokens have positions 1, 2, …, and the decoder's 0, 1, …, as in the models
      of this package. The scheme also acts in the attention between decoder and encoder. T5 does not scale scores by
      1/√K, and that stays: each term of the scheme has the size that it would have if T5's queries were √K times larger
      and then scaled.

    Schemes that act on embeddings act on those that the first layer is given. Scores are computed in full, and
    attention weights are not returned. There is no key-value cache, so `use_cache` is switched off.

    Raises `UsageError` for a model of another family, and if the model is changed already or cannot have the scheme.
    """
    families: dict[str, Family] = {"llama": _llama, "t5": _t5}
    kind = str(getattr(getattr(model, "config", None), "model_type", type(model).__name__))
    family = families[pick("kind of model", kind, families)]
    width, heads, head_dim = family.sizes(model.config)
    if any(isinstance(part, Encoding) for part in model.modules()):
        raise UsageError("the model has a scheme already", got=kind, fix="build the model again from its configuration")
    own = family.own_options(model.config)
    if own.keys() <= position.options(scheme).keys():
        options = own | options
    installed = position.make(scheme, heads * head_dim, heads, structure, max_size, decay, generator, **options)
    if installed.overrides("embed") and width != heads * head_dim:
        what = f"{scheme} adds positions to embeddings: their width is {width}, that of the heads {heads * head_dim}"
        raise UsageError(what, fix="choose a scheme that acts in attention (`ape schemes`)")
    if installed.overrides("layer") or (installed.causal_only and kind == "t5"):
        reason = installed.causal_only if kind == "t5" else "its layers have parameters that read the tokens"
        raise UsageError(f"{scheme} cannot be put into this model: {reason}", got=kind, fix="choose another scheme")
    weight = next(model.parameters())
    encoding = Encoding(installed.to(weight.device, weight.dtype))
    for part in model.modules():  # the stacks of a model may have configurations of their own
        if hasattr(part, "set_attn_implementation"):
            part.set_attn_implementation("eager")  # so that masks are complete, and added to scores
            part.config.use_cache = False
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.use_cache = False
    family.install(model, encoding)
    return encoding

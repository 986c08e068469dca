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
from typing import TYPE_CHECKING

from ape_cli.attention._kind import (
    AttentionContext,
    AttentionType,
    check,
    check_role,
    check_without_encoder,
    load,
    make,
    names,
    options,
)
from ape_cli.attention._layers import Attention, KVCache
from ape_cli.attention._rules import RULES
from ape_cli.attention.dot import (
    additive,
    adjusted,
    average,
    backend,
    checked_context,
    logits,
    require_plain,
    rotated,
    scaled,
    scores_of,
    use_backend,
)
from ape_cli.core import renamed

__all__ = [
    "RULES",
    "Attention",
    "AttentionContext",
    "AttentionType",
    "KVCache",
    "additive",
    "adjusted",
    "average",
    "backend",
    "check",
    "check_role",
    "check_without_encoder",
    "checked_context",
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

if not TYPE_CHECKING:
    __getattr__ = renamed.attributes(__name__, {"AttentionKind": "AttentionType", "Past": "KVCache"})

"""The choice of the implementation that computes softmax attention. Only this module decides it.

| backend | what it is | when it is chosen |
|---|---|---|
| `plain` | matrix products and a softmax | with a locality bias; on a CPU also with dropout, learned bias or bfloat16 |
| `fused` | torch's `scaled_dot_product_attention` | everything else |

`fused` cannot multiply scores, which a locality bias needs. On a CPU its fused kernel has neither dropout nor a
gradient for a bias, and torch then takes a slower path of its own. In bfloat16 it is several times as slow there as
products and a softmax, which are chosen below 1,024 queries, where scores need little memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from ape_cli.core.errors import UsageError

_LONG = 1024  # queries from which on the scores of bfloat16 are not stored
NAMES = ("plain", "fused")
_requested: ContextVar[str | None] = ContextVar("_requested", default=None)


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Compute softmax attention with one backend within this context: `plain` or `fused`.

    Results stay the same up to rounding. Raises `UsageError` for an unknown name. Attention raises `UsageError` if
    the backend cannot compute what is asked of it.

        with attention.use_backend("plain"):
            scores = model(batch)
    """
    if name not in NAMES:
        raise UsageError("unknown attention backend", got=repr(name), allowed=", ".join(NAMES), fix="choose one")
    token = _requested.set(name)
    try:
        yield
    finally:
        _requested.reset(token)


def choose(q: Tensor, bias: Tensor | None, decay: Tensor | None, dropout: float) -> str:
    """The backend for queries [B, H, M, K], a bias [B or 1, H or 1, M, N] and a locality bias [B or 1, 1, M, N].

    Raises `UsageError` if the requested backend cannot compute this.
    """
    requested = _requested.get()
    if requested == "fused" and decay is not None:
        raise UsageError("backend fused cannot compute this attention: it has no locality bias", fix="use plain")
    if requested is not None:
        return requested
    learned = bias is not None and bias.requires_grad
    on_cpu = q.device.type == "cpu"
    slow = dropout > 0 or learned or (q.dtype == torch.bfloat16 and q.shape[-2] < _LONG)
    return "plain" if decay is not None or (on_cpu and slow) else "fused"

"""Hooks of a scheme within `torch.compile`, compared with the same hooks outside of it, also for nightly tests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ape_cli import attention
from ape_cli.position import Context, Scheme
from tests.position.test_contract import D, H, K, places

Hooks = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Context | None], list[Tensor]]


@contextmanager
def without_logs() -> Iterator[None]:
    """Without torch's traces of compilation, which pytest would collect: half of the time."""
    logging.disable(logging.DEBUG)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def hooks_of(scheme: Scheme) -> Hooks:
    """All hooks as one function of positions, mask, queries, keys, tokens, and perhaps the context."""
    scheme.attach("decoder", 0)
    scheme.layers.double()

    def hooks(at: Tensor, mask: Tensor, q: Tensor, k: Tensor, x: Tensor, context: Context | None) -> list[Tensor]:
        here = scheme.context(at, mask, causal=bool(scheme.causal_only)) if context is None else context
        content = scheme.content("decoder_0", x)
        scores = attention.logits(scheme, q, k, here, here, content)
        return [scheme.embed(x, here), scheme.rotate(q, here, "query"), scores.tril() if scheme.causal_only else scores]

    return hooks


SHAPES = ((3, 6), (1, 6), (3, 4))


@without_logs()
def compare(
    scheme: Scheme,
    expression: str,
    *,
    inside: bool,
    shapes: Sequence[tuple[int, int]] = SHAPES,
    **how: Any,
) -> None:
    """Compare values and gradients.

    `inside`: whether the context is made in the compiled function. `shapes`: rows of positions, which are 1 or 3, and
    tokens of each row, one shape after the other. `how`: arguments of `torch.compile`.
    """
    torch.compiler.reset()
    plain = hooks_of(scheme)
    compiled = torch.compile(plain, fullgraph=True, **how)
    dtype = next(scheme.parameters(), torch.empty(0, dtype=torch.float64)).dtype
    for rows, count in shapes:
        draws = torch.Generator().manual_seed(count)
        at = places(expression, rows=rows, count=count)
        mask = torch.arange(count) < torch.tensor([[count - 2], [count], [count]])
        q, k = torch.randn(2, 3, H, count, K, dtype=dtype, generator=draws)
        x = torch.randn(3, count, D, dtype=dtype, generator=draws)
        inputs = [each.requires_grad_() for each in (q, k, x)]
        results = []
        for run in (plain, compiled):
            context = None if inside else scheme.context(at, mask, causal=bool(scheme.causal_only))
            out = run(at, mask, *inputs, context)  # type: ignore[arg-type]
            total = sum((each * torch.linspace(1, 2, each.numel(), dtype=dtype).view_as(each)).sum() for each in out)
            of = [*inputs, *scheme.parameters()]
            results.append([*out, *torch.autograd.grad(total, of, materialize_grads=True)])  # type: ignore[arg-type]
        for one, other in zip(*results, strict=True):
            assert one.shape == other.shape
            assert one.dtype == other.dtype
            assert (one - other).abs().max() <= 1e-9 * max(1.0, float(one.detach().abs().max()))

"""All backends of softmax attention compute the same, and the default choice among them is the measured one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ape_cli import attention, position
from ape_cli.attention import AttentionContext
from ape_cli.attention.dot import Dot
from ape_cli.core.errors import UsageError
from ape_cli.position import Context, Scheme
from ape_cli.position.alibi import Alibi
from tests.attention.plain import D, H

SEQUENCES = [name for name in position.names() if position.load(name).reads(position.make("none").structure)]


def scheme_of(name: str, decay: float) -> Scheme:
    generator = torch.Generator().manual_seed(4)
    return position.make(name, D, H, structure="seq", max_size=8, decay=decay, generator=generator)


def vectors(seed: int, count: int) -> Tensor:
    return torch.randn(2, H, count, D // H, generator=torch.Generator().manual_seed(seed))


class Single(Alibi):
    """A bias in float32, whatever the dtype of the queries is."""

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor:
        """The bias of ALiBi."""
        return super().bias(q, q_context, k_context).float()


@pytest.mark.parametrize("hidden", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@torch.no_grad()
def test_a_bias_of_another_dtype_is_added_as_it_is(dtype: torch.dtype, hidden: bool) -> None:
    """torch's function takes a float32 mask beside float64 queries without an error. From 8 keys on, it is wrong."""
    scheme, count = Single(scheme_of("alibi", 1.0).shape), 17
    mask = torch.ones(2, count, dtype=torch.bool)
    mask[1, 9:] = False
    here = scheme.context(torch.arange(1, count + 1)[None], mask if hidden else None, causal=hidden)
    link = AttentionContext.of(scheme, here, here)
    q, k, v = (vectors(seed, count).to(dtype) for seed in (1, 2, 3))
    bias = scheme.bias(q, link.q_context, link.k_context)
    logits = torch.einsum("bhmk,bhnk->bhmn", q.double(), k.double()) / (D // H) ** 0.5 + bias.double()
    if link.mask is not None:
        logits = logits.masked_fill(~link.mask, float("-inf"))
    wanted = torch.softmax(logits, dim=-1) @ v.double()
    error = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.05}[dtype]
    for backend in ("plain", "fused"):
        with attention.use_backend(backend):
            found = Dot().attend(scheme, q, k, v, link, 0.0)
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=error)


def test_what_is_chosen() -> None:
    q, some = torch.zeros(1, H, 4, D // H), torch.zeros(1, 1, 4, 4)
    learned = some.clone().requires_grad_()
    on_gpu = q.to("meta")  # any device that is not a CPU
    for queries, bias, decay, dropout, wanted in (
        (q, None, None, 0.0, "fused"),
        (q, some, None, 0.0, "fused"),
        (q, learned, None, 0.0, "plain"),
        (q, None, None, 0.1, "plain"),
        (q, None, some, 0.0, "plain"),
        (q.bfloat16(), None, None, 0.0, "plain"),
        (torch.zeros(1, H, 1024, D // H, dtype=torch.bfloat16), None, None, 0.0, "fused"),
        (on_gpu.bfloat16(), None, None, 0.0, "fused"),
        (on_gpu, None, None, 0.1, "fused"),
        (on_gpu, learned, None, 0.0, "fused"),
        (on_gpu, None, some, 0.0, "plain"),
    ):
        assert attention.backend(queries, bias, decay, dropout) == wanted


def test_a_backend_says_what_it_cannot_compute() -> None:
    q, some = torch.zeros(1, H, 4, D // H, requires_grad=True), torch.zeros(1, 1, 4, 4)
    with attention.use_backend("fused"), pytest.raises(UsageError, match="locality bias"):
        attention.backend(q, None, some, 0.0)
    with pytest.raises(UsageError, match="plain, fused"), attention.use_backend("flash"):
        raise AssertionError
    assert attention.backend(q, None, None, 0.0) == "fused", "a request ends with its context"

"""Products by two libraries: the same function, in float32 arithmetic, chosen by the number of multiplications."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ape_cli.attention._layers import affine, matmul
from ape_cli.core import runtime
from ape_cli.position import _matmul
from ape_cli.position._grouped import _bmm
from ape_cli.position._matmul import RULES, Rule

NEVER, ALWAYS = Rule(), Rule(0, 0, 0)
LAYERS = [(3, 5, 7), (256, 128, 128), (1_280, 128, 23), (4_096, 512, 128)]  # rows, input and output channels
PRODUCTS = [(6, 1, 4, 5), (512, 10, 32, 10), (256, 33, 64, 33), (64, 100, 32, 90)]  # batch, M, K, N


@pytest.fixture(params=[NEVER, ALWAYS], ids=["usual", "onednn"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Rule:
    """Use one library for products of all sizes. oneDNN is left out on processors where it would round."""
    if request.param is ALWAYS and runtime.has_instructions("amx_tile"):
        pytest.skip("oneDNN rounds on this processor, where it is not used")
    monkeypatch.setattr(_matmul, "rule", lambda: request.param)
    chosen: Rule = request.param
    return chosen


def drawn(*shapes: tuple[int, ...]) -> list[Tensor]:
    """Standard normal tensors that require gradients."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(*shape, generator=generator).requires_grad_() for shape in shapes]


def with_gradients(apply: Callable[..., Tensor], *given: Tensor) -> list[Tensor]:
    """The result of a product, and the gradients of its factors for a fixed gradient of the result."""
    out = apply(*given)
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(2)).to(out.dtype)
    return [out, *torch.autograd.grad(out, given, grad)]


def close(apply: Callable[..., Tensor], usual: Callable[..., Tensor], *given: Tensor) -> None:
    """Compare with float64. The error of factors rounded to bfloat16, by hand here, would be noticed."""
    ours, exact = with_gradients(apply, *given), with_gradients(usual, *(x.double() for x in given))
    for found, wanted in zip(ours, exact, strict=True):
        assert found.shape == wanted.shape
        assert found.dtype == torch.float32
        assert (found - wanted).norm() < 2e-6 * wanted.norm()
    rounded = usual(*(x.bfloat16().double() for x in given))
    assert (rounded - exact[0]).norm() > 1e-4 * exact[0].norm()


@pytest.mark.parametrize("size", LAYERS, ids=str)
def test_a_linear_layer_is_computed_in_float32(library: Rule, size: tuple[int, int, int]) -> None:
    rows, channels, out = size
    x, weight, bias = drawn((1, rows, channels), (out, channels), (out,))
    close(affine, functional.linear, x, weight, bias)
    close(affine, functional.linear, x, weight)


@pytest.mark.parametrize("size", PRODUCTS, ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_attention_are_computed_in_float32(
    library: Rule, size: tuple[int, int, int, int], transposed: bool
) -> None:
    count, m, k, n = size
    a, b = drawn((2, count // 2, m, k), (2, count // 2, n, k) if transposed else (2, count // 2, k, n))
    if transposed:
        close(lambda a, b: matmul(a, b.mT), lambda a, b: a @ b.mT, a, b)
    else:
        close(matmul, torch.matmul, a, b)


def test_the_number_of_multiplications_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    by_onednn = _matmul.by_onednn

    def noted():  # type: ignore[no-untyped-def] # a context manager
        used.append(True)
        return by_onednn()

    monkeypatch.setattr(_matmul, "rule", lambda: Rule(linear=24, attention=48, operators=96))
    monkeypatch.setattr(_matmul, "by_onednn", noted)
    x, weight, other = (one.detach() for one in drawn((2, 3, 4), (1, 4), (2, 4, 2)))
    out = x.new_empty(2, 3, 4)

    def count(work: Callable[[], object]) -> int:
        used.clear()
        work()
        return len(used)

    assert count(lambda: affine(x, weight)) == count(lambda: matmul(x, other)) == 1
    assert count(lambda: _bmm(x, torch.ones(2, 4, 4), out)) == 1
    assert count(lambda: affine(x[:, :2], weight)) == count(lambda: matmul(x[:, :2], other)) == 0
    assert count(lambda: _bmm(x[:, :2], torch.ones(2, 4, 4), out[:, :2])) == 0
    with torch.autocast("cpu", torch.bfloat16):
        assert count(lambda: affine(x, weight)) == count(lambda: matmul(x, other)) == 0
    double = x.double(), weight.double(), other.double()
    assert count(lambda: affine(*double[:2])) == count(lambda: matmul(double[0], double[2])) == 0
    strided = x.mT.contiguous().mT
    assert count(lambda: affine(strided, weight)) == 0
    assert count(lambda: matmul(x, other[:1])) == 0  # a batch that broadcasts


def test_the_rule_follows_from_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    for maker, family, flags, wanted in (
        ("AuthenticAMD", "25", "avx512f", RULES[25]),
        ("AuthenticAMD", "26", "avx512f", RULES[26]),
        ("AuthenticAMD", "26", "avx512f amx_tile", NEVER),
        ("AuthenticAMD", "27", "avx512f", NEVER),
        ("GenuineIntel", "25", "avx512f", NEVER),
    ):
        facts = {"vendor_id": maker, "cpu family": family, "flags": flags}
        monkeypatch.setattr(runtime, "_entries", lambda facts=facts: facts)
        assert _matmul.rule.__wrapped__() == wanted
    monkeypatch.setattr(runtime, "_entries", dict)
    assert _matmul.rule.__wrapped__() == NEVER
    monkeypatch.setattr(runtime, "_entries", lambda: {"vendor_id": "AuthenticAMD", "cpu family": "25"})
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert _matmul.rule.__wrapped__() == NEVER

"""Linear layers by two libraries: the same function, in float32 arithmetic, chosen by the number of rows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ape_cli.attention import _layers
from ape_cli.attention._layers import affine
from ape_cli.core import runtime

SIZES = [(1_000, 64, 96), (1_280, 128, 23), (4_096, 512, 128)]  # rows, input and output channels


@pytest.fixture(autouse=True)
def _by_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use oneDNN on processors of all makers, except where it would round: there, the usual library is tested."""
    if not runtime.has_instructions("amx_tile"):
        monkeypatch.setattr(_layers, "library", lambda: "oneDNN")


def drawn(rows: int, channels: int, out: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns an input, a weight, a bias and the gradient of the output."""
    generator = torch.Generator().manual_seed(rows)
    x, weight, bias, grad = (
        torch.randn(*shape, generator=generator) for shape in ((rows, channels), (out, channels), (out,), (rows, out))
    )
    return x[None].requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), grad[None]


def results(apply, x: Tensor, weight: Tensor, bias: Tensor, grad: Tensor) -> list[Tensor]:
    """Returns the output of a layer and the three gradients."""
    given = [x, weight, bias]
    out = apply(*given)
    return [out, *torch.autograd.grad(out, given, grad)]


@pytest.mark.parametrize("size", SIZES)
def test_the_arithmetic_is_float32(size: tuple[int, int, int]) -> None:
    """Factors rounded to bfloat16, by hand here, have errors that the bound notices."""
    x, weight, bias, grad = drawn(*size)
    exact = results(functional.linear, x.double(), weight.double(), bias.double(), grad.double())
    ours = results(affine, x, weight, bias, grad)
    rounded = functional.linear(x.bfloat16().float(), weight.bfloat16().float(), bias)
    for found, wanted in zip(ours, exact, strict=True):
        assert found.shape == wanted.shape
        assert (found - wanted).norm() < 2e-6 * wanted.norm()
    assert (rounded - exact[0]).norm() > 1e-4 * exact[0].norm()


def test_without_a_bias_and_without_gradients() -> None:
    x, weight, _, grad = drawn(1_500, 32, 40)
    out = affine(x, weight)
    assert torch.allclose(out, functional.linear(x, weight), atol=1e-5)
    (of_weight,) = torch.autograd.grad(out, [weight], grad)
    assert torch.allclose(of_weight, grad[0].T @ x[0], atol=1e-3)
    with torch.no_grad():
        assert torch.equal(affine(x, weight), out)


def test_other_layers_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise AssertionError("oneDNN was used")

    x, weight, bias, _ = drawn(2_000, 16, 16)
    monkeypatch.setattr(_layers, "library", lambda: "oneDNN")
    monkeypatch.setattr(_layers._Linear, "apply", refuse)
    with pytest.raises(AssertionError):
        affine(x, weight, bias)
    with torch.autocast("cpu", torch.bfloat16):
        assert affine(x, weight, bias).dtype == torch.bfloat16
    for few in (x[:, :999], x.double(), x.mT.contiguous().mT):
        affine(few, weight.to(few.dtype), bias.to(few.dtype))
    monkeypatch.setattr(_layers, "library", lambda: "MKL")
    affine(x, weight, bias)


def test_nothing_is_left_switched_on() -> None:
    before = torch.backends.mkldnn.matmul.fp32_precision
    x, weight, bias, grad = drawn(1_000, 8, 8)
    results(affine, x, weight, bias, grad)
    assert torch.backends.mkldnn.matmul.fp32_precision == before
    with pytest.raises(RuntimeError):
        affine(x, weight[:, :7], bias)
    assert torch.backends.mkldnn.matmul.fp32_precision == before


def test_the_library_follows_from_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = _layers.library.__wrapped__()
    assert found in ("oneDNN", _layers.usual_library())
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    for maker, flags, library in (
        ("AuthenticAMD", "avx512f", "oneDNN"),
        ("AuthenticAMD", "avx512f amx_tile", _layers.usual_library()),
        ("GenuineIntel", "avx512f", _layers.usual_library()),
    ):
        facts = {"vendor_id": maker, "flags": flags}
        monkeypatch.setattr(runtime, "_entries", lambda facts=facts: facts)
        assert _layers.library.__wrapped__() == library
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert _layers.library.__wrapped__() == _layers.usual_library()

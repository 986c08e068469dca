"""Weights of 16 bits: what the hooks compute at far positions and deep nodes, compared with float64."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from ape_cli import attention, position
from ape_cli.evaluation.laws._subjects import examples
from ape_cli.position import Scheme
from ape_cli.position.orthogonal import Orthogonal
from ape_cli.structure import Tree, parse_structure

HALF = [torch.bfloat16, torch.float16]
FAR = [0, 1, 2, 255, 256, 257, 300, 511, 1023, 4097, 9999, 50_001, 65_521, 99_998, 99_999, 100_000]
READS = [(name, expression) for name in position.names() for expression in examples(name)]
MOST = 0.02  # relative error; a number of bfloat16 has 0.004


def far(expression: str) -> Tensor:
    """Far positions: steps up to 100,000, and nodes down to the deepest level, leftmost and others. [1, N (, C)]"""

    def one(simple: Any) -> Tensor:
        if not isinstance(simple, Tree):
            return torch.tensor(FAR)
        levels = torch.linspace(0, simple.max_depth, len(FAR)).long().tolist()
        starts = [simple.level_start(depth) for depth in levels]
        return torch.tensor([start + (start // 3 if i % 2 else 0) for i, start in enumerate(starts)])

    axes = [one(simple) for simple in parse_structure(expression).simple]
    return (axes[0] if len(axes) == 1 else torch.stack(axes, dim=-1))[None]


def make(name: str, expression: str, **options: Any) -> Scheme:
    """A scheme with a single head of 64 channels, and the module of a layer."""
    size = 64 // parse_structure(expression).branching if name == "tree" else 100  # type: ignore[attr-defined]
    given = {"max_size": size, "decay": 1.0} | options
    scheme = position.make(name, 64, 1, structure=expression, generator=torch.Generator().manual_seed(3), **given)
    scheme.attach("decoder", 0)
    return scheme


def hooks(scheme: Scheme, at: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
    """What all hooks return for vectors of this dtype, and the gradients of the parameters."""
    causal = bool(scheme.causal_only)
    context = scheme.context(at, causal=causal)
    generator = torch.Generator().manual_seed(5)
    shape = 2, 1, at.shape[1], 64
    q, k, x = (torch.randn(shape, generator=generator).bfloat16().to(dtype) for _ in range(3))
    content = scheme.content("decoder_0", x[:, 0])
    scores = attention.logits(scheme, q, k, context, context, content)
    found = {
        "embed": scheme.embed(x[:, 0], context),
        "rotate": scheme.rotate(q, context, "query"),
        "bias": scheme.bias(q, context, context),
        "logits": scores.tril() if causal else scores,
    }
    return {name: value for name, value in found.items() if value is not None}


def error(found: Tensor, expected: Tensor) -> float:
    """The largest relative error of a vector, or of a row of terms."""
    assert found.isfinite().all()
    found, expected = found.detach().double(), expected.detach()
    apart = (found - expected).norm(dim=-1)
    return float((apart / expected.norm(dim=-1).clamp(min=1e-9)).max())


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize(("name", "expression"), READS)
def test_hooks_at_far_positions(name: str, expression: str, dtype: torch.dtype) -> None:
    """Whole models have 16 bits, or the scheme alone. float64 has the same rounded weights.

    xPos refuses float16, which cannot hold its factors, and positions from 28,000 on.
    """
    if name == "xpos" and dtype == torch.float16:
        return
    at = far(expression).clamp(max=28_000) if name == "xpos" else far(expression)
    for options in ({}, *position.load(name).variants):
        scheme = make(name, expression, **({} if "decay" in options else options)).to(dtype)
        expected = hooks(copy.deepcopy(scheme).double(), at, torch.float64)
        for of_vectors in (dtype, torch.float32):
            found = hooks(scheme, at, of_vectors)
            for hook, value in found.items():
                assert value.dtype == of_vectors, hook
                assert error(value, expected[hook]) < MOST, (hook, options)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("expression", ["tree(2)", "tree(3)"])
def test_operators_keep_lengths_at_every_depth(expression: str, dtype: torch.dtype) -> None:
    """On the leftmost path, rounding errors of one operator would add up."""
    tree = parse_structure(expression)
    assert isinstance(tree, Tree)
    scheme = make("orthogonal-tree", expression).to(dtype)
    at = torch.tensor([[tree.level_start(depth) for depth in range(tree.max_depth + 1)]])
    q = torch.randn(1, 1, at.shape[1], 64, generator=torch.Generator().manual_seed(1)).to(dtype)
    expected = copy.deepcopy(scheme).double()
    turned = scheme.rotate(q, scheme.context(at), "query")
    assert error(turned, expected.rotate(q.double(), expected.context(at), "query")) < MOST
    assert (turned.double().norm(dim=-1) / q.double().norm(dim=-1) - 1).abs().max() < 0.01


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("expression", ["tree(2)", "seq", "cyclic(6)", "grid(2)"])
def test_autocast_rounds_no_operators(expression: str, dtype: torch.dtype) -> None:
    """The frame of all positions, and the generators, are the same within autocast."""
    scheme = make("orthogonal", expression)
    assert isinstance(scheme, Orthogonal)
    at = far(expression)
    plain = scheme.basis(scheme.context(at))
    with torch.autocast("cpu", dtype):
        found = scheme.basis(scheme.context(at))
        rounded = hooks(scheme, at, dtype)
    assert (plain is None) == (found is None)
    assert plain is None or found is None or torch.equal(plain, found)
    expected = hooks(copy.deepcopy(scheme).double(), at, torch.float64)
    for hook, value in rounded.items():
        assert error(value, expected[hook]) < MOST, hook

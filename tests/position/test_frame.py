"""Frames: the part of a rotation that is the same at all positions can be moved into the projections."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ape_cli import attention, position
from ape_cli.attention import Attention, AttentionContext
from ape_cli.attention.dot import Dot
from ape_cli.position import Context
from ape_cli.position.orthogonal import Orthogonal
from tests.position.draws import draw

D, H, K = 32, 4, 8
SCHEMES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "sequence": ("orthogonal-seq", "seq", {}),
    "grid": ("orthogonal-grid", "grid(2)", {}),
    "ring": ("orthogonal", "cyclic(6)", {}),
    "sequence of trees": ("orthogonal", "seq*tree(2)", {}),
    "trees of a ring": ("orthogonal", "tree(2)*cyclic(3)", {}),
    "three axes": ("orthogonal", "grid(3)", {}),
    "two sequences and a ternary tree": ("orthogonal", "seq*seq*tree(3)", {}),
    "queries alone": ("orthogonal", "seq", {"side": "query"}),
    "keys alone": ("orthogonal", "seq*tree(2)", {"side": "key"}),
}


class WithoutFrame(Dot):
    takes_basis = False


def make(name: str, decay: float = 1.0) -> Orthogonal:
    kind, expression, options = SCHEMES[name]
    generator = torch.Generator().manual_seed(3)
    scheme = position.make(kind, D, H, structure=expression, decay=decay, generator=generator, **options)
    assert isinstance(scheme, Orthogonal)
    return scheme.double()


def places(scheme: Orthogonal, rows: int, count: int, seed: int) -> Tensor:
    shape = (rows, count, scheme.structure.width) if scheme.structure.width > 1 else (rows, count)
    return torch.randint(0, 30, shape, generator=torch.Generator().manual_seed(seed))


# In attention


def layer(kind: attention.AttentionType, scheme: Orthogonal) -> Attention:
    """Weights and biases as after training: none of them is 0."""
    made = Attention(scheme, 0.0, kind).double()
    with torch.no_grad():
        for i, parameter in enumerate(made.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=10 + i) * D**-0.5)
    return made


def run(kind: attention.AttentionType, scheme: Orthogonal, contexts: tuple[Context, Context]) -> dict[str, Tensor]:
    """The output, and the gradients of inputs, projections and generators."""
    made = layer(kind, scheme)
    before = {name: value.clone() for name, value in made.state_dict().items()}
    x, memory = draw(2, 5, D).requires_grad_(), draw(2, 7, D, seed=2).requires_grad_()
    out = made(x, memory, scheme, AttentionContext.of(scheme, *contexts))
    leaves = {"x": x, "memory": memory} | dict(made.named_parameters()) | dict(scheme.named_parameters())
    grads = torch.autograd.grad((out * draw(2, 5, D, seed=3)).sum(), list(leaves.values()))
    assert list(made.state_dict()) == list(before)
    assert all(torch.equal(value, before[name]) for name, value in made.state_dict().items())
    return {"output": out} | dict(zip(leaves, grads, strict=True))


def plainly(scheme: Orthogonal, contexts: tuple[Context, Context]) -> Tensor:
    """The same layer with einsum and `rotate` only. -> [2, 5, D]"""
    made, x, memory = layer(Dot(), scheme), draw(2, 5, D), draw(2, 7, D, seed=2)
    q, k, v = (f(z).unflatten(-1, (H, K)) for f, z in ((made.query, x), (made.key, memory), (made.value, memory)))
    q = scheme.rotate(q.transpose(1, 2), contexts[0], "query")
    k = scheme.rotate(k.transpose(1, 2), contexts[1], "key")
    scores = torch.einsum("bhmk,bhnk->bhmn", q, k) / K**0.5
    decay = scheme.decay(*contexts)
    weights = (scores if decay is None else scores * decay).softmax(-1)
    return made.out(torch.einsum("bhmn,bnhk->bmhk", weights, v).flatten(2))


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("decay", [1.0, 0.9])
def test_projections_in_the_frame_change_nothing(name: str, decay: float) -> None:
    """The paths with and without the frame have the same output and gradients, and the same parameters."""
    for rows in [1, 2]:
        check_projections(name, decay, rows)


def check_projections(name: str, decay: float, rows: int) -> None:
    found = []
    for kind in (Dot(), WithoutFrame()):
        scheme = make(name, decay)
        source = scheme.context(places(scheme, rows, 7, 2))
        contexts = scheme.context(places(scheme, rows, 5, 1), shared_with=source), source
        found.append(run(kind, scheme, contexts))
        assert torch.allclose(found[-1]["output"], plainly(scheme, contexts), atol=1e-6 if decay < 1 else 1e-12)
    for label, value in found[0].items():
        assert torch.allclose(value, found[1][label], rtol=1e-9, atol=1e-11), label
        # 0 up to rounding: the bias of keys is a shift that positions do not rotate
        assert value.abs().max() > 1e-6 or label == "key.bias", label

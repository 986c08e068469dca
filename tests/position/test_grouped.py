"""Grouped products, compared with one product for each vector: values and gradients, several stages, shared tables."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ape_cli import position
from ape_cli.position import _branches
from ape_cli.position._branches import Branches
from ape_cli.position.orthogonal import Orthogonal
from tests.position.draws import draw

H, K = 2, 4


# Operators of paths


def make(branching: int = 2, name: str = "orthogonal") -> Orthogonal:
    scheme = position.make(
        name, H * K, H, structure=f"tree({branching})", generator=torch.Generator().manual_seed(3), decay=1.0
    )
    assert isinstance(scheme, Orthogonal)
    assert isinstance(scheme.operators, Branches)
    return scheme.double()


def branches(heap: int, branching: int) -> list[int]:
    """The path of a node from the root down; empty for the root and for SOS."""
    path: list[int] = []
    while heap > 1:
        path.insert(0, (heap - 2) % branching)
        heap = (heap - 2) // branching + 1
    return path


def path_by_path(scheme: Orthogonal, x: Tensor, at: Tensor) -> Tensor:
    """W_b1 (W_b2 ... (W_bL x)), with torch's own exponential. [B, H, N, K], [B or 1, N] -> [B, H, N, K]"""
    free = scheme.operators.free
    w = torch.linalg.matrix_exp(free - free.mT)
    rows = []
    for b in range(x.shape[0]):
        for n in range(x.shape[2]):
            vector = x[b, :, n]  # [H, K]
            for branch in reversed(branches(int(at[b % at.shape[0], n]), w.shape[0])):
                vector = torch.einsum("hij,hj->hi", w[branch], vector)
            rows.append(vector)
    return torch.stack(rows).unflatten(0, (x.shape[0], -1)).transpose(1, 2)


def results(scheme: Orthogonal, x: Tensor, turned: Tensor) -> list[Tensor]:
    """Compare values, and gradients of vectors and generators."""
    weights = draw(*turned.shape, seed=7)
    grads = torch.autograd.grad((turned * weights).sum(), [x, *scheme.parameters()], materialize_grads=True)
    return [turned.detach(), *grads]


def with_reach(monkeypatch: pytest.MonkeyPatch, vectors: int, branching: int, reach: int) -> None:
    """Tables of paths of up to `reach` steps have 1 + k + ... + k^reach entries, and a spare one."""
    paths = sum(branching**i for i in range(reach + 1)) + 1
    monkeypatch.setattr(_branches, "_SHARE", vectors / (paths + 0.5))


def mixed(branching: int, rows: int = 3, count: int = 14) -> Tensor:
    """Positions with padding, SOS and the root, siblings shared by many and by few, and some deep paths."""
    drawn = torch.randint(2, 2000, (rows, count), generator=torch.Generator().manual_seed(branching))
    drawn[:, 0], drawn[:, 1] = 0, 1
    drawn[:, 2:5] = torch.tensor([2, 2, 3])
    drawn[0, 10:] = 0  # padding
    drawn[-1, 5:7] = drawn[0, 7:9]
    return drawn


POSITIONS = {
    "many": (2, mixed(2), 3),
    "ternary": (3, mixed(3), 3),
    "one line for a batch": (2, mixed(2, rows=1), 4),
    "one ternary line for a batch": (3, mixed(3, rows=1), 2),
    "all at the root": (2, torch.tensor([[0, 1, 0], [1, 1, 0]]), 2),
    "one vector": (2, torch.tensor([[0b1_0110_1]]), 1),
    "one vector for a batch": (3, torch.tensor([[500]]), 5),
    "children of the root": (2, torch.tensor([[2, 3, 2, 3, 2]]), 1),
    "one path": (2, torch.full((2, 3), 0b1_101_110), 2),
    "steps of the tables' lengths": (2, torch.tensor([[2, 7, 8, 15, 16, 63, 64, 127, 0]]), 1),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_every_reach_is_the_product_along_the_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in pieces of 1, 2 and 3 steps and as a whole: values, and gradients of vectors and generators."""
    branching, at, batch = POSITIONS[name]
    scheme = make(branching)
    x = draw(batch, H, at.shape[1], K).requires_grad_()
    expected = results(scheme, x, path_by_path(scheme, x, at))
    deepest = max(len(branches(int(p), branching)) for p in at.flatten())
    for reach in (1, 2, 3, 20):
        with_reach(monkeypatch, at.numel(), branching, reach)
        context = scheme.context(at)
        assert context.state.reach == max(1, min(reach, deepest))
        assert len(context.state.stages) == -(-deepest // context.state.reach)
        for one, other in zip(results(scheme, x, scheme.rotate_in_basis(x, context, "query")), expected, strict=True):
            assert torch.allclose(one, other, rtol=1e-12, atol=1e-11), reach


# With another context


@pytest.mark.parametrize("encoder", [mixed(2) % 16, torch.tensor([[0, 1], [1, 0], [0, 0]])])
@pytest.mark.parametrize("share", [32, 0])  # 0: tables of whole paths, so that the two would differ without sharing
def test_a_deeper_decoder_beside_its_encoder(encoder: Tensor, share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder uses the encoder's table, which is too short for it, and has the same operators as without it."""
    monkeypatch.setattr(_branches, "_SHARE", share)
    scheme, deeper = make(), mixed(2)
    x = draw(3, H, deeper.shape[1], K).requires_grad_()
    source = scheme.context(encoder)
    beside, alone = scheme.context(deeper, causal=True, shared_with=source), scheme.context(deeper, causal=True)
    assert beside.state.table is source.state.table
    assert alone.state.table is not source.state.table
    assert (alone.state.reach > source.state.reach) == (share == 0)
    found, expected = (results(scheme, x, scheme.rotate_in_basis(x, c, "query")) for c in (beside, alone))
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-12)
    assert torch.allclose(found[0], path_by_path(scheme, x, deeper), rtol=0, atol=1e-12)


@pytest.mark.parametrize("expression", ["seq", "cyclic(5)", "grid(2)", "seq*tree(2)"])
def test_frames_are_shared_beside(expression: str) -> None:
    """For powers and products: the same operators as alone, from the basis of the other context."""
    scheme = position.make("orthogonal", 16, H, structure=expression, generator=torch.Generator().manual_seed(3))
    assert isinstance(scheme, Orthogonal)
    scheme = scheme.double()
    at, to = (
        torch.randint(1, 30, (2, n, scheme.structure.width), generator=torch.Generator().manual_seed(n)).squeeze(-1)
        for n in (5, 7)
    )
    source = scheme.context(at)
    beside, alone = scheme.context(to, shared_with=source), scheme.context(to)
    x = draw(2, H, 7, 8).requires_grad_()
    found, expected = (results(scheme, x, scheme.rotate(x, c, "key")) for c in (beside, alone))
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-12)
    first, second = source.state, beside.state
    if expression == "seq*tree(2)":
        assert second.factors[0].basis is first.factors[0].basis  # the context of the sequence
        assert beside.state.factors[1].table is source.state.factors[1].table
    else:
        assert second.basis is first.basis

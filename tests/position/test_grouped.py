"""Grouped products, compared with one product for each vector: values and gradients, several stages, shared tables."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from ape_cli import position
from ape_cli.position import _branches, _grouped
from ape_cli.position._branches import Branches
from ape_cli.position._grouped import Products, Stage, tiles
from ape_cli.position.orthogonal import Orthogonal

H, K = 2, 4


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# Any operators


def grouped(which: list[list[int]], fixed: bool, operators: Tensor, x: Tensor) -> Tensor:
    """Stages in the order in which they act, in groups of several sizes or in tiles of one size.

    Each has the operator of each vector; -1 means none. x: [T * H, m * K]
    """
    identity = torch.eye(K, dtype=x.dtype).expand(1, H, K, K)
    operators, stages = torch.cat([identity, operators]), []
    for each in which:
        met = np.array(each) + 1
        on = np.flatnonzero(met > 0)
        if fixed:
            stages.append(Stage.of(met, *tiles(met, len(operators)), H))
        else:
            stages.append(Stage.of_some(on, met[on], H, x.device))
    return Products(stages, operators).of_rows(x)


def one_by_one(which: list[list[int]], operators: Tensor, x: Tensor) -> Tensor:
    rows, copies = [], x.shape[1] // K
    for t in range(len(which[0])):
        for h in range(H):
            for m in range(copies):
                vector = x[t * H + h, m * K : (m + 1) * K]
                for each in which:
                    if each[t] >= 0:
                        vector = operators[each[t], h] @ vector
                rows.append(vector)
    return torch.stack(rows).view(len(which[0]) * H, copies * K)


WHICH = [  # the operators of each stage
    # 4, 3 and 1 vectors: the first two operators are in one group, with one empty place
    [[0, 1, 2, 0, 1, 0, 0, 1]],
    [[-1, 2, -1, 2, 4, -1]],  # some vectors have no operator, and some operators have no vector
    [[3]],
    [[-1, 0]],
    [[1, 1, 1, 1, 1]],
    # two stages, of which the first has fewer vectors
    [[-1, 0, -1, 1, 0, 1, 0, 1, 0], [-1, 2, 0, 1, 2, 0, 1, 2, 2]],
    [[-1, -1, 3, -1, 3], [-1, 1, 4, -1, 1], [0, 0, 0, -1, -1]],
]


def given(which: list[list[int]], copies: int) -> tuple[Tensor, Tensor]:
    """Operators that are not orthogonal, so that a wrong transpose is noticed, and vectors."""
    return draw(5, H, K, K).requires_grad_(), draw(len(which[0]) * H, copies * K, seed=2).requires_grad_()


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("which", WHICH)
def test_any_operators(which: list[list[int]], copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, and gradients of both. A nightly test compares the gradients with differences of values too."""
    monkeypatch.setattr(_grouped, "TILE", 4)
    operators, x = given(which, copies)
    weights, expected = draw(*x.shape, seed=3), one_by_one(which, operators, x)
    gradients = torch.autograd.grad((expected * weights).sum(), [x, operators], materialize_grads=True)
    for fixed in (False, True):
        out = grouped(which, fixed, operators, x)
        result = [out, *torch.autograd.grad((out * weights).sum(), [x, operators], materialize_grads=True)]
        for one, other in zip(result, [expected, *gradients], strict=True):
            assert torch.allclose(one, other, rtol=0, atol=1e-12), fixed


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


def test_the_table_is_as_long_as_its_vectors_are_many() -> None:
    """32 vectors for each operator: 1 + 2 + 4 operators from 256 vectors on (one spare), and 15 from 512."""
    for count, reach in ((1, 1), (255, 1), (256, 2), (511, 2), (512, 3), (1024, 4), (4096, 5)):
        at = torch.full((1, count), 32 + 5)  # paths of 5 steps
        assert make().context(at).state.reach == reach, count


@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16])
def test_autocast_keeps_the_dtypes(given: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors and their gradients keep their dtype, and gradients of generators are float32. Two stages."""
    scheme, at = make().float(), mixed(2) % 64
    with_reach(monkeypatch, at.numel(), 2, 3)
    x = draw(3, H, at.shape[1], K).to(given).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        context = scheme.context(at)
        turned = scheme.rotate_in_basis(x, context, "key")
    assert context.state.table.dtype == torch.float32
    assert turned.dtype == given
    turned.float().pow(3).sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == given
    (free,) = scheme.parameters()
    assert free.grad is not None
    assert free.grad.dtype == torch.float32
    exact, wide = make(), x.detach().double().requires_grad_()
    path_by_path(exact, wide, at).pow(3).sum().backward()
    near = 0.03 if given == torch.bfloat16 else 1e-4
    for one, other in ((x.grad, wide.grad), (free.grad, exact.operators.free.grad)):
        assert (one.double() - other).norm() < near * other.norm()


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


def test_generators_are_made_once_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    exponential = _branches.exponential
    monkeypatch.setattr(_branches, "exponential", lambda s: (calls.append(s.shape), exponential(s))[1])
    scheme = make()
    source = scheme.context(mixed(2))
    scheme.context(mixed(2, count=9), causal=True, shared_with=source)
    assert len(calls) == 1
    scheme.context(mixed(2))
    assert len(calls) == 2, "nothing is kept from one forward pass to the next"


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

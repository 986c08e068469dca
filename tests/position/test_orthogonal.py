"""The orthogonal schemes: generators, scores along paths by hand, and the start as RoPE."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ape_cli import attention, position
from ape_cli.core.errors import UsageError
from ape_cli.position._operators import start_angles
from tests.position.draws import draw

NAMES = ["orthogonal-seq", "orthogonal-tree"]


def make(name: str, d_model: int = 32, heads: int = 4, **options: Any) -> position.Scheme:
    return position.make(name, d_model, heads, generator=torch.Generator().manual_seed(3), **options)


@pytest.mark.parametrize("name", NAMES)
def test_generators_are_orthogonal_near_identity_and_distinct(name: str) -> None:
    w = make(name, 512, 8).double().generators()
    identity = torch.eye(64, dtype=torch.float64)
    assert torch.allclose(w @ w.mT, identity.expand_as(w), atol=1e-6)  # parameters are float32
    assert torch.allclose(torch.linalg.det(w), torch.ones(w.shape[:2], dtype=torch.float64), atol=1e-6)
    flat = w.flatten(0, 1)
    for i in range(len(flat)):
        for j in range(i):
            assert (flat[i] - flat[j]).norm() > 1, "two generators start alike"
    # many small angles, progressively fewer large ones, and no angle twice
    angles = torch.linalg.eigvals(flat).angle().abs().sort(-1).values[:, ::2].flatten()
    counts = torch.histc(angles, bins=4, min=0, max=torch.pi)
    assert (counts.diff() < 0).all()
    exact = start_angles(w.shape[0], 8, 32)
    assert exact.unique().numel() == w.shape[0] * 8 * 32
    assert float(exact.median()) < torch.pi / 7


def test_rotations_contain_the_reflections_of_one_channel_less() -> None:
    """The reflection I - 2 v v' becomes a turn by pi in the plane of v and the last channel, which has the signs."""
    scheme = make("orthogonal-tree", 4, 1, decay=1.0).double()
    normals = torch.nn.functional.normalize(torch.tensor([[1.0, 2, 3], [0, -1, 5]], dtype=torch.float64), dim=1)
    turns = torch.zeros(2, 1, 4, 4, dtype=torch.float64)
    turns[:, 0, :3, 3] = torch.pi * normals
    with torch.no_grad():
        scheme.operators.free.copy_(turns)  # type: ignore[operator, union-attr]
    left, right = torch.eye(3, dtype=torch.float64) - 2 * normals[:, :, None] * normals[:, None, :]
    q, k = draw(2, 1, 1, 4, 4)
    q[..., 3] = k[..., 3] = 0  # what the mirrored vectors do not need
    context = scheme.context(torch.tensor([[1, 2, 5, 11]]))  # the root, and the paths l, l r, and l r r = l
    operators = [torch.eye(3, dtype=torch.float64), left, left @ right, left]
    expected = [
        [q[0, 0, m, :3] @ x.T @ y @ k[0, 0, n, :3] / 2 for n, y in enumerate(operators)]
        for m, x in enumerate(operators)
    ]
    found = attention.logits(scheme, q, k, context, context)[0, 0]
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), atol=1e-12)


def test_branches_do_not_commute() -> None:
    """If they commuted, left-right and right-left would be one place."""
    left, right = make("orthogonal-tree").generators()
    assert ((left @ right - right @ left).flatten(1).norm(dim=1) > 0.5).all()


def test_tree_scores_are_of_the_path_between() -> None:
    """q' [x^-1 y] k, with x^-1 y worked out by hand: from 4 (00) to 5 (01) it is up once, then down right."""
    scheme = make("orthogonal-tree", decay=1).double()
    left, right = scheme.generators()
    q, k = torch.randn(2, 1, 4, 1, 8, dtype=torch.float64)

    def score(x: int, y: int) -> torch.Tensor:
        contexts = (scheme.context(torch.tensor([[h]])) for h in (x, y))
        return attention.logits(scheme, q, k, *contexts)[0, :, 0, 0] * 8**0.5

    for x, y, between in [
        (4, 5, left.mT @ right),
        (2, 12, left.mT @ right @ left @ left),  # figure 2 of the paper: from one child of the root to 12
        (6, 1, left.mT @ right.mT),
        (1, 7, right @ right),
    ]:
        expected = torch.einsum("hi,hij,hj->h", q[0, :, 0], between, k[0, :, 0])
        assert torch.allclose(score(x, y), expected, atol=1e-9), (x, y)


def scores(name: str, at: torch.Tensor, **options: Any) -> torch.Tensor:
    """The scores of 12 fixed queries and keys, in float64, without a locality bias."""
    scheme = make(name, 64, 4, decay=1, **options).double()
    draw = torch.Generator().manual_seed(5)
    q, k = torch.randn(2, 1, 4, at.shape[1], 16, dtype=torch.float64, generator=draw)
    return attention.logits(scheme, q, k, scheme.context(at), scheme.context(at)).detach()


def test_a_start_as_rope_has_the_scores_of_rope() -> None:
    """On sequences, on trees as on their depths, and on grids as `axial-rope`."""
    words = torch.arange(40)[None]
    heap, depth = torch.tensor([[0, 1, 2, 3, 4, 7, 9, 12, 300]]), torch.tensor([[0, 0, 1, 1, 2, 2, 3, 3, 8]])
    grid = torch.randint(0, 30, (1, 12, 2), generator=torch.Generator().manual_seed(2))
    for found, expected in (
        (scores("orthogonal-seq", words, init="rope"), scores("rope", words)),
        (scores("orthogonal", words, init="rope"), scores("rope", words)),
        (scores("orthogonal-tree", heap, init="rope"), scores("rope", depth)),
        (scores("orthogonal-grid", grid, init="rope"), scores("axial-rope", grid, base=1e4)),
    ):
        assert torch.allclose(found, expected, atol=1e-6)  # the parameters are float32
    assert not torch.allclose(scores("orthogonal-seq", words), scores("rope", words), atol=0.1)


def test_the_start_as_rope_worked_out_for_four_channels() -> None:
    """Frequencies 10000^0 = 1 and 10000^(-2/4) = 0.01: cos 1 = 0.540302, sin 1 = 0.841471, and those of 0.01."""
    block = {1.0: (0.5403023, 0.8414710), 0.01: (0.9999500, 0.0099998)}
    (c, s), (d, t) = block.values()
    expected = torch.tensor([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, d, -t], [0, 0, t, d]])
    for name in NAMES:
        found = make(name, 8, 2, init="rope").generators()
        assert torch.allclose(found, expected.expand_as(found), atol=1e-6), name


def test_a_start_as_rope_is_learned_apart() -> None:
    """Branches and heads start alike, and their gradients differ. Everything else keeps its initial weights."""
    near, scheme = make("orthogonal-tree"), make("orthogonal-tree", init="rope")
    assert isinstance(scheme.operators, torch.nn.Module)
    (free,) = scheme.parameters()
    assert free.detach().flatten(0, 1).unique(dim=0).shape[0] == 1
    assert not scheme.unique
    assert near.unique
    at = torch.tensor([[1, 2, 3, 4, 5, 6, 7]])
    q, k = torch.randn(2, 1, 4, 7, 8, generator=torch.Generator().manual_seed(1))
    attention.logits(scheme, q, k, scheme.context(at), scheme.context(at)).square().sum().backward()
    assert free.grad is not None
    gradient = free.grad.flatten(0, 1)  # [branch * H, K, K]
    assert all((gradient[i] - gradient[j]).abs().max() > 1e-2 for i in range(len(gradient)) for j in range(i))
    draw = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    for generator, init in zip(draw, ("identity", "rope"), strict=True):
        position.make("orthogonal", 32, 4, structure="seq*tree(2)", generator=generator, init=init)
    assert torch.equal(draw[0].get_state(), draw[1].get_state())


def test_a_start_that_has_no_effect_is_refused() -> None:
    with pytest.raises(UsageError, match="rings, whose angles are fixed"):
        make("orthogonal", structure="cyclic(6)*cyclic(5)", init="rope")
    with pytest.raises(UsageError, match="unknown init"):
        make("orthogonal-seq", init="near")
    mixed = make("orthogonal", structure="seq*cyclic(6)", init="rope")
    assert torch.equal(mixed.operators.parts[1].multiples(None), torch.tensor([1, 0]))

"""One homomorphism for every structure: rings, grids, products and absolute variants, worked out with matrices."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ape_cli import attention, position, structure
from ape_cli.core.errors import UsageError
from ape_cli.position._operators import DirectSum
from ape_cli.position._powers import Ring
from ape_cli.position.orthogonal import Orthogonal

H, K = 2, 8


def make(expression: str, name: str = "orthogonal", **options: Any) -> Orthogonal:
    generator = torch.Generator().manual_seed(3)
    given = {"decay": 1.0} | options
    scheme = position.make(name, H * K, H, structure=expression, generator=generator, **given)
    assert isinstance(scheme, Orthogonal)
    return scheme.double()


def block(*parts: torch.Tensor) -> torch.Tensor:
    """The direct sum of matrices. [H, k, k] each -> [H, K, K]"""
    return torch.stack([torch.block_diag(*(p[h] for p in parts)) for h in range(H)])


def score(scheme: position.Scheme, x: list, y: list) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The unscaled score of a query at x and a key at y, and the two vectors. -> [H], [H, K], [H, K]"""
    generator = torch.Generator().manual_seed(1)
    q, k = torch.randn(2, 1, H, 1, K, dtype=torch.float64, generator=generator)
    contexts = (scheme.context(torch.tensor([[at]])) for at in (x, y))
    return attention.logits(scheme, q, k, *contexts)[0, :, 0, 0] * K**0.5, q[0, :, 0], k[0, :, 0]


def test_a_sequence_of_trees() -> None:
    """seq*tree(2): the operator from (2, left) to (5, right left) is W^3 on one half and L' R L on the other."""
    scheme = make("seq*tree(2)")
    assert isinstance(scheme.operators, DirectSum)
    (w,), (left, right) = (part.generators() for part in scheme.operators.parts)
    found, q, k = score(scheme, [2, 2], [5, 6])
    path = block(torch.linalg.matrix_power(w, 3), left.mT @ right @ left)
    assert torch.allclose(found, torch.einsum("hi,hij,hj->h", q, path, k), atol=1e-9)


@pytest.mark.parametrize("order", [2, 5, 6, 12])
def test_a_ring_closes_exactly(order: int) -> None:
    """W^n = I, no earlier power is I, and the angles are multiples of 2 pi / n: 1, 0, 2, ..., n // 2 in turn."""
    scheme = make(f"cyclic({order})")
    ring = scheme.operators
    assert isinstance(ring, Ring)
    w = ring.generators()[0]
    identity = torch.eye(K, dtype=torch.float64).expand(H, K, K)
    assert torch.allclose(torch.linalg.matrix_power(w, order), identity, atol=1e-12)
    for power in range(1, order):
        assert not torch.allclose(torch.linalg.matrix_power(w, power), identity, atol=0.1)
    angles = torch.linalg.eigvals(w).angle() * order / (2 * math.pi)
    assert torch.allclose(angles, angles.round(), atol=1e-9)
    every = [1, 0, *range(2, order // 2 + 1)]
    assert ring.multiples(None).tolist() == [every[pair % len(every)] for pair in range(K // 2)]
    x = torch.randn(1, H, 4, K, dtype=torch.float64)
    one, other = (scheme.rotate(x, scheme.context(torch.tensor([at])), "key") for at in (
        [1, 2, 3, 4], [1 + order, 2 + 7 * order, 3 + 10**12 * order, 4])
    )  # fmt: skip
    assert torch.equal(one, other)  # exact, not only up to rounding


@pytest.mark.parametrize("side", ["query", "key"])
@pytest.mark.parametrize("expression", ["seq", "tree(2)", "seq*tree(2)"])
def test_the_absolute_variant_turns_one_side(side: str, expression: str) -> None:
    """q' [y] k for a variant on keys, q' [x]' k for one on queries. The position of the other side has no effect."""
    scheme, both = make(expression, side=side), make(expression)
    wide = structure.parse_structure(expression).width > 1
    x, y, origin = ([2, 6], [5, 9], [0, 0]) if wide else (2, 9, 0)
    found, _, _ = score(scheme, x, y)
    expected, _, _ = score(both, *((x, origin) if side == "query" else (origin, y)))
    assert torch.allclose(found, expected, atol=1e-9)
    moved, _, _ = score(scheme, *((x, origin) if side == "query" else (origin, y)))
    assert torch.allclose(found, moved, atol=1e-12)
    assert not scheme.properties.relative
    assert both.properties.relative


def test_channels_are_shared_evenly_in_pairs() -> None:
    scheme = position.make("orthogonal", 28, 2, structure="grid(3)")
    assert isinstance(scheme, Orthogonal)
    assert isinstance(scheme.operators, DirectSum)
    assert scheme.operators.shares == [6, 4, 4]
    with pytest.raises(UsageError, match=r"too narrow for grid\(5\)[\s\S]*8 channels[\s\S]*at least 10"):
        make("grid(5)")

"""Matrix powers: the examples of the notes, the sinusoidal table as a special case, given and learned matrices."""

from __future__ import annotations

import math
from typing import Any

import torch

from ape_cli import position
from ape_cli.position._operators import random_orthogonal
from ape_cli.position.matrix_power import MatrixPower


def make(d_model: int, **options: Any) -> MatrixPower:
    generator = torch.Generator().manual_seed(1)
    scheme = position.make("matrix-power", d_model=d_model, heads=1, generator=generator, **options)
    assert isinstance(scheme, MatrixPower)
    return scheme.double()


def table(scheme: position.Scheme, at: list[int]) -> torch.Tensor:
    """P: the rows that are added at these positions. -> [N, D]"""
    empty = torch.zeros(1, len(at), scheme.shape.d_model, dtype=torch.float64)
    return scheme.embed(empty, scheme.context(torch.tensor([at])))[0]


def test_the_general_table_of_the_notes() -> None:
    """Column 2k-1 is sin(j theta^(k-1)) and column 2k its cosine, computed as powers of the block matrix."""
    d, base = 8, 300.0
    theta, m = base ** (-2 / d), torch.zeros(8, 8, dtype=torch.float64)
    for k in range(d // 2):
        c, s = math.cos(theta**k), math.sin(theta**k)
        m[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = torch.tensor([[c, s], [-s, c]], dtype=m.dtype)
    found, row = table(make(d, base=base), list(range(30))), torch.tensor([0.0, 1.0] * 4, dtype=torch.float64)
    for j in range(30):
        assert torch.allclose(found[j], row, atol=1e-12)
        for k in range(d // 2):
            assert math.isclose(found[j, 2 * k], math.sin(j * theta**k), abs_tol=1e-12)
            assert math.isclose(found[j, 2 * k + 1], math.cos(j * theta**k), abs_tol=1e-12)
        row = m @ row


def test_any_given_matrix_and_point() -> None:
    """This holds for a determinant of -1 and at 10,000 steps: M^(10000) = (M^100)^100."""
    m = random_orthogonal((6, 6), torch.Generator().manual_seed(5))
    m = m if torch.linalg.det(m) < 0 else m[[1, 0, 2, 3, 4, 5]]
    point = torch.arange(6, dtype=torch.float64)
    found = table(make(6, matrix=m, point=point), [0, 1, 2, 100, 10_000])
    hundred = torch.linalg.matrix_power(m, 100)
    for row, power in zip(
        found, (torch.eye(6).double(), m, m @ m, hundred, torch.linalg.matrix_power(hundred, 100)), strict=True
    ):
        assert torch.allclose(row, power @ point, atol=1e-9)


def test_learned_starts_at_the_given_angles() -> None:
    """Its powers are those of Q R Q', computed by multiplication."""
    scheme = make(4, learned=True)
    q = torch.linalg.matrix_exp(scheme.basis - scheme.basis.T)
    r = torch.zeros(4, 4, dtype=torch.float64)
    for k, angle in enumerate((-1.0, -0.01)):
        c, s = math.cos(angle), math.sin(angle)
        r[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = torch.tensor([[c, -s], [s, c]], dtype=r.dtype)
    m = q @ r @ q.T
    expected = torch.linalg.matrix_power(m, 7) @ torch.tensor([0, 1, 0, 1], dtype=torch.float64)
    assert torch.allclose(table(scheme, [7])[0], expected, atol=1e-7)  # the angles are float32 parameters

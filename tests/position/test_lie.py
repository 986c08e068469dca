"""LieRE: another implementation, loops, where it is a homomorphism and where not, and shared work on positions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ape_cli import position
from ape_cli.evaluation.laws import scheme as laws
from ape_cli.evaluation.laws._subjects import make as subject
from ape_cli.position import _grouped, planner
from ape_cli.position._operators import skew
from ape_cli.position.lie import Lie
from tests.position.draws import draw
from tests.position.golden import GOLDEN
from tests.position.test_axial_rope import places

B, N, H, K = 3, 12, 2, 8


def make(structure: str = "grid(2)", d_model: int = H * K, seed: int = 3, block: int = 0) -> Lie:
    generator = torch.Generator().manual_seed(seed)
    scheme = position.make("lie", d_model, H, structure=structure, generator=generator, block=block)
    assert isinstance(scheme, Lie)
    return scheme.double()


def own_places(seed: int = 1, high: int = 5) -> Tensor:
    """Places that rows do not share, and of which several tokens have the same. -> int64 [B, N, 2]"""
    return torch.randint(0, high, (B, N, 2), generator=torch.Generator().manual_seed(seed))


def written_out(scheme: Lie, x: Tensor, at: Tensor) -> Tensor:
    """torch's own exponential for each token, head and block. x: [B, H, N, K], at: [B, N, C] -> as x"""
    b, out = scheme.block, []
    for head, generators in enumerate(skew(scheme.free).unflatten(1, (H, -1)).unbind(1)):  # [C, blocks, b, b]
        operator = torch.linalg.matrix_exp(torch.einsum("tnc,cgij->tngij", at.double(), generators))
        out.append((operator @ x[:, head].unflatten(-1, (-1, b, 1))).flatten(2))
    return torch.stack(out, dim=1)


@pytest.mark.parametrize("block", [4, 2])
def test_values_of_another_implementation(block: int) -> None:
    """They differ by 5e-13, the last of the digits that are stored."""
    scheme = make(d_model=8, block=block)
    blocks = 4 // block
    free = torch.arange(1, scheme.free.numel() + 1, dtype=torch.float64).sin().view(2, 2, blocks, block, block) / 4
    with torch.no_grad():
        scheme.free.copy_(free.transpose(0, 1).flatten(1, 2))
    x = torch.arange(1, 73, dtype=torch.float64).cos().view(1, 2, 9, 4)
    expected = torch.tensor(GOLDEN["lie"]["rotated"][str(block)], dtype=torch.float64)
    found = scheme.rotate(x, scheme.context(places(3, 3)), "query")[0]
    assert torch.allclose(found, expected, rtol=0, atol=2e-12)


@pytest.mark.parametrize("block", [0, 4, 2])
@pytest.mark.parametrize("rows", ["shared", "own", "planned"])
def test_against_an_exponential_for_each_token(rows: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, and gradients of vectors and generators; also with a plan, as on a GPU."""
    monkeypatch.setattr(_grouped, "TILE", 4)
    scheme, x, weights = make(block=block), draw(B, H, N, K).requires_grad_(), draw(B, H, N, K, seed=2)
    at = places(3, 4) if rows == "shared" else own_places()
    context = scheme.context(at, plan=planner(scheme)(at) if rows == "planned" else None)
    found = []
    for rotated in (scheme.rotate(x, context, "query"), written_out(scheme, x, at)):
        found.append([rotated, *torch.autograd.grad((rotated * weights).sum(), [x, scheme.free])])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-11, atol=1e-11)


def test_a_decoder_takes_the_operators_of_its_encoder() -> None:
    """Only new positions are computed, also if none is new. Values and gradients are the same without."""
    scheme, x, weights = make(), draw(B, H, N, K).requires_grad_(), draw(B, H, N, K, seed=2)
    for source, target, new in (
        (own_places(), own_places(2, high=6), True),
        (own_places(), own_places().flip(1), False),
        (places(3, 4), own_places(), True),
    ):
        first = scheme.context(source)
        found = []
        for beside in (first, None):
            context = scheme.context(target, causal=True, shared_with=beside)
            rotated = scheme.rotate(x, context, "key")
            found.append(
                [rotated, *torch.autograd.grad((rotated * weights).sum(), [x, scheme.free], retain_graph=True)]
            )
            if beside is not None:
                table = context.state.table
                assert torch.equal(table[: len(first.state.table)], first.state.table)
                assert (len(table) > len(first.state.table)) == new
        for one, other in zip(*found, strict=True):
            assert torch.allclose(one, other, rtol=1e-11, atol=1e-11)


def test_there_is_one_operator_for_each_distinct_position() -> None:
    scheme, at = make(), own_places(high=3)
    assert len(scheme.context(at).state.table) == len(at.flatten(0, 1).unique(dim=0)) == 9
    sizes = {planner(scheme)(own_places(seed, high=4)).key for seed in range(5)}
    assert len(sizes) == 1  # up to 16 positions, filled up to 16


def test_composition_fails_on_grids_and_holds_where_generators_commute() -> None:
    """The errors that the docstring states, for the weights at the start."""
    for structure, options, error in (
        ("grid(2)", {}, 1.5),
        ("grid(4)", {}, 1.4),
        ("grid(2)", {"block": 4}, 2.0),
        ("grid(4)", {"block": 4}, 1.9),
        ("grid(2)", {"block": 2}, 0.0),
        ("grid(4)", {"block": 2}, 0.0),
        ("seq", {}, 0.0),
    ):
        scheme = subject("lie", structure, torch.float64, **options)
        assert abs(float(laws.composition(scheme, torch.float64)) - error) < (0.05 if error else 1e-10)
        assert (scheme.homomorphism, scheme.relative) == (("", False) if error else ("orthogonal", True))
        assert float(laws.orthogonality(scheme, torch.float64)) < 1e-9


def test_it_starts_near_the_identity_and_generators_do_not_commute() -> None:
    scheme = make(d_model=64)
    step = [scheme.operators(torch.tensor([at])) for at in ([1, 0], [0, 1])]
    assert float((step[0] @ step[1] - step[1] @ step[0]).detach().abs().max()) > 0.1
    for w in step:
        angles = torch.linalg.eigvals(w.detach()).angle().abs()
        assert 0.2 < float(angles.median()) < 0.6
        assert float(angles.max()) > 2


def test_far_positions_keep_their_digits_in_float32() -> None:
    exact = make("seq")
    single = make("seq").float()
    at, x = torch.tensor([[9_999, 10_000]]), draw(1, H, 2, K)
    one, other = (s.rotate(x.to(d), s.context(at), "key") for s, d in ((exact, x.dtype), (single, torch.float32)))
    assert torch.allclose(one, other.double(), atol=1e-6)

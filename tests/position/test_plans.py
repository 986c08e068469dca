"""Plans and tiles of one size, as used on a GPU, compared with groups and with one product for each vector."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ape_cli import position, structure
from ape_cli.position import _grouped, planner
from ape_cli.position._operators import exponential, fixed_exponential, skew
from tests.position.draws import draw
from tests.position.test_grouped import POSITIONS, H, K, make, path_by_path, results


def draws(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_grouped, "TILE", 4)


@pytest.mark.parametrize("name", POSITIONS)
def test_tiles_are_the_product_along_the_path(name: str) -> None:
    """Values, and gradients of vectors and generators."""
    branching, at, batch = POSITIONS[name]
    scheme = make(branching)
    x = draw(batch, H, at.shape[1], K).requires_grad_()
    context = scheme.context(at, plan=planner(scheme)(at))
    found = results(scheme, x, scheme.rotate_in_basis(x, context, "query"))
    for other in (path_by_path(scheme, x, at), scheme.rotate_in_basis(x, scheme.context(at), "query")):
        for one, expected in zip(found, results(scheme, x, other), strict=True):
            assert torch.allclose(one, expected, rtol=1e-12, atol=1e-11)


def test_plans_of_one_shape_have_one_shape() -> None:
    """The number of tiles does not depend on the positions if the deepest paths have as many pieces, so one recorded
    step fits all.
    """
    scheme = make()
    keys = set()
    for seed in range(5):
        at = torch.randint(1, 32, (6, 20), generator=torch.Generator().manual_seed(seed))
        at[0, 0] = 31  # four steps
        keys.add(planner(scheme)(at).key)
    assert len(keys) == 1
    assert planner(scheme)(at[:, :10]).key not in keys


@pytest.mark.parametrize("name", position.names())
def test_a_plan_changes_nothing(name: str) -> None:
    """For every scheme and structure, the hooks give the same with a plan and without one, in float64 to 1e-12."""
    for pattern in position.load(name).structures:
        expression = "seq*tree(2)" if pattern == "any" else structure.example(pattern).expression
        scheme = position.make(name, 32, H, structure=expression, max_size=4, generator=draws(3)).double()
        width = scheme.structure.width
        at = torch.randint(0, 6, (2, 5, width), generator=draws(5)).squeeze(-1)
        if expression == "seq":
            at = torch.arange(1, 6)[None]
        q, k, x = draw(2, H, 5, 16), draw(2, H, 5, 16, seed=2), draw(2, 5, 32)
        plan = planner(scheme)(at)
        found = []
        for source, target in (
            (scheme.context(at), None),
            (scheme.context(at, plan=plan), planner(scheme)(at, plan)),
        ):
            other = scheme.context(at, causal=True, shared_with=source, plan=target)
            hooks: list[Tensor | None] = [scheme.embed(x, source), scheme.rotate(q, other, "query")]
            hooks += [
                scheme.bias(q, other, source),
                scheme.decay(other, source),
                scheme.rotate(k, source, "key"),
            ]
            found.append(hooks)
        for one, expected in zip(*found, strict=True):
            assert (one is None) == (expected is None)
            if one is not None and expected is not None:
                assert torch.allclose(one, expected, rtol=0, atol=1e-12)


def test_a_fixed_number_of_squarings_gives_the_same_exponential() -> None:
    for scale in (0.01, 1.0, 8.0):
        s = skew(draw(3, 8, 8) * scale).requires_grad_()
        for found in (fixed_exponential(s), exponential(s)):
            assert torch.allclose(found, torch.linalg.matrix_exp(s), rtol=0, atol=1e-11)
            assert torch.allclose(found @ found.mT, torch.eye(8, dtype=found.dtype), atol=1e-11)
    assert fixed_exponential(skew(draw(1, 8, 8) * 30_000)).isnan().all(), "too large to be exact, and not silently"

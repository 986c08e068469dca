"""RoPE: a worked example, the pairing of channels, and relative scores at large offsets."""

from __future__ import annotations

import pytest
import torch

from ape_cli import position
from tests.position.golden import GOLDEN


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
def test_both_pairings_of_other_implementations(pairing: str) -> None:
    given = GOLDEN["rope"]
    scheme = position.make("rope", d_model=8, heads=1, interleaved=pairing == "interleaved")
    x, expected = (torch.tensor(given[name], dtype=torch.float64) for name in ("x", pairing))
    context = scheme.context(torch.tensor([given["positions"]]))
    for side in ("query", "key"):
        assert torch.allclose(scheme.rotate(x[None, None], context, side)[0, 0], expected, atol=1e-12)


def test_the_base_is_followed_at_once() -> None:
    """No table is kept that would be wrong after a change of the base."""
    scheme = position.make("rope", d_model=8, heads=1)
    x, at = torch.ones(1, 1, 4, 8), torch.arange(4)[None]
    before = scheme.rotate(x, scheme.context(at), "key")
    scheme.base = 100.0
    assert not torch.allclose(scheme.rotate(x, scheme.context(at), "key"), before)
    fresh = position.make("rope", d_model=8, heads=1, base=100.0)
    assert torch.equal(scheme.rotate(x, scheme.context(at), "key"), fresh.rotate(x, fresh.context(at), "key"))


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_partial_of_another_implementation(share: float) -> None:
    """They differ by 4e-8, because the other's cosines are float32."""
    scheme = position.make("rope", d_model=16, heads=1, interleaved=False, partial=share)
    x = torch.arange(1, 81, dtype=torch.float64).sin().view(1, 1, 5, 16)
    context = scheme.context(torch.tensor([[0, 1, 2, 3, 17]]))
    expected = torch.tensor(GOLDEN["rope_partial"]["rotated"][str(share)], dtype=torch.float64)
    for side in ("query", "key"):
        assert torch.allclose(scheme.rotate(x, context, side)[0, 0], expected, rtol=0, atol=2e-7)


@pytest.mark.parametrize("interleaved", [True, False])
def test_partial_is_rope_on_the_first_channels(interleaved: bool) -> None:
    """The others stay as they are, and the frequencies are those of a head with that many channels."""
    part, whole = (
        position.make("rope", k, 1, interleaved=interleaved, **options)
        for k, options in ((12, {"partial": 1 / 3}), (4, {}))
    )
    x, at = torch.randn(1, 1, 5, 12, dtype=torch.float64), torch.tensor([[0, 1, 2, 9, 300]])
    found = part.rotate(x, part.context(at), "query")
    assert torch.equal(found[..., 4:], x[..., 4:])
    assert torch.equal(found[..., :4], whole.rotate(x[..., :4], whole.context(at), "query"))

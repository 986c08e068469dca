"""Parameters of each layer (`layer`) and scores of content (`logits`), in a scheme of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from ape_cli import position
from ape_cli.evaluation.laws import model
from ape_cli.models.checkpoint import load_scheme
from ape_cli.models.decoder import DecoderOnly
from ape_cli.position import AttentionPair, Role, Scheme, Shape

WIDTH, HEADS = 16, 2


class Gate(nn.Module):
    """A number for each token and head, without a bias. [B, N, D] -> [B, N, H]"""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.linear = nn.Linear(shape.d_model, shape.heads, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


class Gated(Scheme):
    """Scores are increased by the gates of all tokens after the key, up to the query."""

    causal_only: ClassVar[str] = "gates are added up from a key to a later query"
    roles: ClassVar[list[tuple[Role, int]]] = []

    def layer(self, role: Role, index: int) -> nn.Module:
        self.roles.append((role, index))
        return Gate(self.shape)

    def logits(self, q: Tensor, k: Tensor, content: Tensor | None, link: AttentionPair) -> Tensor:
        assert content is not None
        total = content.cumsum(1).transpose(1, 2)  # [B, H, N]
        return q @ k.mT * q.shape[-1] ** -0.5 + total[:, :, -q.shape[2] :, None] - total[:, :, None]


@pytest.fixture(autouse=True)
def _own(monkeypatch: pytest.MonkeyPatch) -> None:
    load = position.load
    monkeypatch.setattr(position, "load", lambda name: Gated if name == "gated" else load(name))
    Gated.roles.clear()


def net(seed: int = 1) -> DecoderOnly:
    generator = torch.Generator().manual_seed(seed)
    scheme = position.make("gated", WIDTH, HEADS, generator=generator)
    return DecoderOnly(scheme, ids=20, d_ff=24, layers=3, sides=False, dropout=0.0, generator=generator).double()


def gates(made: DecoderOnly) -> list[Tensor]:
    return [part.linear.weight for part in made.scheme.layers.values()]


def test_each_layer_has_weights_of_its_own() -> None:
    """They follow from the seed, and the initialisation of the model leaves them as torch draws them."""
    made = net()
    assert Gated.roles == [("decoder", 0), ("decoder", 1), ("decoder", 2)]
    first, second, third = gates(made)
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)
    assert all(map(torch.equal, gates(made), gates(net())))
    assert not torch.equal(first, gates(net(2))[0])
    assert float(first.detach().abs().max()) <= WIDTH**-0.5  # torch's own bound; that of Xavier is larger
    assert {f"scheme.layers.decoder_{i}.linear.weight" for i in range(3)} <= set(made.state_dict())


def test_tokens_one_by_one_have_the_content_of_all() -> None:
    for law in (model.stepwise, model.independence, model.causality):
        assert float(law(net().scheme, torch.float64)) < 1e-9


def test_a_scheme_is_loaded_with_the_modules_of_its_layers(tmp_path: Path) -> None:
    class Stored:
        folder = tmp_path

        def load_model(self) -> dict[str, Tensor]:
            return net().state_dict()

    scheme = position.make("gated", WIDTH, HEADS).double()
    load_scheme(Stored(), scheme)  # type: ignore[arg-type]
    assert set(scheme.layers) == {"decoder_0", "decoder_1", "decoder_2"}
    for key, gate in zip(net().scheme.layers, gates(net()), strict=True):
        assert torch.equal(scheme.layers[key].linear.weight, gate)

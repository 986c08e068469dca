"""Parameters of each layer (`layer`) and scores of content (`logits`), in a scheme of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from ape_cli import position
from ape_cli.attention import KVCache
from ape_cli.evaluation.laws import model
from ape_cli.models.checkpoint import load_scheme
from ape_cli.models.decoder import DecoderOnly
from ape_cli.position import AttentionPair, Role, Scheme, Shape
from tests.position import causal

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


class Window(nn.Module):
    """A number for each token and head, which depends on the token and on the `reach` ones before it."""

    def __init__(self, shape: Shape, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.linear = nn.Linear((reach + 1) * shape.d_model, shape.heads)

    def forward(self, x: Tensor) -> Tensor:
        count = x.shape[1] - self.reach
        return self.linear(torch.cat([x[:, at : at + count] for at in range(self.reach + 1)], dim=-1)).tanh()


class Windowed(Gated):
    """The same with windows that are longer than most rows of the tests."""

    def layer(self, role: Role, index: int) -> nn.Module:
        return Window(self.shape, reach=5)


OWN: dict[str, type[Scheme]] = {"gated": Gated, "windowed": Windowed}


@pytest.fixture(autouse=True)
def _own(monkeypatch: pytest.MonkeyPatch) -> None:
    load = position.load
    monkeypatch.setattr(position, "load", lambda name: OWN.get(name) or load(name))
    Gated.roles.clear()


def net(seed: int = 1, name: str = "gated") -> DecoderOnly:
    generator = torch.Generator().manual_seed(seed)
    scheme = position.make(name, WIDTH, HEADS, generator=generator)
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


@pytest.mark.parametrize("name", OWN)
def test_tokens_one_by_one_have_the_content_of_all(name: str) -> None:
    for law in (model.stepwise, model.independence, model.causality):
        assert float(law(net(name=name).scheme, torch.float64)) < 1e-9
    causal.check_tokens_in_parts(name, {})


def test_what_a_window_reads_by_hand() -> None:
    """Tokens before the first one, and padding, are zeros."""
    scheme = position.make("windowed", 2, 1)
    key, x = scheme.attach("decoder", 0), torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]])
    zero = [0.0, 0.0]
    assert scheme.inputs(key, x).tolist() == [[zero] * 5 + x[0].tolist()]
    hidden = scheme.inputs(key, x, torch.tensor([[True, True, False]]))
    assert hidden.tolist() == [[zero] * 5 + [[1.0, 2.0], [3.0, 4.0], zero]]
    assert scheme.inputs(key, x[:, 2:], before=hidden[:, :-1]).tolist() == [[zero] * 3 + x[0].tolist()]
    cache = KVCache()
    cache.extended(torch.zeros(1, 1, 3, 2), torch.zeros(1, 1, 3, 2))
    cache.inputs = scheme.inputs(key, x)
    cache.move_to_end(torch.tensor([2]))
    assert cache.inputs is not None
    assert cache.inputs.tolist() == [[zero] * 3 + x[0, :2].tolist()]


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

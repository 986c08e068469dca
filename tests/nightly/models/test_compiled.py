"""Whole models within `torch.compile` and `torch.export`: one graph, and the same results, gradients and decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ape_cli import attention
from ape_cli.models.decoder import DecoderOnly
from ape_cli.models.transformer import SequenceModel, Transformer
from ape_cli.position import Scheme
from tests.evaluation.sharing.conftest import Both, of_trees, of_words  # noqa: F401 # fixtures
from tests.position.compiled import without_logs
from tests.position.test_contract import make, places

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's warnings about itself, while it compiles
SCHEMES = [
    ("rope", "seq"), ("t5", "seq"), ("sinusoidal", "seq"), ("path", "seq"), ("orthogonal-tree", "tree(2)"),
    ("lie", "grid(2)"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _anew() -> Any:
    torch.compiler.reset()
    with without_logs():
        yield


def model(scheme: Scheme) -> SequenceModel:
    """The model in which a scheme acts, with two layers of each kind."""
    sizes: dict[str, Any] = {"ids": 20, "d_ff": 48, "dropout": 0.0, "generator": torch.Generator().manual_seed(8)}
    if scheme.causal_only:
        return DecoderOnly(scheme, layers=2, sides=False, **sizes).double()
    return Transformer(scheme, encoder_layers=2, decoder_layers=2, **sizes).double()


def tokens(at: Tensor) -> Tensor:
    """Ids of tokens at some positions. -> [B, N]"""
    return torch.randint(3, 20, at.shape[:2], generator=torch.Generator().manual_seed(1))


def inputs(net: SequenceModel, expression: str, count: int) -> tuple[Tensor, ...]:
    """Three rows, of which the first has padding at the end of its source."""
    at, to = places(expression, count=count), places(expression, count=count + 2)
    if isinstance(net, DecoderOnly):
        return tokens(to), to, torch.arange(3, count + 2).expand(3, -1)
    return tokens(at), at, torch.arange(count) < torch.tensor([[count - 2], [count], [count]]), tokens(to), to


def results(run: Callable[..., Tensor], net: nn.Module, given: tuple[Any, ...]) -> list[Tensor]:
    """Scores, and the gradients of all parameters."""
    out = run(*given)
    weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    return [out, *torch.autograd.grad((out * weights).sum(), list(net.parameters()), materialize_grads=True)]


def same(net: nn.Module, compiled: Callable[..., Tensor], *given: Any) -> None:
    for one, other in zip(results(net, net, given), results(compiled, net, given), strict=True):
        assert (one - other).abs().max() <= 1e-8 * max(1.0, float(one.detach().abs().max()))


@pytest.mark.parametrize("kind", [Transformer, DecoderOnly])
@pytest.mark.parametrize(("name", "expression"), SCHEMES)
def test_models(name: str, expression: str, kind: type[SequenceModel]) -> None:
    """Two lengths, with padding."""
    scheme = make(name, expression, decay=0.9)
    net = model(scheme)
    if kind is DecoderOnly and not isinstance(net, DecoderOnly) and not scheme.needs_encoder:
        net = DecoderOnly(scheme, ids=20, d_ff=48, layers=2, sides=True, dropout=0.0).double()
    if not isinstance(net, kind):
        return  # a scheme that acts only in the other kind
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    for count in (6, 5):
        same(net, compiled, *inputs(net, expression, count))


@pytest.mark.parametrize("kind", attention.names())
def test_kinds_of_attention(kind: str) -> None:
    for name, expression in (("rope", "seq"), ("orthogonal-tree", "tree(2)")):
        scheme = make(name, expression, decay=1.0)
        sizes = {"ids": 20, "d_ff": 48, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
        net = Transformer(scheme, attention_type=attention.make(kind), **sizes).double()
        same(net, torch.compile(net, backend="eager", fullgraph=True, dynamic=False), *inputs(net, expression, 6))


@pytest.mark.parametrize(("name", "expression"), [("rope", "seq"), ("orthogonal-tree", "tree(2)"), ("t5", "seq")])
def test_decoding_token_by_token(name: str, expression: str) -> None:
    """Each step is a call of the compiled `decode`, with the keys and values of earlier steps."""
    net = model(make(name, expression)).eval()
    source, at, mask, target, to = inputs(net, expression, 6)
    compiled, found = torch.compile(net.decode, backend="eager", fullgraph=True), []
    with torch.no_grad():
        memory, context = net.encode(source, at, mask)
        for decode in (net.decode, compiled):
            past = net.past()
            found.append([decode(target[:, :n], to[:, :n], memory, context, past)[:, -1] for n in range(1, 5)])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-10)

"""Gradient checkpointing: layers that are computed again in the backward pass have the gradients of plain layers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from ape_cli import attention, position
from ape_cli.attention import AttentionContext
from ape_cli.models.transformer import Layer
from ape_cli.position import Context, FastScheme, Scheme, Shape, Side
from ape_cli.position._rotation import Rotations, rotate_pairs
from ape_cli.structure import Seq

D, H, N, LAYERS = 8, 2, 4, 2
MODES = ("not reentrant", "reentrant")


class Own(FastScheme):
    """A user's scheme that learns its state, its bias, and its locality bias."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.angles = nn.Parameter(torch.linspace(0.1, 1.0, shape.head_dim // 2))
        self.slope, self.rate = (nn.Parameter(torch.tensor(value)) for value in (0.3, 0.2))

    def prepare(self, positions: Tensor, plan: object, beside: Rotations | None) -> Rotations:
        return Rotations((positions[:, None, :, None] * self.angles.exp()).double())

    def rotate_in_basis(self, x: Tensor, context: Context, side: Side) -> Tensor:
        return rotate_pairs(x, context.state)

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor:
        return q_context.cached(k_context, self.terms).to(q.dtype)

    def terms(self, q_context: Context, k_context: Context) -> Tensor:
        return -self.slope.exp() * self.steps(q_context, k_context)

    def decay(self, q_context: Context, k_context: Context) -> Tensor:
        return (-self.rate.exp() * self.steps(q_context, k_context)).exp()

    def steps(self, q_context: Context, k_context: Context) -> Tensor:
        return (q_context.positions[:, None, :, None] - k_context.positions[:, None, None, :]).abs().double()


def made(name: str) -> Scheme:
    generator = torch.Generator().manual_seed(1)
    if name == "own":
        return Own(Shape(D, H, Seq(), 4, 1.0, generator))
    return position.make(name, D, H, max_size=4, generator=generator)


class Net:
    """Layers that attend to their tokens, and to those of another sequence if the scheme acts there."""

    def __init__(self, name: str) -> None:
        self.scheme = made(name)
        torch.manual_seed(2)
        self.crosses = not self.scheme.causal_only
        self.layers = nn.ModuleList(
            Layer(self.scheme, attention.make(), d_ff=D, dropout=0.3, crosses=self.crosses, role="decoder", index=i)
            for i in range(LAYERS)
        ).double()
        self.scheme.double()
        self.x, self.memory = (torch.randn(2, n, D, dtype=torch.float64, requires_grad=True) for n in (N, N - 1))
        self.weights = [self.x, *self.scheme.parameters(), *self.layers.parameters()]

    def contexts(self, rows: int) -> tuple[Context, AttentionContext, AttentionContext | None]:
        at = torch.arange(1, N + 1).repeat(rows, 1)
        at[-1] = at[-1].flip(0)
        width = self.scheme.structure.width
        at = at if width == 1 else torch.stack([at] * width, -1)
        source = self.scheme.context(at[:, :-1])
        here = self.scheme.context(at, causal=True, shared_with=source)
        between = AttentionContext.of(self.scheme, here, source) if self.crosses else None
        return here, AttentionContext.of(self.scheme, here, here), between

    def result(
        self, of: tuple[Context, AttentionContext, AttentionContext | None], mode: str, every: int = 1
    ) -> Tensor:
        """The output, where every so many layers are checkpointed, the first one included. -> scalar"""
        here, within, between = of
        torch.manual_seed(3)
        y = self.scheme.embed(self.x, here)
        for i, layer in enumerate(self.layers):
            inputs = y, self.scheme, within, self.memory if self.crosses else None, between
            if mode == "plain" or i % every:
                y = layer(*inputs)
            elif mode == "selective":
                chosen = partial(create_selective_checkpoint_contexts, saved)
                y = checkpoint(layer, *inputs, use_reentrant=False, context_fn=chosen)
            else:
                y = checkpoint(layer, *inputs, use_reentrant=mode == "reentrant")
        return y.square().sum()

    def gradients(self, result: Tensor, times: int = 1) -> list[Tensor | None]:
        """The gradients of all weights after some backward passes from one result."""
        for weight in self.weights:
            weight.grad = None
        for left in reversed(range(times)):
            result.backward(retain_graph=left > 0)
        return [weight.grad for weight in self.weights]


def saved(ctx: object, operation: object, *arguments: object, **named: object) -> CheckpointPolicy:
    """Which results a selective checkpoint keeps: those of products, as is usual."""
    products = (torch.ops.aten.mm.default, torch.ops.aten.bmm.default, torch.ops.aten.addmm.default)
    return CheckpointPolicy.MUST_SAVE if operation in products else CheckpointPolicy.PREFER_RECOMPUTE


@pytest.fixture(autouse=True)
def _no_advice() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "None of the inputs have requires_grad")
        yield


def alike(some: list[Tensor | None], others: list[Tensor | None]) -> bool:
    pairs = list(zip(some, others, strict=True))
    return all((a is None and b is None) or torch.allclose(a, b, atol=1e-9) for a, b in pairs)


@pytest.mark.parametrize("name", ["own", *position.names()])
def test_the_gradients_of_plain_layers(name: str) -> None:
    """With dropout, in layers that share rotations, biases and locality biases. Weights of the scheme are included."""
    net = Net(name)
    expected = net.gradients(net.result(net.contexts(2), "plain"))
    for mode in (*MODES, "selective"):
        assert alike(net.gradients(net.result(net.contexts(2), mode)), expected), mode
    if name == "own":
        assert all(p.grad is not None and p.grad.any() for p in net.scheme.parameters())


@pytest.mark.parametrize("name", ["own", "t5", "orthogonal-tree", "transformer-xl"])
def test_in_every_second_layer_and_twice(name: str) -> None:
    """Plain layers may come between, and a backward pass may follow another one through the same graph."""
    net = Net(name)
    expected = net.gradients(net.result(net.contexts(1), "plain"), times=2)
    for mode in MODES:
        for every in (1, 2):
            assert alike(net.gradients(net.result(net.contexts(1), mode, every), times=2), expected), (mode, every)


@pytest.mark.parametrize("name", ["own", "t5", "kerple", "relative", "orthogonal-seq", "orthogonal-tree", "lie"])
def test_a_context_that_is_used_again(name: str) -> None:
    """Without gradients, in inference mode, in two steps of training: the values are those of the weights then."""
    net = Net(name)
    same = net.contexts(2)
    with torch.no_grad():
        net.result(same, "plain")
    with torch.inference_mode():
        net.result(same, "plain")
    for mode in ("plain", *MODES, "plain"):
        found, expected = (net.gradients(net.result(of, mode)) for of in (same, net.contexts(2)))
        assert alike(found, expected), mode
        with torch.no_grad():
            for p in net.scheme.parameters():
                p.mul_(0.9)


@pytest.mark.parametrize("name", ["own", "t5", "orthogonal-seq", "orthogonal-tree"])
def test_weights_that_change_without_a_backward_pass(name: str) -> None:
    """For example by `load_state_dict`."""
    net = Net(name)
    same = net.contexts(2)
    for recorded in (False, True):
        with torch.set_grad_enabled(recorded):
            net.result(same, "plain")
            net.scheme.load_state_dict({name: 0.9 * p for name, p in net.scheme.state_dict().items()})
            assert torch.equal(net.result(same, "plain"), net.result(net.contexts(2), "plain"))


def test_a_value_is_known_by_its_function_and_object() -> None:
    """Not by the name of the function: two lambdas, or a method of two objects, have values of their own."""
    context = Context(torch.tensor([[1, 2]]))
    one, other = (lambda x, y: 1), (lambda x, y: 2)
    assert [context.cached(context, each) for each in (one, other, one)] == [1, 2, 1]
    slopes = [made("kerple"), made("kerple")]
    with torch.no_grad():
        slopes[1].free.add_(1.0)
        first, second = (each.bias(torch.ones(1, H, 2, D // H), context, context) for each in slopes)
        assert not torch.equal(first, second)
        assert context.cached(context, slopes[0].terms) is context.cached(context, slopes[0].terms)

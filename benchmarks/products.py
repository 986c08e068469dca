"""Products of matrices by MKL and by oneDNN: from which size on is oneDNN faster, and does `ape` choose it there?

For each kind of product of `ape_cli/position/_matmul.py`, products of several sizes are computed forward and backward
by both libraries in turn, on one thread, in float32. A figure is the time of PyTorch's usual library over that of
oneDNN. oneDNN compiles code for each new shape, and most batches of long rows have shapes of their own. So the time of
compiling is shared by the uses of a shape: those of a single step of preset `small`, and of three steps for linear
layers, whose shapes depend on the number of tokens alone and come back more often.

The last row of a kind is the rule that this machine should have: the size from which on oneDNN is used, with the time
of the usual library over that of the rule, as the geometric mean over all sizes.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from ape_cli.models.device import tune
from ape_cli.position._matmul import Rule, by_onednn, rule, usual_library
from benchmarks._measure import Row

SUMMARY = "products of matrices by oneDNN and by the usual library, and the rule that follows"
ROUNDS, SECONDS = 5, 0.04  # for each product and library
NO_SLOWER, GAIN = 0.98, 1.02  # the least ratio of a product, because times vary, and that of a rule
LAYERS = [(64, 64), (128, 128), (128, 512), (512, 512), (512, 2048)]  # inputs, outputs
ROWS = (64, 128, 256, 528, 1000, 6400)
HEADS = [(256, 10, 32), (256, 20, 32), (512, 33, 16), (512, 33, 64), (256, 100, 32), (128, 100, 64)]  # heads, N, K
OPERATORS = [(128, 8, 32), (128, 64, 32), (256, 40, 64), (256, 160, 64)]  # operators * heads, vectors, K
USES = {"linear": 24, "attention": 2, "operators": 6}  # of a shape while its code is kept


@dataclass(frozen=True)
class Size:
    """A product of some size: its name, its number of multiplications, and its factors for a shape of `n` rows."""

    kind: str
    name: str
    multiplications: int
    factors: Callable[[int], tuple[Tensor, Tensor]]  # [..., M, K], [..., K, N]
    rows: int


@dataclass(frozen=True)
class Measured:
    """The times of a size in seconds, for the three products of a forward and a backward pass."""

    size: Size
    usual: float
    onednn: float


def sizes() -> Iterator[Size]:
    """All sizes of each kind."""
    for inputs, outputs in LAYERS:
        for rows in ROWS:

            def layer(n: int, i: int = inputs, o: int = outputs) -> tuple[Tensor, Tensor]:
                """Rows and the transposed weight of a layer."""
                return torch.randn(n, i), torch.randn(o, i).mT

            yield Size("linear", f"{rows} x {inputs} x {outputs}", rows * inputs * outputs, layer, rows)
    for heads, count, channels in HEADS:

        def scores(n: int, h: int = heads, k: int = channels) -> tuple[Tensor, Tensor]:
            """Queries and transposed keys."""
            return torch.randn(h, n, k), torch.randn(h, n, k).mT

        name = f"{heads} x ({count} x {channels} x {count})"
        yield Size("attention", name, heads * count * channels * count, scores, count)
    for count, vectors, channels in OPERATORS:

        def walked(n: int, p: int = count, k: int = channels) -> tuple[Tensor, Tensor]:
            """Vectors and operators."""
            return torch.randn(p, n, k), torch.randn(p, k, k)

        name = f"{count} x ({vectors} x {channels} x {channels})"
        yield Size("operators", name, count * vectors * channels**2, walked, vectors)


def products(a: Tensor, b: Tensor) -> Callable[[], None]:
    """The products of a forward and a backward pass. [..., M, K], [..., K, N]"""
    grad = torch.randn(*a.shape[:-1], b.shape[-1])

    def compute() -> None:
        """Compute them."""
        a @ b, grad @ b.mT, a.mT @ grad

    return compute


def timed(size: Size) -> Measured:
    """The least time by each library, in turn, with the compilation of a new shape by oneDNN shared by its uses."""
    compute = products(*size.factors(size.rows))
    shortest = [math.inf, math.inf]
    for turn in range(2 * ROUNDS):
        which = turn % 2
        with by_onednn() if which else nullcontext():
            compute()
            end = time.perf_counter() + SECONDS
            while True:
                start = time.perf_counter()
                compute()
                shortest[which] = min(shortest[which], (now := time.perf_counter()) - start)
                if now > end:
                    break
    return Measured(size, shortest[0], shortest[1] + compiling(size) / USES[size.kind])


def compiling(size: Size) -> float:
    """The seconds that the first products of a new shape take longer than the next ones, the median of five shapes."""
    extra = []
    for more in range(1, 6):
        compute = products(*size.factors(size.rows + more))
        taken = []
        with by_onednn():
            for _ in range(3):
                start = time.perf_counter()
                compute()
                taken.append(time.perf_counter() - start)
        extra.append(taken[0] - min(taken[1:]))
    return max(0.0, statistics.median(extra))


def chosen(measured: list[Measured]) -> tuple[float, float]:
    """The number of multiplications from which on no product is slower by oneDNN, and the gain of this rule."""
    best = math.inf
    for product in sorted(measured, key=lambda product: -product.size.multiplications):
        if product.usual < NO_SLOWER * product.onednn:
            break
        best = product.size.multiplications
    ratios = [product.usual / product.onednn if product.size.multiplications >= best else 1.0 for product in measured]
    gain = statistics.geometric_mean(ratios)
    return (best, gain) if gain >= GAIN else (math.inf, 1.0)


@torch.no_grad()
def measure() -> Iterator[Row]:
    """The ratio of every product, and the rule of each kind."""
    tune()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    every = list(sizes())
    for kind in Rule.__dataclass_fields__:
        measured = []
        for size in (size for size in every if size.kind == kind):
            measured.append(timed(size))
            operations = 6e-9 * size.multiplications
            speeds = {f"{usual_library()} GFLOP/s": operations / measured[-1].usual}
            speeds |= {"oneDNN GFLOP/s": operations / measured[-1].onednn, "million": size.multiplications / 1e6}
            yield Row(f"{kind}: {size.name}", measured[-1].usual / measured[-1].onednn, absolute=speeds)
        limit, gain = chosen(measured)
        used = getattr(rule(), kind)
        texts = [f"from {count / 1e6:.2g} million" if count < math.inf else "never" for count in (limit, used)]
        yield Row(f"{kind}: oneDNN {texts[0]} (ape: {texts[1]})", gain)

"""How fast this machine multiplies matrices: the products that training consists of, computed as training does.

Units: GFLOP/s, with two operations for each multiplication of a product.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from ape_cli.attention._layers import affine, matmul
from ape_cli.models.device import forward_pass, multiplies_bfloat16, products
from ape_cli.position._matmul import rule, usual_library
from ape_cli.runs.config import PRECISIONS

_SECONDS = 0.3  # for each product and precision
_LAYERS = [(6400, 128, 512), (1600, 512, 2048)]  # tokens, channels in, channels out
_HEADS = (256, 100, 32, 100)  # rows times heads, queries, channels, keys


@dataclass(frozen=True)
class Speed:
    """The speed of one product in one precision."""

    product: str  # what is multiplied, with its sizes
    precision: str
    library: str
    gflops: float


def measure(device: torch.device) -> list[Speed]:
    """The speeds of all products in each precision that the device has. It takes a few seconds."""
    generator = torch.Generator().manual_seed(1)

    def drawn(*shape: int) -> torch.Tensor:
        """A standard normal tensor on the device."""
        return torch.randn(*shape, generator=generator).to(device)

    speeds = []
    for tokens, channels, out in _LAYERS:
        x, weight = drawn(tokens, channels), drawn(out, channels)
        name, operations = f"linear layer ({tokens} x {channels})({channels} x {out})", 2 * tokens * channels * out
        speeds += _speeds(name, operations, partial(affine, x, weight), device, rule().linear)
    count, queries, channels, keys = _HEADS
    q, k = drawn(count, queries, channels), drawn(count, keys, channels)
    name, operations = f"{count} products ({queries} x {channels})({channels} x {keys})", 2 * k.numel() * queries
    return speeds + _speeds(name, operations, lambda: matmul(q, k.mT), device, rule().attention)


@torch.no_grad()
def _speeds(
    name: str, operations: int, product: Callable[[], object], device: torch.device, minimum_operations: float
) -> list[Speed]:
    """The speed of a product in each precision. From `minimum_operations` multiplications on, oneDNN computes it."""
    speeds = []
    for precision in PRECISIONS if device.type == "cuda" else ("fp32", "bf16"):
        with products(precision), forward_pass(precision, device, _LAYERS[0][1]):
            taken = seconds(product, device)
        used = _library(precision, device, by_onednn=operations / 2 >= minimum_operations)
        speeds.append(Speed(name, precision, used, operations / taken / 1e9))
    return speeds


def _library(precision: str, device: torch.device, *, by_onednn: bool) -> str:
    """The library that computes a product, which is oneDNN in float32 on a CPU if `by_onednn`."""
    if device.type == "cuda":
        return "cuBLAS"
    if precision == "bf16":
        return "oneDNN" if multiplies_bfloat16() else "oneDNN, without instructions for it"
    return "oneDNN" if by_onednn else usual_library()


def seconds(work: Callable[[], object], device: torch.device, within: float = _SECONDS) -> float:
    """The least time that `work` takes on a device, of the calls within this many seconds."""

    def now() -> float:
        """The time after the device has finished."""
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    work()
    end, minimum = now() + within, float("inf")
    while now() < end:
        start = now()
        work()
        minimum = min(minimum, now() - start)
    return minimum

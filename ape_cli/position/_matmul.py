"""Which library multiplies float32 matrices faster on this machine's CPU: PyTorch's own, or oneDNN.

PyTorch multiplies with MKL. On an AMD processor, MKL uses AVX2 even if the processor has AVX-512. oneDNN uses AVX-512
there. Family 25 executes it in two halves, and gains little. Small products are slower in oneDNN, because a call costs
more, and because oneDNN compiles code for each new shape: 0.35 ms for a linear layer and 0.85 ms for a batch of
products, on family 25. Most batches of long rows have shapes of their own, so a shape has to pay for this within a
step. So the size of a product decides: the number of its multiplications, which is the same in the backward pass.

`RULES` has, for each kind of processor, the number of multiplications from which on oneDNN is faster. Other processors
keep PyTorch's choice. `python -m benchmarks products` measures the rule of a machine. The numbers of family 26 are
computed from its speeds, and from the time of compiling on family 25.

Measured with repeated shapes, one thread, GFLOP/s:

| product, forward and backward | multiplications | family 25: MKL, oneDNN | family 26: MKL, oneDNN |
|---|---:|---:|---:|
| linear 128 -> 128, 128 rows | 2 million | 93, 77 | 80, 78 |
| linear 128 -> 128, 256 rows | 4 million | 97, 90 | 86, 115 |
| linear 128 -> 128, 528 rows | 9 million | 98, 99 | 92, 153 |
| linear 512 -> 2048, 528 rows | 554 million | 94, 99 | 99, 196 |
| attention, 256 x (20 x 32 x 20) | 3 million | 51, 49 | 57, 74 |
| attention, 512 x (33 x 64 x 33) | 36 million | 36, 46 | 57, 124 |
| attention, 128 x (100 x 64 x 100) | 82 million | 58, 68 | 80, 202 |

`torch.backends.mkldnn.matmul.fp32_precision = "bf16"` sends products to oneDNN. It also allows oneDNN to round factors
to bfloat16, which it does only on processors with AMX. On these, oneDNN is not used. So the arithmetic is float32
everywhere, and a test compares it with float64.

The choice depends on the processor and on the size of the product, so a run is the same each time on one machine.
`run.json` has the rule. Another rule acts like another processor: numbers are added in another order.

The products are computed in `attention/_layers.py` and `_grouped.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache

import torch

from ape_cli.core import runtime


@dataclass(frozen=True)
class Rule:
    """From how many multiplications on oneDNN computes a product. Infinity means never."""

    linear: float = math.inf  # rows * inputs * outputs
    attention: float = math.inf  # rows of a batch * heads * queries * channels * keys
    operators: float = math.inf  # operators * heads * vectors of each * channels * channels

    @property
    def name(self) -> str:
        """The rule in words, as `run.json` has it. Without oneDNN, it is the name of PyTorch's library."""
        parts = [
            f"{product} from {minimum / 1e6:g}M" for product, minimum in asdict(self).items() if minimum < math.inf
        ]
        return f"oneDNN ({', '.join(parts)})" if parts else usual_library()


RULES = {  # by the family of an AMD processor with AVX-512
    25: Rule(linear=1.6e7, operators=4e7),  # Zen 4
    26: Rule(linear=8e6, attention=2e7, operators=8e6),  # Zen 5
}


def usual_library() -> str:
    """The library by which PyTorch multiplies float32 matrices on this machine's CPU: `MKL`, or `BLAS` for others."""
    return "MKL" if torch.backends.mkl.is_available() else "BLAS"


@cache
def rule() -> Rule:
    """The rule of this machine's CPU."""
    onednn = torch.backends.mkldnn
    can_choose = (
        onednn.is_available()
        and hasattr(onednn, "matmul")  # from torch 2.9 on
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and not runtime.has_instructions("amx_tile")
    )
    return RULES.get(runtime.amd_family(), Rule()) if can_choose else Rule()


@contextmanager
def by_onednn() -> Iterator[None]:
    """Compute products with oneDNN within this context."""
    products = torch.backends.mkldnn.matmul  # type: ignore[attr-defined] # torch has no types for it
    before = products.fp32_precision
    products.fp32_precision = "bf16"
    try:
        yield
    finally:
        products.fp32_precision = before

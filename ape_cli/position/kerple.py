r"""KERPLE: a learned kernel of the distance for each head, subtracted from the logits.

Source: Chi et al. 2022, arXiv:2205.09921, section 4. For query $m$ and key $n$, one of two terms is added after the
scaling by $1/\sqrt{K}$, as in the release:

- `log`: $-r_1 \log(1 + r_2 |m - n|)$ with $r_1, r_2 > 0$;
- `power`: $-r_1 |m - n|^{r_2}$ with $r_1 > 0$, $0 < r_2 \le 2$.

Both are conditionally positive definite: plus a constant, which the softmax cancels, they are inner products. Each head
has its own $r_1$ and $r_2$; the layers share them. They start from uniform draws, as in the authors' release: below 2
and 1 for `log`, below 1 and 2 for `power`. `power` with $r_2 = 1$ is ALiBi with learned slopes.

Deviations: the release clamps parameters at 0.01 in each forward pass, which changes weights outside of the optimiser.
Here they start above 0.01 and stay positive: $r_1$ and $r_2$ are exponentials, or for `power` $r_2$ is twice a sigmoid.
The source only has a decoder. Here the term also acts in the encoder, where $|m - n|$ makes it symmetric, and between
decoder and encoder.

Shapes: B batch, H heads, M queries, N keys. Offsets are in steps.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ape_cli.core.errors import pick
from ape_cli.position import Context, Scheme, Shape
from ape_cli.position._offsets import pair_terms
from ape_cli.position._rotation import wide

_LEAST = 0.01  # smallest initial value of r1 and r2


class Kerple(Scheme):
    """A learned penalty on the distance, logarithmic or a power, added to the logits.

    Argument: `kind`, `log` or `power`. Raises `UsageError` for any other value.
    """

    relative = True
    option_help: ClassVar[dict[str, str]] = {"kind": "Kernel of the distance: log or power."}
    synonyms = ("kernelized", "kerple-log", "kerple-power")
    source = "Chi et al. 2022, arXiv:2205.09921, section 4"
    unique = False  # equal distances to the left and to the right are encoded alike
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"kind": "power"},)
    real_positions = True
    memory = "H L^2"
    extrapolation = "excellent"

    def __init__(self, shape: Shape, kind: str = "log") -> None:
        """Check the kind and draw r1 and r2."""
        super().__init__(shape)
        self.kind = pick("kind", kind, ["log", "power"])
        first, second = torch.rand(2, shape.heads, generator=shape.generator)
        if kind == "log":
            r1, r2 = (2 * first).clamp(min=_LEAST), second.clamp(min=_LEAST)
            start = r2.log()
        else:
            r1 = first.clamp(min=_LEAST)
            start = second.clamp(_LEAST / 2, 1 - _LEAST / 2).logit()
        self.free = nn.Parameter(torch.stack([r1.log(), start]))  # r1 and r2 without their bounds: [2, H]

    def coefficients(self) -> tuple[Tensor, Tensor]:
        """r1 and r2 of each head. -> float32 or wider [H] each"""
        first, second = wide(self.free)
        return first.exp(), second.exp() if self.kind == "log" else 2 * second.sigmoid()

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor:
        """The term of each pair, after the 1/sqrt(K) scaling. q: [B, H, M, K] -> [B or 1, H, M, N]"""
        return q_context.cached(k_context, self.terms).to(q.dtype)

    def terms(self, q_context: Context, k_context: Context) -> Tensor:
        """The terms of all pairs, which all layers share. -> float32 or wider [B or 1, H, M, N]"""

        def term(offset: Tensor) -> Tensor:
            """The terms of offsets. [...] -> [H, ...]"""
            r1, r2 = (r.view(-1, *(1 for _ in offset.shape)) for r in self.coefficients())
            distance = offset.abs().to(r1.dtype)
            return -r1 * ((r2 * distance).log1p() if self.kind == "log" else distance**r2)

        return pair_terms(q_context, k_context, term)

r"""Shear: ALiBi as a unipotent representation of the integers (additive GRAPE).

Source: Zhang et al. 2025, arXiv:2512.07805, section 4.2. Two constant channels are added: 1 and 0 to a query, 0 and 1
to a key. Position $n$ acts on them by a shear $I + n A$, where the only nonzero entry of $A$ is $A_{21} = -m_h$ and
$m_h = 2^{-8h/H}$ is the slope of ALiBi. Because $A A = 0$, this is $\exp(n A)$: the product of two shears is the shear
of the sum of their positions. Queries at $i$ are multiplied by $I + i A$, and keys at $j$ by the inverse transpose of
$I + j A$. The two channels then add $m_h (j - i)$ to the score.

For keys behind the query, the score is that of ALiBi. A softmax over keys cancels $-m_h i$, so in causal attention
ALiBi is a bias $m_h j$ on keys.

The score is computed as this equal bias, so that heads keep their channels. The term comes after the scaling by
$1/\sqrt{K}$. (Before it, the constant of queries would be $\sqrt{K}$.) `representation` returns the operators, on which
`ape check` measures the laws.

`slopes` selects the slopes if the number of heads is not a power of two, as in `alibi`: `geometric`, the default, is
the formula above.

Deviations: none. As in the source, the scheme acts only in causal attention, because the term would grow with the
distance of keys ahead. The source's gates, which depend on content (section 4.1), are another scheme.

Shapes: B batch, H heads, M queries, N keys or positions, K channels of a head. Positions are in steps.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ape_cli.core.errors import pick
from ape_cli.position import Context, Scheme, Shape, Side
from ape_cli.position._offsets import pair_terms
from ape_cli.position.alibi import SLOPES, SLOPES_HELP, slopes


class Shear(Scheme):
    """A fixed slope for each head, times the signed distance of the key from the query, added to the logits.

    Argument: `slopes`, `geometric` or `press`. Raises `UsageError` for any other value.
    """

    relative = True
    option_help: ClassVar[dict[str, str]] = {"slopes": SLOPES_HELP}
    synonyms = ("grape", "grape-a", "additive-grape", "unipotent")
    source = "Zhang et al. 2025, arXiv:2512.07805, section 4.2"
    homomorphism = "linear"
    causal_only = "its penalty on keys behind the query would be a bonus for keys ahead"
    real_positions = True
    memory = "H L^2"
    extrapolation = "excellent"

    def __init__(self, shape: Shape, slopes: str = "geometric") -> None:
        """Check the slopes."""
        super().__init__(shape)
        self.slopes = pick("slopes", slopes, SLOPES)

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor:
        """m (j - i), after the 1/sqrt(K) scaling, in the dtype of the queries. q: [B, H, M, K] -> [B or 1, H, M, N]"""
        return q_context.cached(k_context, self.terms).to(q.dtype)

    def terms(self, q_context: Context, k_context: Context) -> Tensor:
        """The terms m (j - i) of all pairs, which all layers share. -> float32 [B or 1, H, M, N]"""

        def term(offset: Tensor) -> Tensor:
            """The terms of offsets. [...] -> [H, ...]"""
            m = slopes(self.shape.heads, offset.device, self.slopes).view(-1, *(1 for _ in offset.shape))
            return (m * offset).float()

        return pair_terms(q_context, k_context, term)

    def representation(self, positions: Tensor, side: Side) -> Tensor:
        """The shears of positions, which act on columns. int64 [B or 1, N] -> float64 [B or 1, H, N, 2, 2]"""
        step = slopes(self.shape.heads, positions.device, self.slopes)[:, None] * positions[:, None]  # [B or 1, H, N]
        shears = torch.eye(2, dtype=step.dtype, device=step.device).repeat(*step.shape, 1, 1)
        if side == "query":
            shears[..., 1, 0] = -step
        else:
            shears[..., 0, 1] = step
        return shears

r"""xPos: RoPE whose scores also decay exponentially with distance, at a different rate in each channel pair.

Source: Sun et al. 2022, arXiv:2212.10554, algorithm 1. At position $p$, channel pair $i$ is rotated by
$p \cdot \text{base}^{-2i/K}$, and multiplied by $\zeta_i^{p/B}$ in a query and by $\zeta_i^{-p/B}$ in a key, with

$$
\zeta_i = \frac{2i/K + \gamma}{1 + \gamma}
$$

before the scaling by $1/\sqrt{K}$. The base is 10000, $\gamma$ is 0.4, and $B$, the `scale_base`, is 512. In pair $i$,
the score of query $m$ and key $n$ has the factor $\zeta_i^{(m-n)/B}$. It falls with distance, fastest in the pairs that
rotate fastest. Because $\zeta_i$ is below 1, the factor would grow without bound for keys ahead of the query, so the
scheme acts only in causal attention.

A pair is a complex number, so each position acts by multiplication, and
$p \mapsto (\zeta_i^{1/B} e^{\mathrm{i}\, \text{base}^{-2i/K}})^p$ is a homomorphism from the integers to the nonzero
complex numbers. It is not orthogonal. The operator of a key is the inverse transpose of that of a query.

Positions count from SOS, which has the identity on both sides. The operators of a token therefore do not depend on what
else is in the batch or has been decoded. (Implementations that count from the middle of the text have the same scores.)
A factor at position $p$ is at most $((1 + \gamma) / \gamma)^{p/B}$, which is $4 × 10^{10}$ at 10,000 steps and
$10^{30}$ at 28,000. Factors are computed in float64; float32 and bfloat16 lose no digits up to there. Positions beyond
are refused on a CPU. On a GPU, which does not wait for their values, factors overflow from 36,000 steps, and the loss
becomes NaN.

Deviation: the source's blockwise attention at evaluation is left out, because it is a kind of attention and not part of
the encoding.

Shapes: B batch, H heads, N tokens, K channels of a head. Angles are in radians.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from ape_cli.core.errors import UsageError
from ape_cli.position import Context, Scheme, Shape, Side
from ape_cli.position._context import reads_values
from ape_cli.position._rotation import Rotations, check_base, circle, frequencies, rotate_pairs

_MOST = math.log(1e30)  # of the logarithm of a factor, so that its product with a number up to 3e8 is a float32


class Xpos(Scheme):
    """Rotation of channel pairs as in RoPE, with scores that decay with the distance.

    Arguments: `base`, of the frequencies; `scale_base`, the number of steps in which the score of pair i falls by the
    factor zeta_i; `gamma`, which decides how much the rates of the pairs differ. Raises `UsageError` if the base is not
    above 1, or if one of the others is not above 0.
    """

    relative = True
    causal_only = "scores of keys ahead of the query grow without bound"
    real_positions = True
    option_help: ClassVar[dict[str, str]] = {
        "base": "Base of the frequencies.",
        "scale_base": "Number of steps over which the score of pair i falls by the factor zeta_i.",
        "gamma": "Evens out the decay rates: zeta_i = (2i/K + gamma) / (1 + gamma).",
    }
    synonyms = ("lex", "length-extrapolatable")
    source = "Sun et al. 2022, arXiv:2212.10554, algorithm 1"
    homomorphism = "linear"
    content_dependent = True
    memory = "L D"
    extrapolation = "excellent"

    def __init__(self, shape: Shape, base: float = 10_000.0, scale_base: float = 512.0, gamma: float = 0.4) -> None:
        """Check the options."""
        super().__init__(shape)
        check_base(base, 10000)
        if not scale_base > 0.0:
            raise UsageError("bad scale_base", got=scale_base, allowed="above 0", fix="the source uses 512")
        if not gamma > 0.0:
            raise UsageError("bad gamma", got=gamma, allowed="above 0", fix="the source uses 0.4")
        self.base, self.scale_base, self.gamma = base, scale_base, gamma

    def rates(self, device: torch.device | None = None) -> Tensor:
        """The logarithm of the factor by which the score of each pair changes in a step. -> float64 [K/2]"""
        two_i = torch.arange(0, self.shape.head_dim, 2, dtype=torch.float64, device=device)
        return ((two_i / self.shape.head_dim + self.gamma) / (1.0 + self.gamma)).log() / self.scale_base

    def _prepared(self, context: Context, shared_with: Context | None) -> Context:
        if reads_values(context.positions) and context.positions.numel():
            farthest, allowed = context.positions.max().item(), int(-_MOST / float(self.rates()[0]))
            if farthest > allowed:
                raise UsageError(
                    "a position is too far from the start for xpos",
                    got=farthest,
                    allowed=f"up to {allowed:,} with scale_base={self.scale_base:g} and gamma={self.gamma:g}",
                    fix="a larger `scale_base`, or another scheme",
                )
        return context

    def factors(self, context: Context, _: Context) -> dict[Side, Rotations]:
        """The factors zeta^(p/B) e^(i angle) of queries, and zeta^(-p/B) e^(i angle) of keys; [B or 1, 1, N, K/2]."""
        at = context.positions[:, None, :, None].double()
        angle, growth = at * frequencies(self.shape.head_dim, self.base, at.device), at * self.rates(at.device)
        turn = circle(angle)  # [B or 1, 1, N, K/2, 2]
        return {
            "query": Rotations(angle, turn * growth.exp()[..., None]),
            "key": Rotations(angle, turn * (-growth).exp()[..., None]),
        }

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """Turn and scale the vectors at each position. [B, H, N, K] -> the same

        Raises `UsageError` for float16, which cannot hold the factors of distant positions.
        """
        if x.dtype == torch.float16:
            raise UsageError("xpos cannot be computed in float16", got="float16", allowed="float32, float64, bfloat16")
        return rotate_pairs(x, context.cached(context, self.factors)[side])

r"""PoPE: content sets the magnitude of each channel of queries and keys, and the position sets its phase.

Source: Gopalakrishnan et al. 2025, arXiv:2509.10534 ("Decoupling the What and Where With Polar Coordinate Positional
Embedding"), section 3, equation 6. The logit of query $i$ and key $j$ is

$$
\frac{1}{\sqrt{K}} \sum_{c=0}^{K-1} \mu(q_c) \mu(k_c) \cos((j - i) \theta_c + \delta_c), \quad
\mu(x) = \log(1 + e^x), \quad \theta_c = \text{base}^{-c/K}
$$

Each of the $K$ channels has its own frequency, whereas RoPE has $K/2$ frequencies. In RoPE, the phase of a pair of
channels also depends on content. Here, the term of a channel is largest at the offset $-\delta_c/\theta_c$, up to whole
turns, whatever the content is.

The phase $\delta$ is learned. The source bounds it to $[-2\pi, 0]$: it is the minimum of 0 and the maximum of $-2\pi$
and the parameter. So a parameter above 0 acts as 0, has no gradient, and stays there. The source has two
initialisations, which `init` selects: `zero`, the default, as in its language models and for length generalisation; or
`uniform` on the whole interval, as in its other experiments. With `zero`, scores depend on $|j - i|$ alone until
training has moved $\delta$, so an encoder cannot tell left from right at first. A phase that
training would first move up stays at 0.

Scores are dot products of vectors with $2K$ channels: the magnitudes times the cosines and sines of $i \theta$ for
queries, and of $j \theta + \delta$ for keys. Both are computed in float32 or wider. `logits` includes the scaling by
$1/\sqrt{K}$.

Deviations: the source only has a decoder. The scheme also acts in the encoder, where offsets have both signs, and
between decoder and encoder. All of these, and all layers, share $\delta$; each head has its own. In the source, each
layer also has its own (appendix C). Its equations 5 and 6 leave out the scaling, and its section 3 prints frequencies
$\theta^{(c-1)/d}$ without the minus sign that its section 2 has for RoPE. The sign here is that of PoPE-pytorch by
lucidrains, whose scores the tests compare with.

Shapes: B batch, H heads, M queries, N keys or positions, K channels of a head. Angles are in radians.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ape_cli.core.errors import pick
from ape_cli.position import AttentionPair, Context, Scheme, Shape
from ape_cli.position._rotation import check_base, frequencies, wide


class Pope(Scheme):
    """Scores of channels with magnitudes that depend on content and phases that depend on positions.

    Arguments: `base`, of the frequencies; `init`, the start of the learned phase: `zero` or `uniform`. Raises
    `UsageError` if the base is not above 1, and for any other `init`.
    """

    relative = True
    option_help: ClassVar[dict[str, str]] = {
        "base": "Base of the frequencies.",
        "init": "Start of the learned phase: zero, or uniform (between -2 pi and 0).",
    }
    synonyms = ("polar", "polar-coordinate")
    source = "Gopalakrishnan et al. 2025, arXiv:2509.10534, section 3, equation 6"
    real_positions = True
    content_dependent = True
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"init": "uniform"},)
    memory = "L D"
    extrapolation = "good"

    def __init__(self, shape: Shape, base: float = 10_000.0, init: str = "zero") -> None:
        """Check the options, and create the learned phase."""
        super().__init__(shape)
        check_base(base, 10_000)
        self.base = base
        size = shape.heads, shape.head_dim
        # with phases of zero, equal distances to the left and to the right are encoded alike
        self.unique = pick("init", init, ["zero", "uniform"]) == "uniform"
        start = torch.rand(size, generator=shape.generator) if self.unique else torch.zeros(size)
        self.free = nn.Parameter(-2 * math.pi * start)  # delta without its bounds: [H, K]

    def logits(self, q: Tensor, k: Tensor, content: Tensor | None, pair: AttentionPair) -> Tensor:
        """The sum over channels, divided by sqrt(K), in the dtype of the queries.

        q: [B, H, M, K], k: [B, H, N, K]; content: None -> [B, H, M, N]
        """
        polar_q = polar(q, pair.q_context.cached(pair.q_context, self.of_queries))
        polar_k = polar(k, pair.k_context.cached(pair.k_context, self.of_keys))
        return (polar_q * q.shape[-1] ** -0.5 @ polar_k.mT).to(q.dtype)

    def of_queries(self, context: Context, _: Context) -> Tensor:
        """Cosines and sines of i theta. -> float32 or wider [B or 1, 1, N, 2, K]"""
        return self._turns(self._angles(context))

    def of_keys(self, context: Context, _: Context) -> Tensor:
        """Cosines and sines of j theta + delta. -> float32 or wider [B or 1, H, N, 2, K]"""
        delta = self.free.double().clamp(-2 * math.pi, 0.0)
        return self._turns(self._angles(context) + delta[:, None])

    def _angles(self, context: Context) -> Tensor:
        """The angle p theta of each position p. -> float64 [B or 1, 1, N, K]"""
        positions = context.positions  # int64 or floating point [B or 1, N]
        step = frequencies(2 * self.shape.head_dim, self.base, positions.device)  # one for each channel
        return positions[:, None, :, None] * step

    def _turns(self, angle: Tensor) -> Tensor:
        """Cosine and sine of angles, in float32 unless the weights are float64. float64 [..., K] -> [..., 2, K]"""
        return torch.stack([angle.cos(), angle.sin()], dim=-2).to(wide(self.free).dtype)


def polar(x: Tensor, turns: Tensor) -> Tensor:
    """Softplus of x as the magnitudes of 2 K channels with these phases, in the dtype of x.

    [B, H, N, K], [B or 1, H or 1, N, 2, K] -> [B, H, N, 2 K]
    """
    return (functional.softplus(wide(x))[..., None, :] * turns).flatten(-2).to(x.dtype)

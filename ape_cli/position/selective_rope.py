r"""Selective RoPE: queries and keys are rotated by running sums of angles that depend on the tokens.

Source: Movahedi et al. 2025, arXiv:2511.17388, and its release, the module `SelectiveRoPE` in softmax attention. The
logit of query $i$ and key $j \le i$ is

$$
\frac{q_i^\top R_{ij} k_j}{\sqrt{K}}, \quad R_{ij} \text{ turns pair } c \text{ by } -\omega_c (\varphi_{j+1,c} + … +
\varphi_{i,c}), \quad \omega_c = b^{-2c/K}
$$

so queries and keys are rotated, before the scaling, by the running sums of $\omega \varphi$. As in the release, the
layer's input $x_t$ is divided by its length in each head's share of the channels, projected to $\varphi$ of all heads
and pairs by a matrix of low rank (`rank`), and passed through a causal depthwise convolution over 4 tokens, without
bias or activation. Pair $c$ consists of the channels $c$ and $c + K/2$, and the base $b$ is 500,000. As in the
release's models, all weights start from a normal distribution with standard deviation 0.02, so the angles start close
to 0.

Two further parts of the release, which its configurations do not use, are options here. With `bias`, $e^a$ is added to
$\varphi$, with a learned $a$ for each head and pair that starts at 0: without a projection, this is RoPE. With `gate`,
$\varphi$ is finally multiplied by a phase gate $\sigma(·)$ for each head.

Deviations: without `convolution`, the release uses the difference between $\varphi$ and that of the previous token, so
the sum up to a token is the token's own $\varphi$. Here, $\varphi$ itself is summed. Frequencies are not learned.
Those of random features (`temp_type="rfa"`), gates for each pair, and separate projections for each head are left out.
A locality bias multiplies the scores, as in every scheme.

Sums are computed in float64 and reduced modulo one turn before they are converted to float32, so that long rows do not
lose precision.

Shapes: B batch, H heads, M queries, N keys, K channels of a head, D channels of the model. Angles are in radians.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from ape_cli.position import AttentionPair, Role, Scheme, Shape
from ape_cli.position._layer_parts import ShortConvolution, check_size, chosen_rank, low_rank
from ape_cli.position._rotation import Rotations, check_base, circle, frequencies, rotate_halves, wide

_START = 0.02  # standard deviation of all weights at the start
_BASE = 500_000.0
_EPSILON = 1e-6  # added to squared lengths, as in the release


class Angles(nn.Module):
    """The angles by which tokens turn, one for each head and pair of channels.

    Arguments: `scheme`, whose options decide on the parts.
    """

    def __init__(self, scheme: SelectiveRope) -> None:
        """Draw the weights."""
        super().__init__()
        d_model, self.heads, pairs = scheme.shape.d_model, scheme.shape.heads, scheme.shape.d_model // 2
        self.base, self.reach = scheme.base, max(scheme.size - 1, 0)
        self.project = low_rank(d_model, scheme.rank, pairs)
        self.convolution = ShortConvolution(pairs, scheme.size) if scheme.size else None
        self.gate = nn.Linear(d_model, self.heads) if scheme.gate else None
        for weight in self.parameters():
            nn.init.normal_(weight, std=_START)
        if self.gate is not None:
            nn.init.zeros_(self.gate.bias)
        self.bias = nn.Parameter(torch.zeros(self.heads, pairs // self.heads)) if scheme.has_bias else None

    def forward(self, x: Tensor) -> Tensor:
        """The angles of the N last tokens. [B, reach + N, D] -> [B, N, H, K/2], float32 or float64"""
        x = wide(x).unflatten(-1, (self.heads, -1))
        x = (x * (x.square().sum(-1, keepdim=True) + _EPSILON).rsqrt()).flatten(-2)
        phi, x = wide(self._linear(self.project, x)), x[:, self.reach :]
        phi = (phi if self.convolution is None else self.convolution(phi)).unflatten(-1, (self.heads, -1))
        phi = phi if self.bias is None else phi + wide(self.bias).exp()
        phi = phi if self.gate is None else phi * wide(self._linear(self.gate, x)).sigmoid()[..., None]
        return phi * frequencies(2 * phi.shape[-1], self.base, phi.device).to(phi.dtype)

    def _linear(self, layer: nn.Module, x: Tensor) -> Tensor:
        """Apply a layer in the dtype of its weights. [B, N, D] -> [B, N, ...]"""
        return layer(x.to(next(layer.parameters()).dtype))


class SelectiveRope(Scheme):
    """Rotations of queries and keys by running sums of angles that depend on the tokens.

    Arguments: `rank`, of the projection to the angles; 0 for 32, or the width of a narrower model; `convolution`, the
    number of tokens in the convolution of the angles; 0 for none; `gate` and `bias`, whether the angles have them;
    `base`, of the frequencies. Raises `UsageError` for a rank above the width, a negative number, or a base up to 1.
    """

    relative = True
    causal_only = "angles are added up from a key to a later query of the same sequence"
    variants = ({"convolution": 0}, {"gate": True, "bias": True})
    option_help: ClassVar[dict[str, str]] = {
        "rank": "Rank of the projection to the angles; 0 for at most 32.",
        "convolution": "Tokens in the causal convolution of the angles; 0 for none.",
        "gate": "Whether to multiply the angles by a phase gate for each head.",
        "bias": "Whether to add a learned angle for all tokens, which starts as RoPE's.",
        "base": "Base of the frequencies.",
    }
    synonyms = ("selective-rotary", "srope")
    source = "Movahedi et al. 2025, arXiv:2511.17388"
    unique = False  # positions are not read, only the order of the tokens
    content_dependent = True
    memory = "L D"

    def __init__(
        self,
        shape: Shape,
        rank: int = 0,
        convolution: int = 4,
        gate: bool = False,
        bias: bool = False,
        base: float = _BASE,
    ) -> None:
        """Check the options."""
        super().__init__(shape)
        check_size(convolution, usual=4)
        check_base(base, usual=int(_BASE))
        self.rank, self.size = chosen_rank(rank, shape.d_model), convolution
        self.gate, self.has_bias, self.base = gate, bias, base

    def layer(self, role: Role, index: int) -> Angles:
        """The angles of a layer."""
        return Angles(self)

    def logits(self, q: Tensor, k: Tensor, content: Tensor | None, pair: AttentionPair) -> Tensor:
        """q R k / sqrt(K), in the dtype of the queries.

        q: [B, H, M, K], k: [B, H, N, K]; content: the angles of the keys, [B, N, H, K/2] -> [B, H, M, N]
        """
        until = self.required(content).double().cumsum(dim=1).remainder(2 * math.pi)  # the angles up to each token
        angle = until.to(wide(q).dtype).transpose(1, 2)  # [B, H, N, K/2]
        turns, first = circle(angle), k.shape[2] - q.shape[2]
        of_queries = Rotations(angle[:, :, first:], turns[:, :, first:])
        return rotate_halves(q * q.shape[-1] ** -0.5, of_queries) @ rotate_halves(k, Rotations(angle, turns)).mT

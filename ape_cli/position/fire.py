r"""FIRE: a learned function of the relative distance, normalised by the position of the query.

Source: Li et al. 2023, arXiv:2310.04418, section 3. For query $i$ and key $j$, the term

$$
b(i, j) = f\left(\frac{\psi(i - j)}{\psi(\max(L, i))}\right), \quad \psi(x) = \log(c x + 1)
$$

is added after the scaling by $1/\sqrt{K}$. $f: \mathbb{R} \to \mathbb{R}^H$ is an MLP with one hidden layer and ReLU;
it yields a term for each head. Its weights, $c$ and $L$ are learned. Dividing by $\psi(i)$ maps all distances to
$[0, 1]$, however long the sequence is. Below the threshold $L$ the divisor is constant. The term depends on the
position of the query as well as on the distance, so the scheme is not relative. It is unbounded.

As in published implementations, $|c|$ and $|L|$ are used, $L$ is a learned multiple of its initial value, $10^{-6}$ is
added to the divisor, and weights are initialised as in PyTorch's `nn.Linear`. On average, three of eight hidden units
therefore start inactive on $[0, 1]$ and are never trained. A softmax cancels the constant that $f$ adds in each head,
so its gradient is only rounding.

Deviations: the source only has a decoder. In an encoder, and between decoder and encoder, keys may be ahead of the
query, so the distance is $|i - j|$ and the divisor is $\psi(\max(L, i, j))$, which keeps the argument of $f$ in
$[0, 1]$. For keys behind the query this is the source's formula. All layers share $f$, as in the source's variant
FIRE-S, and so do encoder, decoder and the attention between them.

Shapes: B batch, H heads, M queries, N keys, W hidden units. Positions and L are in steps.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.position import Context, Scheme, Shape
from ape_cli.position._rotation import wide

_EPSILON = 1e-6  # of the source, so that c = 0 does not divide 0 by 0


class Fire(Scheme):
    """A learned function of the distance divided by the position, on logarithmic scales, added to the logits.

    Arguments: `width`, the number of hidden units of the function; `threshold` and `c`, the initial values of L and c.
    Raises `UsageError` if one of them is not positive.
    """

    option_help: ClassVar[dict[str, str]] = {
        "width": "Number of hidden units of the function.",
        "threshold": "Initial value of the threshold L, in steps.",
        "c": "Initial value of c in the logarithm.",
    }
    synonyms = ("functional-interpolation",)
    source = "Li et al. 2023, arXiv:2310.04418, section 3"
    unique = False  # equal distances to the left and to the right may be encoded alike
    variants = ({"threshold": 8.0},)
    real_positions = True
    memory = "H L^2"
    extrapolation = "excellent"

    def __init__(self, shape: Shape, width: int = 32, threshold: float = 512.0, c: float = 0.1) -> None:
        """Check the options and draw the weights."""
        super().__init__(shape)
        for name, value, default in (("width", width, 32), ("threshold", threshold, 512), ("c", c, 0.1)):
            if value <= 0:
                raise UsageError(f"bad {name}", got=value, allowed="above 0", fix=f"the source uses {default}")

        def uniform(*size: int, inputs: int) -> nn.Parameter:
            """Weights of a linear layer with some number of inputs."""
            return nn.Parameter((2 * torch.rand(*size, generator=shape.generator) - 1) * inputs**-0.5)

        self.initial = threshold
        self.c, self.multiplier = nn.Parameter(torch.tensor(c)), nn.Parameter(torch.tensor(1.0))
        self.w, self.b = uniform(width, inputs=1), uniform(width, inputs=1)  # of the hidden units: [W]
        self.out_w, self.out_b = uniform(shape.heads, width, inputs=width), uniform(shape.heads, inputs=width)

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor:
        """The term of each pair, after the 1/sqrt(K) scaling. q: [B, H, M, K] -> [B or 1, H, M, N]"""
        return q_context.cached(k_context, self.terms).to(q.dtype)

    def terms(self, q_context: Context, k_context: Context) -> Tensor:
        """The terms of all pairs, which all layers share. -> [B or 1, H, M, N]"""
        with torch.autocast(self.c.device.type, enabled=False):
            ratio = self.ratio(q_context.positions[:, :, None], k_context.positions[:, None])  # [B or 1, M, N]
            w, b, out_w, out_b = (wide(weight) for weight in (self.w, self.b, self.out_w, self.out_b))
            hidden = torch.addmm(b[:, None], w[:, None], ratio.view(1, -1)).relu_()  # [W, B M N]
            terms = torch.addmm(out_b[:, None], out_w, hidden)
            return terms.view(self.shape.heads, *ratio.shape).transpose(0, 1)

    def ratio(self, i: Tensor, j: Tensor) -> Tensor:
        """The distance of keys j from queries i, as the learned function gets it: from 0 to 1.

        [...], [...] -> [...], float32 or float64
        """
        c, threshold = wide(self.c).abs(), (wide(self.multiplier) * self.initial).abs()
        distance, farthest = (x.to(c.dtype) for x in ((i - j).abs(), torch.maximum(i, j)))
        return (c * distance).log1p() / ((c * torch.maximum(farthest, threshold)).log1p() + _EPSILON)

r"""Contextual: positions are sums of gates that depend on content, so a query can count what matters to it.

This is CoPE, Contextual Position Encoding, not another method of that name such as Complex Position Encoding.

Source: Golovneva et al. 2024, arXiv:2405.18719, section 4. The gate of key $j$ for query $i$ is a sigmoid of their
score, and the position of key $j$ as seen by query $i$ is the sum of the gates from the key to the query. Vectors
$e[0], e[1], …$ are learned for integer positions and interpolated between them:

$$
g_{ij} = \sigma\left(\frac{q_i k_j}{\sqrt{K}}\right), \quad p_{ij} = g_{ij} + … + g_{ii}, \quad
\text{logit}_{ij} = \frac{q_i k_j + q_i e[p_{ij}]}{\sqrt{K}}
$$

The heads share the vectors. There are `max_size` + 1 of them, as in the authors' release, which has one more than the
longest input; positions beyond use the last. The paper's formulas omit the scaling by $1/\sqrt{K}$; the release scales
the scores in the gates and the sum, as above.

Deviations: the layers share the vectors, as in the other schemes with learned vectors here; the release has an option
for that. The vectors start from normal draws of standard deviation 0.02 instead of 0, because the gates get no gradient
while all vectors are 0. The release's options for gates with separate keys, or with values, are left out.

Gates, their sums and the interpolation are computed in float32 or wider. The gradient of a position is
$(e[\lceil p \rceil] - e[\lfloor p \rfloor]) \cdot q$.

Shapes: B batch, H heads, M queries, N keys, P integer positions, K channels of a head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ape_cli.position import AttentionPair, Scheme, Shape
from ape_cli.position._rotation import wide

_START = 0.02  # standard deviation of the vectors at the start
_AT_ONCE = 2**17  # scores that are computed together on a CPU, whose cache then holds what they need: half the time


class Contextual(Scheme):
    """Learned vectors of integer positions, interpolated at sums of gates from the key to the query."""

    relative = True
    causal_only = "positions are sums of gates from a key to the query, and are defined only for keys up to the query"
    bounded = True
    beyond = "sums of gates beyond share the last vector"
    synonyms = ("cope", "contextual-position")
    source = "Golovneva et al. 2024, arXiv:2405.18719, section 4"
    unique = False  # positions are not read, only the order of the tokens
    content_dependent = True
    memory = "H L^2"
    extrapolation = "good"

    def __init__(self, shape: Shape) -> None:
        """Draw the vectors."""
        super().__init__(shape)
        start = torch.randn(shape.max_size + 1, shape.head_dim, generator=shape.generator)
        self.vectors = nn.Parameter(_START * start)  # [P, K]

    def logits(self, q: Tensor, k: Tensor, content: Tensor | None, pair: AttentionPair) -> Tensor:
        """(q k + q e[p]) / sqrt(K), in the dtype of the queries. q: [B, H, M, K], k: [B, H, N, K] -> [B, H, M, N]"""
        rows = len(q)
        if q.device.type == "cpu":
            rows = max(1, _AT_ONCE // max(1, q.shape[1] * q.shape[2] * k.shape[2]))
        parts = zip(q.split(rows), k.split(rows), strict=True)
        return torch.cat([self._of_rows(*part) for part in parts])

    def _of_rows(self, q: Tensor, k: Tensor) -> Tensor:
        """`logits` for some rows of a batch. [B, H, M, K], [B, H, N, K] -> [B, H, M, N]"""
        scaled = q * q.shape[-1] ** -0.5
        scores, terms = wide(scaled @ k.mT), wide(scaled @ self.vectors.to(q.dtype).T)
        logits: Tensor = _AddInterpolated.apply(scores, terms)
        return logits.to(q.dtype)


class _AddInterpolated(torch.autograd.Function):
    """Add to each score the term of its position, which is the sum of gates from the key to the query.

    The gradient of the terms is collected in two tables, [..., P] each: of the lower integer position, and of the step
    from it to the next one.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, terms: Tensor) -> Tensor:
        """scores: [..., M, N], terms: those of integer positions, [..., M, P] -> [..., M, N]"""
        behind = scores.shape[-1] - scores.shape[-2]  # keys before the first query
        gates = scores.sigmoid().tril_(behind)
        position = gates.flip(-1).cumsum(-1).flip(-1).clamp_(max=terms.shape[-1] - 1)
        floor = position.long()
        share = position.sub_(floor)
        step = functional.pad(terms.diff(dim=-1), (0, 1)).gather(-1, floor)  # 0 at the last position
        ctx.save_for_backward(gates, floor, share, step)
        ctx.count = terms.shape[-1]
        return terms.gather(-1, floor).addcmul_(share, step).add_(scores)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of scores and of terms. A gate is part of the positions of its own key and of all before."""
        gates, floor, share, step = ctx.saved_tensors
        of_gates = (grad * step).cumsum(-1)
        of_scores = torch.addcmul(grad, of_gates, gates * (1 - gates))
        of_floor, of_step = grad.new_zeros(2, *grad.shape[:-1], ctx.count).unbind()
        of_floor.scatter_add_(-1, floor, grad)
        of_step.scatter_add_(-1, floor, grad * share)
        of_floor -= of_step
        of_floor[..., 1:] += of_step[..., :-1]
        return of_scores, of_floor

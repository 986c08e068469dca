r"""Path: a score passes through a Householder-like matrix for each token between key and query.

Source: Yang et al. 2025, arXiv:2505.16381 (PaTH), sections 2 and 3. The logit of query $i$ and key $j \le i$ is

$$
\frac{q_i^\top H_i H_{i-1} … H_{j+1} k_j}{\sqrt{K}}, \quad H_t = I - \beta_t w_t w_t^\top
$$

The unit vector $w_t$ and the number $\beta_t = 2\sigma(·)$, between 0 and 2, depend on the layer's input $x_t$, in each
head of each layer. $H_t$ is a reflection, and thus orthogonal, only in the limit $\beta = 2$; at $\beta = 1$ it is a
projection. As in the authors' release, $w$ is a projection of $x$ of low rank (`rank`), and $\beta$ starts near 1. A
locality bias multiplies the scores, as in every scheme.

Two parts of the source are options. With `convolution`, $w$ passes through a causal depthwise convolution of this size,
without bias, and a SiLU before it is normalised; the release uses size 3. With `forget`, the log-gates of the scheme
`forget`, summed from key to query, are added to the logit after the scaling (PaTH-FoX). They start as in that scheme.

Deviations: both parts are off by default, while the release's layer has the convolution. The release adds log-gates
before the scaling, so a gate acts there like its $\sqrt{K}$-th root.

There is no loop over tokens. With $v = \sqrt{\beta} w$, $H = I - v v^\top$. For a block of $C$ tokens, let $V$ have
their $v$ as rows, let $L$ be the part of $V V^\top$ below the diagonal, and $T = (I + L)^{-1}$ (the UT transform,
section 3). With `tril` for the part up to the diagonal and `below` for the part below it:

    H_C ... H_1 = I - V' T V                                          the operator of the block
    q_i' H_i ... H_(j+1) k_j = [Q K' - tril(Q V') T below(V K')]_ij   within the block
    q_i' H_i ... H_1 = [Q - tril(Q V') T V]_i                         from a query back to the start of the block
    H_C ... H_(j+1) k_j = [K - (T below(V K'))' V]_j                  from a key to the end of the block

Operators then carry queries back from block to block. Everything is computed in float32 or wider, even within autocast.

Shapes: B batch, H heads, M queries, N keys, K channels of a head, D channels of the model, C tokens of a block.
"""

from __future__ import annotations

import math
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ape_cli.position import AttentionPair, Role, Scheme, Shape
from ape_cli.position._layer_parts import ShortConvolution, check_size, chosen_rank, low_rank
from ape_cli.position._rotation import wide
from ape_cli.position.forget import Gates, sums_between

_START = 0.02  # standard deviation of the weights of beta at the start
# Most tokens for which a single block is faster, and most tokens of a block otherwise. Measured on a CPU, for 16 to 64
# channels.
_ALONE, _BLOCK = 64, 32


class Householder(nn.Module):
    """The vectors v = sqrt(beta) w of tokens, one for each head.

    Arguments: `d_model`, channels of a token; `heads`, their number; `rank`, of the projection to w; `size`, of the
    convolution in tokens, 0 for none; `forget`, whether tokens also have forget gates.
    """

    def __init__(self, d_model: int, heads: int, rank: int, size: int = 0, *, forget: bool = False) -> None:
        """Draw the weights."""
        super().__init__()
        self.heads, self.reach = heads, max(size - 1, 0)
        self.w = low_rank(d_model, rank, d_model)
        self.beta = nn.Linear(d_model, heads)
        nn.init.normal_(self.beta.weight, std=_START)
        nn.init.zeros_(self.beta.bias)
        self.convolution = ShortConvolution(d_model, size) if size else None
        self.gates = Gates(d_model, heads) if forget else None

    def forward(self, x: Tensor) -> Tensor:
        """v of the N last tokens, and then their log-gates, if there are gates.

        [B, reach + N, D] -> [B, N, H, K] or [B, N, H, K + 1], float32 or float64
        """
        x = x.to(self.beta.weight.dtype)  # the scheme alone may have weights of 16 bits
        w, x = wide(self.w(x)), x[:, self.reach :]
        w = w if self.convolution is None else functional.silu(self.convolution(w))
        w = functional.normalize(w.unflatten(-1, (self.heads, -1)), dim=-1)
        # the root of beta by its logarithm, so that its gradient stays finite as beta goes to 0
        root = ((math.log(2) + functional.logsigmoid(wide(self.beta(x)))) / 2).exp()
        v = w * root[..., None]
        return v if self.gates is None else torch.cat([v, self.gates(x)[..., None]], dim=-1)


class Path(Scheme):
    """Scores through the product of the Householder-like matrices between key and query.

    Arguments: `rank`, of the projection to the vectors of the matrices; 0 for 32, or the width of a narrower model;
    `convolution`, the number of tokens in the convolution of the vectors; 0 for none; `forget`, whether the log-gates
    between key and query are added to the scores. Raises `UsageError` for a rank above the width or a negative number.
    """

    relative = True
    causal_only = "the matrices between a key and a query are defined only for keys up to the query"
    variants = ({"convolution": 3, "forget": True},)
    option_help: ClassVar[dict[str, str]] = {
        "rank": "Rank of the projection to the vectors w; 0 for at most 32.",
        "convolution": "Tokens in the causal convolution of w; 0 for none, 3 as in the source.",
        "forget": "Whether to add the log-gates between key and query to the scores (PaTH-FoX).",
    }
    synonyms = ("householder", "path-attention")
    source = "Yang et al. 2025, arXiv:2505.16381, sections 2 and 3"
    unique = False  # positions are not read, only the order of the tokens
    content_dependent = True
    memory = "H L^2"
    extrapolation = "good"

    def __init__(self, shape: Shape, rank: int = 0, convolution: int = 0, forget: bool = False) -> None:
        """Check the options."""
        super().__init__(shape)
        check_size(convolution, usual=3)
        self.rank, self.size, self.forget = chosen_rank(rank, shape.d_model), convolution, forget

    def layer(self, role: Role, index: int) -> Householder:
        """The vectors of a layer."""
        return Householder(self.shape.d_model, self.shape.heads, self.rank, self.size, forget=self.forget)

    def logits(self, q: Tensor, k: Tensor, content: Tensor | None, pair: AttentionPair) -> Tensor:
        """q H ... H k / sqrt(K), and the log-gates if there are gates, in the dtype of the queries.

        q: [B, H, M, K], k: [B, H, N, K]; content: of the keys, [B, N, H, K] or [B, N, H, K + 1] -> [B, H, M, N]
        """
        content = self.required(content)
        v = content[..., : k.shape[3]].transpose(1, 2)
        with torch.autocast(q.device.type, enabled=False):
            block = _ALONE if k.shape[2] <= _ALONE else _BLOCK
            scores = through_path(wide(q) * q.shape[-1] ** -0.5, wide(k), v, block)
            scores = scores + sums_between(content[..., -1], q.shape[2]) if self.forget else scores
            return scores.to(q.dtype)


def through_path(q: Tensor, k: Tensor, v: Tensor, block: int = _BLOCK) -> Tensor:
    """q_i' H_i ... H_(j+1) k_j with H = I - v v', for the M queries that are the last of the N keys.

    q: [B, H, M, K], k and v: [B, H, N, K] -> [B, H, M, N]; the scores of later keys have no meaning, but are finite.
    `block`: most tokens of a block.
    """
    (m, channels), n = q.shape[2:], k.shape[2]
    if not m or not n:
        return q.new_zeros(*q.shape[:3], n)
    count = -(-n // block)
    size = -(-n // count)
    rows = min(m, size)  # queries of a block; if one block has all, only these are computed
    asking = -(-m // rows)  # blocks with queries, which are the last ones
    queries, keys, vectors = _blocks(q, asking, rows), _blocks(k, count, size), _blocks(v, count, size)
    products = vectors @ vectors.mT  # the solver reads what is below the diagonal, and takes the diagonal as 1
    t_times = partial(torch.linalg.solve_triangular, products, upper=False, unitriangular=True)
    of_keys = t_times((vectors @ keys.mT).tril(-1))
    last = slice(count - asking, None)
    met = (queries @ vectors[:, :, last].mT).tril(size - rows)
    near = (queries @ keys[:, :, last].mT - met @ of_keys[:, :, last]).unbind(2)
    if count == 1:
        return near[0]
    of_vectors = t_times(vectors)
    to_start = (queries - met @ of_vectors[:, :, last]).unbind(2)
    to_end = (keys - of_keys.mT @ vectors).unbind(2)
    operators = (torch.eye(channels, dtype=v.dtype, device=v.device) - vectors.mT @ of_vectors).unbind(2)
    columns, carried = [], q[:, :, :0]  # the scores of each block of keys; the queries of later blocks, at its end
    for at in reversed(range(count)):
        scores, index = carried @ to_end[at].mT, at - (count - asking)
        carried = carried @ operators[at]
        if index >= 0:
            scores = torch.cat([near[index], scores], dim=2)
            carried = torch.cat([to_start[index], carried], dim=2)
        columns.append(functional.pad(scores, (0, 0, asking * rows - scores.shape[2], 0)))
    return torch.cat(columns[::-1], dim=-1)[:, :, -m:, -n:]


def _blocks(x: Tensor, count: int, size: int) -> Tensor:
    """Cut tokens into blocks, with zeros before the first one. [B, H, N, K] -> [B, H, count, size, K]

    A token whose v is zero has the identity as its matrix.
    """
    if torch.compiler.is_compiling():  # torch 2.13 tells a compiler wrong strides for a `pad` whose width varies
        zeros = x.new_zeros(*x.shape[:2], count * size - x.shape[2], x.shape[3])
        return torch.cat([zeros, x], dim=2).unflatten(2, (count, size))
    return functional.pad(x, (0, 0, count * size - x.shape[2], 0)).unflatten(2, (count, size))

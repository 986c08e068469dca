r"""Forget: each token has a forget gate, and a score gets the logarithms of the gates between key and query.

Source: Lin et al. 2025, arXiv:2503.02130 (Forgetting Transformer, FoX), section 3. The logit of query $i$ and key
$j \le i$ is

$$
\frac{q_i k_j}{\sqrt{K}} + d_{ij}, \quad d_{ij} = \log f_{j+1} + … + \log f_i, \quad f_t = \sigma(w x_t + b)
$$

where $x_t$ is the input of the layer at token $t$. Each head of each layer has its own $w$ and $b$. As in the authors'
release, $w$ starts from normal draws of standard deviation 0.02, and $b$ from 0. Without $x$, the gates are constants
and $d_{ij} = (i - j) \log f$ is the penalty of ALiBi with a learned slope.

Deviations: none. The paper's Pro block, which adds norms, output gates and shifted keys, is another architecture and
not part of this scheme.

A locality bias, if set, multiplies the whole score, including $d_{ij}$. The sums $d_{ij}$ are differences of a single
running sum in float32 or wider, and at most 0 for keys up to the query.

Shapes: B batch, H heads, M queries, N keys, K channels of a head, D channels of the model. Log-gates are in nats.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from ape_cli.position import AttentionPair, Role, Scheme
from ape_cli.position._rotation import wide

_START = 0.02  # standard deviation of the weights at the start


class Gates(nn.Module):
    """The log-gates of tokens, one for each head.

    Arguments: `d_model`, channels of a token; `heads`, their number.
    """

    def __init__(self, d_model: int, heads: int) -> None:
        """Draw the weights."""
        super().__init__()
        self.project = nn.Linear(d_model, heads)
        nn.init.normal_(self.project.weight, std=_START)
        nn.init.zeros_(self.project.bias)

    def forward(self, x: Tensor) -> Tensor:
        """log f of each token. [B, N, D] -> [B, N, H], float32 or float64"""
        return functional.logsigmoid(wide(self.project(x.to(self.project.weight.dtype))))


class Forget(Scheme):
    """Scores with the sum of log-gates along the path from the key to the query."""

    relative = True
    causal_only = "the gates between a key and a query are defined only for keys up to the query"
    synonyms = ("fox", "forgetting", "forget-gate")
    source = "Lin et al. 2025, arXiv:2503.02130, section 3"
    unique = False  # positions are not read, only the order of the tokens
    content_dependent = True
    memory = "H L^2"
    extrapolation = "good"

    def layer(self, role: Role, index: int) -> Gates:
        """The gates of a layer."""
        return Gates(self.shape.d_model, self.shape.heads)

    def logits(self, q: Tensor, k: Tensor, content: Tensor | None, pair: AttentionPair) -> Tensor:
        """(q k) / sqrt(K) + d, in the dtype of the queries.

        q: [B, H, M, K], k: [B, H, N, K]; content: the log-gates of the keys, [B, N, H] -> [B, H, M, N]
        """
        path = sums_between(self.required(content), q.shape[2])
        return (q * q.shape[-1] ** -0.5 @ k.mT + path).to(q.dtype)


def sums_between(log_gates: Tensor, count: int) -> Tensor:
    """The sums d of log-gates, from the token after each key up to each query. The queries are the last M tokens.

    log_gates: [B, N, H], float32 or float64; count: M -> [B, H, M, N]
    """
    until = log_gates.cumsum(dim=1).transpose(1, 2)  # [B, H, N], the log-gates up to each token
    return until[:, :, until.shape[2] - count :, None] - until[:, :, None, :]

"""Every kind of attention by its definition, one query and one key at a time, with vectors and models for the tests.

The definitions share no code with the package. The operators that rotate are arguments. In shapes, B is rows, H heads,
M queries, N keys and K channels of a head.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ape_cli import attention, position
from ape_cli.attention import AttentionContext, AttentionType
from ape_cli.models.transformer import Transformer
from ape_cli.position import Scheme

WHO = ["all", "keys", "causal", "causal and keys", "another sequence"]
KINDS = ["dot", "euclidean", "squared-euclidean", "epanechnikov", "boxcar", "linear", "softmax-free", "clustered"]
D, H, K = 16, 2, 8
OPTIONS: dict[str, dict[str, Any]] = {"clustered": {"clusters": 3, "iterations": 2}}  # fewer than queries


def kind_of(name: str) -> AttentionType:
    return attention.make(name, **OPTIONS.get(name, {}))


def scheme_of(name: str, kind: str = "dot", decay: float | None = None) -> Scheme:
    """Makes a scheme. It has no locality bias if the kind of attention takes none."""
    chosen = 1.0 if attention.load(kind).refuses_decay else decay
    return position.make(name, D, H, decay=chosen, generator=torch.Generator().manual_seed(4)).double()


def net(kind: str, scheme: Scheme, dropout: float = 0.0, layers: int = 1) -> Transformer:
    return Transformer(
        scheme,
        ids=12,
        d_ff=24,
        encoder_layers=layers,
        decoder_layers=layers,
        dropout=dropout,
        attention_type=kind_of(kind),
        generator=torch.Generator().manual_seed(4),
    ).double()


def link_of(
    scheme: Scheme, who: str, few: Tensor | None = None, many: Tensor | None = None
) -> tuple[AttentionContext, int]:
    """Returns the context of 7 keys and the number of queries. `few`, `many`: positions of queries and of keys."""
    many = torch.arange(1, 8)[None] if many is None else many
    mask = torch.ones(2, 7, dtype=torch.bool)
    mask[1, 4:] = False
    mask[1, 2] = False
    if who == "another sequence":
        asks = scheme.context(torch.arange(4)[None] if few is None else few, causal=True)
        return AttentionContext.of(scheme, asks, scheme.context(many, mask)), asks.positions.shape[1]
    here = scheme.context(many, mask if "keys" in who else None, causal="causal" in who)
    return AttentionContext.of(scheme, here, here), 7


def vectors(seed: int, count: int, rows: int = 2) -> Tensor:
    """Draws float64 [B, H, count, K] of variance 2, so that distances lie both below and above 2 sqrt(K)."""
    drawn = torch.randn(rows, H, count, K, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return drawn * 2**0.5


# Definitions -------------------------------------------------------------------------------------


def score(name: str, q: Tensor, k: Tensor) -> Tensor:
    """Returns the score of one rotated query [K] and one rotated key [K], a scalar."""
    if name in ("dot", "clustered"):
        return sum(x * y for x, y in zip(q, k, strict=True)) / math.sqrt(len(q))
    square = sum((x - y) ** 2 for x, y in zip(q, k, strict=True))
    reach = 2 * math.sqrt(len(q))
    return {
        "euclidean": lambda: -square.sqrt(),
        "squared-euclidean": lambda: -square / (2 * math.sqrt(len(q))),
        "epanechnikov": lambda: (1 - square.sqrt() / reach).clamp(min=0),
        "boxcar": lambda: (square.sqrt() <= reach).to(q.dtype),
    }[name]()


def mixture(
    name: str, q: Tensor, k: Tensor, v: Tensor, left: list, right: list, seen: list, decay: list, **options: int
) -> Tensor:
    """Returns the attention output [M, K] of one row and head.

    `q` is [M, K]; `k` and `v` are [N, K]. `left` and `right` are the operators [K, K] of the queries and keys. `seen`
    lists the keys that each query sees. `decay` is [M][N].
    """
    turned_q = [a @ x for a, x in zip(left, q, strict=True)]
    turned_k = [b @ y for b, y in zip(right, k, strict=True)]
    if name == "clustered":
        turned_q = [turned_q[0] * 0 + centre for centre in centroids(turned_q, **options)]
    rows = []
    for m in range(len(q)):
        if name == "linear":
            phi_q, phi_k = (torch.nn.functional.elu(x) + 1 for x in (q[m], k))
            weights = [(left[m] @ phi_q) @ (right[n] @ phi_k[n]) for n in seen[m]]
            total = sum(phi_q @ phi_k[n] for n in seen[m])
        elif name == "softmax-free":
            apart = [((turned_q[m] - turned_k[n]) ** 2).sum() for n in seen[m]]
            weights = [(-square / (2 * math.sqrt(len(q[m])))).exp() for square in apart]
            total = torch.tensor(1.0)
        else:
            weights = [(score(name, turned_q[m], turned_k[n]) * decay[m][n]).exp() for n in seen[m]]
            total = sum(weights)
        rows.append(sum(w * v[n] for w, n in zip(weights, seen[m], strict=True)) / total)
    return torch.stack(rows)


def centroids(queries: list[Tensor], clusters: int = 16, iterations: int = 5) -> list[Tensor]:
    """Returns the centroid of each query's cluster, from k-means that starts with a farthest-first traversal."""

    def nearest(x: Tensor, centres: list[Tensor]) -> int:
        return min(range(len(centres)), key=lambda c: float((x - centres[c]).norm()))

    def mean(xs: list[Tensor]) -> Tensor:
        return sum(xs[1:], xs[0]) / len(xs)

    centres = [queries[nearest(mean(queries), queries)]]
    while len(centres) < min(clusters, len(queries)):
        centres.append(max(queries, key=lambda x: min(float((x - c).norm()) for c in centres)))
    member = [nearest(x, centres) for x in queries]
    for _ in range(iterations):
        groups = [[x for x, c in zip(queries, member, strict=True) if c == i] for i in range(len(centres))]
        centres = [mean(g) if g else c for g, c in zip(groups, centres, strict=True)]
        member = [nearest(x, centres) for x in queries]
    return [mean([x for x, c in zip(queries, member, strict=True) if c == mine]) for mine in member]

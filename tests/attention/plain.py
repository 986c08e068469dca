"""Every kind by its definition, one query and one key at a time; and the vectors and models of these tests.

Nothing here is shared with the package but the operators that rotate, which are given.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ape_cli import attention, position
from ape_cli.attention import Kind
from ape_cli.models.transformer import Transformer
from ape_cli.position import Scheme

KINDS = ["dot", "euclidean", "squared-euclidean", "epanechnikov", "boxcar", "linear", "softmax-free", "clustered"]
D, H, K = 16, 2, 8
OPTIONS: dict[str, dict[str, Any]] = {"clustered": {"clusters": 3, "iterations": 2}}  # few enough to be shared


def kind_of(name: str) -> Kind:
    return attention.make(name, **OPTIONS.get(name, {}))


def scheme_of(name: str, kind: str = "dot", decay: float | None = None) -> Scheme:
    """The locality bias is left out where the kind takes none."""
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
        kind=kind_of(kind),
        generator=torch.Generator().manual_seed(4),
    ).double()


def vectors(seed: int, count: int, rows: int = 2) -> Tensor:
    """[B, H, count, K] of variance 2, so that some distances lie within 2 sqrt(K), and some beyond."""
    drawn = torch.randn(rows, H, count, K, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return drawn * 2**0.5


# Definitions -------------------------------------------------------------------------------------


def score(name: str, q: Tensor, k: Tensor) -> Tensor:
    """Of one rotated query and one rotated key. [K], [K] -> scalar"""
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
    """One row and head. q: [M, K], k, v: [N, K]; left, right: the operator [K, K] of each query and key;
    seen: the keys that each query sees; decay: [M][N]. -> [M, K]"""
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
    """The centroid of each query's cluster, by k-means that begins with a farthest-first traversal."""

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

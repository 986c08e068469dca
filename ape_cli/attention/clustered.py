"""Clustered: similar queries share the attention of their centroid.

Source: Vyas et al. 2020, arXiv:2007.04825, section 3.2. The queries of a row and head are clustered, the centroid of
each cluster attends (scaled dot product, softmax), and all members of the cluster receive the result. Here, queries are
rotated before they are clustered. With as many clusters as distinct queries, the result is that of `dot`. The gradient
flows through the centroids, with the clusters fixed. Dropout acts on the weights of a cluster, so its members share it.

Deviations: the source hashes queries by random hyperplanes and clusters the hashes. Here, k-means clusters the queries
themselves, starting with a farthest-first traversal from the query nearest to the mean. The result is therefore
deterministic (a resumed run is the same run), equivariant to permutations and orthogonal maps of the queries, and
independent of padding and of other rows. Ties go to the first. A centroid mixes queries, so a decoder would look ahead.
This kind therefore acts only in the encoder's self-attention; both attentions of the decoder are `dot`.

Shapes: B batch, H heads, M queries, N keys, K channels of a head, C clusters.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from ape_cli.attention import AttentionContext, AttentionType
from ape_cli.attention._kernels import distances
from ape_cli.core.errors import UsageError
from ape_cli.position import Scheme
from ape_cli.position._rotation import wide


class Clustered(AttentionType):
    """Attention of the centroids of clustered queries.

    Arguments: `clusters`, the number of clusters in each row and head; `iterations`, of k-means. Raises `UsageError`
    for values out of range.
    """

    refuses_bias = "it has no logits of single queries and keys to add it to"
    refuses_decay = "it has no logits of single queries and keys to scale"
    mixes_queries = True
    option_help: ClassVar[dict[str, str]] = {
        "clusters": "Number of clusters in each row and head.",
        "iterations": "Number of k-means iterations.",
    }
    about = "dot, of clusters of queries; only in the encoder"
    cost = "C N K products instead of M N K, and (2 + iterations) C M K differences for clustering"
    source = "Vyas et al. 2020, arXiv:2007.04825, section 3.2"

    def __init__(self, clusters: int = 16, iterations: int = 5) -> None:
        """Check the options."""
        for name, value, low, high in (("clusters", clusters, 1, 4096), ("iterations", iterations, 0, 100)):
            if not low <= value <= high:
                raise UsageError(f"bad {name}", got=value, allowed=f"{low} to {high}", fix="choose one of those")
        self.clusters, self.iterations = clusters, iterations

    def attend(
        self, scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float
    ) -> Tensor:
        """Each query gets the attention of its cluster's centroid.

        [B, H, M or N, K] -> [B, H, M, K]. `context` must not be causal.
        """
        assert not context.causal, "a centroid would look ahead"
        rotated_q = scheme.rotate(q, context.q_context, "query")
        with torch.autocast(q.device.type, enabled=False):
            queries = wide(rotated_q)
            real = queries.new_ones(len(q), 1, q.shape[2], 1)  # 1 for tokens, 0 for padding
            if context.queries is not None:
                real = real * context.queries[:, None, :, None]
            member, count = clustering(queries.detach(), real, self.clusters, self.iterations)
            centroids = means(queries, real, member, count)[0].to(rotated_q.dtype)
        rotated_k, mask = scheme.rotate(k, context.k_context, "key"), context.filled.mask
        shared = functional.scaled_dot_product_attention(centroids, rotated_k, v, attn_mask=mask, dropout_p=dropout)
        return context.zero_empty(shared.gather(-2, member[..., None].expand(-1, -1, -1, v.shape[-1])))


def means(q: Tensor, real: Tensor, member: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The mean of each cluster (0 for an empty one) and its number of queries.

    q: [B, H, M, K], real: [B, 1, M, 1] (1 for tokens, 0 for padding), member: int64 [B, H, M] -> [B, H, C, K],
    [B, H, C, 1]
    """
    within = (member[..., None] == torch.arange(count, device=q.device)).to(q.dtype) * real  # [B, H, M, C]
    size = within.sum(-2)[..., None]
    return within.mT @ q / size.clamp(min=1.0), size


def clustering(q: Tensor, real: Tensor, clusters: int, iterations: int) -> tuple[Tensor, int]:
    """The cluster of each query, and the number of clusters. Padding is put into a cluster too, but moves no centre.

    q: [B, H, M, K], real: [B, 1, M, 1] -> int64 [B, H, M], C (at most M)
    """
    padding = (real == 0)[..., 0]
    everything = torch.zeros(q.shape[:3], dtype=torch.int64, device=q.device)
    if not q.shape[2]:
        return everything, 0
    apart = distances(q, means(q, real, everything, 1)[0])[..., 0].masked_fill(padding, float("inf"))  # [B, H, M]
    centres = [_pick(q, apart.argmin(-1))]
    gap = distances(q, centres[0])[..., 0].masked_fill(padding, -1.0)  # distance to the nearest centre; -1 for padding
    for _ in range(min(clusters, q.shape[2]) - 1):
        centres.append(_pick(q, gap.argmax(-1)))
        gap = torch.minimum(gap, distances(q, centres[-1])[..., 0])
    centre = torch.cat(centres, dim=-2)  # [B, H, C, K]
    member = distances(q, centre).argmin(-1)
    for _ in range(iterations):
        mean, size = means(q, real, member, len(centres))
        centre = torch.where(size > 0, mean, centre)
        member = distances(q, centre).argmin(-1)
    return member, len(centres)


def _pick(q: Tensor, index: Tensor) -> Tensor:
    """One query of each row and head. [B, H, M, K], int64 [B, H] -> [B, H, 1, K]"""
    return q.gather(-2, index[..., None, None].expand(-1, -1, 1, q.shape[-1]))

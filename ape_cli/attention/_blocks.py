"""Long sequences: queries in blocks, so that M N scores and biases never stand in memory at once.

Each query has a softmax of its own, so a block of them needs no other; a decoder's block meets the keys up to its last
query alone. Backward, a block's scores are computed again from queries and keys.
Source: Rabe & Staats 2021, arXiv:2112.05682, which cuts the keys as well; a CPU's cache holds all of them.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, cat
from torch.utils.checkpoint import checkpoint

from ape_cli.attention import Link
from ape_cli.position import Scheme

_LONG = 2**20  # pairs of a query and a key, from which on blocks are faster
_LONG_FUSED = 2**22  # the same where torch's kernel takes the bias
_AT_ONCE = 2**20  # scores of a block, over all rows and heads: 4 MB ...
_AT_LEAST = 64  # ... but no fewer queries

Answer = Callable[[Tensor, Tensor, Tensor, Tensor, Link], Tensor]


def are_worth_it(scheme: Scheme, q: Tensor, k: Tensor, link: Link) -> bool:
    """Whether so many scores or biases would have to be made. Measured on a CPU, so not elsewhere. [B, H, ., K] both"""
    pairs, biased = q.shape[-2] * k.shape[-2], type(scheme).bias is not Scheme.bias
    if pairs < _LONG or q.device.type != "cpu" or not (biased or link.decay is not None):
        return False
    if biased and not (link.q_context.state is None and link.k_context.state is None):
        return False  # the context of a part has none
    fused = link.decay is None and not any(True for _ in scheme.parameters())
    return pairs >= _LONG_FUSED or not fused


def each(answer: Answer, q: Tensor, turned_q: Tensor, turned_k: Tensor, v: Tensor, link: Link, rng: bool) -> Tensor:
    """answer(q, turned_q, turned_k, v, link), block by block of q and turned_q. `rng`: it draws. -> [B, H, M, K]"""
    rows, heads, count, _ = q.shape
    size = max(_AT_LEAST, _AT_ONCE // (rows * heads * turned_k.shape[-2]))

    def block(begin: int, q: Tensor, turned_q: Tensor) -> Tensor:
        part = link.part(begin, begin + q.shape[-2])  # made anew each time, with all that contexts keep
        seen = slice(part.k_context.positions.shape[1])
        return answer(q, turned_q, turned_k[:, :, seen], v[:, :, seen], part)

    parts = zip(range(0, count, size), q.split(size, dim=-2), turned_q.split(size, dim=-2), strict=True)
    return cat([checkpoint(block, *of, use_reentrant=False, preserve_rng_state=rng) for of in parts], dim=-2)

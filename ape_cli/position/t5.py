r"""T5: a learned scalar for each bucket of offsets, one set for each head, added to the logits.

Source: Raffel et al. 2020, arXiv:1910.10683, section 2.1. An encoder uses half of the $n$ buckets for each direction. A
decoder, which sees no keys ahead, uses all of them for the keys behind. Of these $m$ buckets, the first $m/2$ hold a
single offset each ($|k| < 8$ with 32 buckets in both directions). The others grow logarithmically up to `max_distance`,
and all larger offsets share the last. The layers share the scalars, which start at 0.02 times a normal draw. Encoder
and decoder have their own.

Deviations: the source does not scale logits. Here they keep the scaling by $1/\sqrt{K}$, and the term is added after
it. The source has no term in the attention between decoder and encoder. Here there is one, in both directions and with
separate scalars, because every scheme acts there (`cross=false` omits it).

Shapes: B batch, H heads, M queries, N keys. Offsets are in steps.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.position import Context, Scheme, Shape
from ape_cli.position._offsets import pair_terms

_ENCODER, _DECODER, _CROSS = range(3)


class T5(Scheme):
    """A learned scalar for each head and bucket of offsets, added to the logits.

    Arguments: `buckets`, a multiple of 4; `max_distance`, from which on offsets share a bucket; `cross`, whether
    there is a term between decoder and encoder. Raises `UsageError` for values that are not valid.
    """

    relative = True
    option_help: ClassVar[dict[str, str]] = {
        "buckets": "Number of buckets of offsets.",
        "max_distance": "Offsets from this one on share the last bucket.",
        "cross": "Also act between decoder and encoder.",
    }
    synonyms = ("t5-bias", "relative-bias")
    source = "Raffel et al. 2020, arXiv:1910.10683, section 2.1"
    encoder_decoder_options = ("cross",)
    unique = False  # far offsets share a bucket
    variants = ({"cross": False},)
    memory = "H L^2"
    extrapolation = "moderate"

    def __init__(self, shape: Shape, buckets: int = 32, max_distance: int = 128, cross: bool = True) -> None:
        """Check the options and draw the scalars."""
        super().__init__(shape)
        if buckets < 4 or buckets % 4:
            raise UsageError("bad buckets", got=buckets, allowed="a multiple of 4", fix="the source uses 32")
        if max_distance <= buckets // 2:
            allowed = f"more than {buckets // 2}, half of the buckets"
            raise UsageError("bad max_distance", got=max_distance, allowed=allowed, fix="the source uses 128")
        self.buckets, self.max_distance, self.acts_between = buckets, max_distance, cross
        start = torch.randn(3 if cross else 2, shape.heads, buckets, generator=shape.generator)
        self.scalars = nn.Parameter(0.02 * start)  # [encoder, decoder, cross; H; bucket]

    def bucket(self, offset: Tensor, both_ways: bool) -> Tensor:
        """The bucket of each offset j - i of key j from query i. int64 [...] -> int64 [...]"""
        count, ahead = self.buckets, 0 * offset
        if both_ways:
            count //= 2
            ahead = count * (offset > 0)
            distance = offset.abs()
        else:
            distance = (-offset).clamp(min=0)
        exact = count // 2
        ratio = (distance.clamp(min=1).double() / exact).log() / math.log(self.max_distance / exact)
        # The source rounds the logarithm down. Without the small term, rounding errors could put exact powers one
        # bucket too low.
        far = (exact + (ratio * (count - exact) + 1e-9).floor().long()).clamp(max=count - 1)
        return ahead + torch.where(distance < exact, distance, far)

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor | None:
        """The scalar of each pair's bucket, after the 1/sqrt(K) scaling.

        -> [B or 1, H, M, N], None if nothing is added
        """
        terms = q_context.cached(k_context, self.terms)
        return None if terms is None else terms.to(q.dtype)

    def terms(self, q_context: Context, k_context: Context) -> Tensor | None:
        """The scalars of all pairs, which all layers share. -> [B or 1, H, M, N], None if nothing is added"""
        if q_context.causal and not k_context.causal:
            part = _CROSS
            if not self.acts_between:
                return None
        else:
            part = _DECODER if q_context.causal else _ENCODER
        scalars = self.scalars[part]

        def term(offset: Tensor) -> Tensor:
            """The scalars of offsets. int64 [...] -> [H, ...]"""
            bucket = self.bucket(offset, both_ways=part != _DECODER)
            return nn.functional.embedding(bucket, scalars.T).movedim(-1, 0)

        return pair_terms(q_context, k_context, term)

r"""ALiBi: a linear penalty on distance, added to the logits, with slope $2^{-8h/H}$ in head $h$ of $H$.

Source: Press et al. 2022, arXiv:2108.12409, section 3. Head $h = 1..H$ adds $-m_h (i - j)$ to the logit of query $i$
and a key $j$ behind it, with slope $m_h = 2^{-8h/H}$, after the scaling by $1/\sqrt{K}$.

Deviations:

- The distance is $|i - j|$, because an encoder attends in both directions.
- The penalty also acts in the attention between decoder and encoder, which the source does not have. It is symmetric
  there: the source tokens just before and just after the query's place get the same score, and only their content tells
  the decoder which comes next. This explains low scores on `copy`.

`slopes` selects the slopes if $H$ is not a power of two. If it is one, both choices give the same slopes.

- `geometric`, the default, is the formula above for any $H$, as in the paper's text.
- `press` is the rule of the authors' release, and of BLOOM, Falcon and MPT in `transformers`: the slopes of $P$ heads,
  with $P$ the largest power of two below $H$, and then every second slope of $2P$ heads. For 6 heads it gives
  $2^{-2}, 2^{-4}, 2^{-6}, 2^{-8}, 2^{-1}, 2^{-3}$.

`causal=true` stays closer to the source: the decoder penalises only keys behind the query, and there is no penalty
between decoder and encoder. The encoder keeps the symmetric penalty; without one it would be blind to order. In a
decoder-only model the option changes no score, because keys ahead are masked.

`shear` has the same term as a representation of the integers.

Shapes: B batch, H heads, M queries, N keys, K channels of a head. Positions are 0-based steps.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ape_cli.core.errors import pick
from ape_cli.position import Context, Scheme, Shape
from ape_cli.position._offsets import pair_terms

SLOPES = ["geometric", "press"]
SLOPES_HELP = "Slope of head h of H: geometric, 2^(-8h/H); press, that of the authors' code if H is not a power of two."


class Alibi(Scheme):
    """A linear penalty on the distance between query and key, with slope $2^{-8h/H}$ in head $h$ of $H$.

    Arguments: `causal`, whether the penalty is only on keys behind the query in the decoder, and there is none between
    decoder and encoder; `slopes`, `geometric` or `press`. Raises `UsageError` for any other slopes.
    """

    relative = True
    option_help: ClassVar[dict[str, str]] = {
        "causal": "In the decoder, penalise only keys behind the query, not those of the encoder.",
        "slopes": SLOPES_HELP,
    }
    synonyms = ("linear-bias",)
    source = "Press et al. 2022, arXiv:2108.12409, section 3"
    encoder_decoder_options = ("causal",)
    unique = False  # equal distances to the left and to the right are encoded alike
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"causal": True},)
    real_positions = True
    memory = "H L^2"
    extrapolation = "excellent"

    def __init__(self, shape: Shape, causal: bool = False, slopes: str = "geometric") -> None:
        """Store where the penalty acts, and check the slopes."""
        super().__init__(shape)
        self.causal, self.slopes = causal, pick("slopes", slopes, SLOPES)

    @property
    def acts_between(self) -> bool:
        """Whether there is a term between decoder and encoder."""
        return not self.causal

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor | None:
        """-m |i - j|, after the 1/sqrt(K) scaling, in the dtype of the queries. q: [B, H, M, K]

        -> [B or 1, H, M, N], None if nothing is added
        """
        penalty = q_context.cached(k_context, self.penalty)
        return None if penalty is None else penalty.to(q.dtype)

    def penalty(self, q_context: Context, k_context: Context) -> Tensor | None:
        """The penalty -m |i - j|, which all layers share. -> float32 [B or 1, H, M, N], None if nothing is added"""
        if q_context.causal and not (k_context.causal or self.acts_between):
            return None

        def term(offset: Tensor) -> Tensor:
            distance = (-offset).clamp(min=0) if self.causal and q_context.causal else offset.abs()
            m = slopes(self.shape.heads, offset.device, self.slopes).view(-1, *(1 for _ in offset.shape))
            return -(m * distance).float()

        return pair_terms(q_context, k_context, term)


def slopes(heads: int, device: torch.device | None = None, kind: str = "geometric") -> Tensor:
    """The slope m of each of H heads, `geometric` or `press`. -> float64 [H]"""
    if kind == "press":
        power = 1 << (heads.bit_length() - 1)  # the largest power of two up to H
        return torch.cat([slopes(power, device), slopes(2 * power, device)[::2][: heads - power]])
    head = torch.arange(1, heads + 1, dtype=torch.float64, device=device)
    return 2.0 ** (-8 * head / heads)

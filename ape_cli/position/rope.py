r"""RoPE: queries and keys are rotated by angles proportional to their positions.

Source: Su et al. 2021, arXiv:2104.09864, section 3.2. The channel pair $(2i, 2i+1)$ of each head is rotated by
$p \cdot \text{base}^{-2i/K}$ with base 10000, before the scaling by $1/\sqrt{K}$. The score depends only on the offset.

- `interleaved=false` pairs channels $(i, i + K/2)$ instead, as other releases do. It is the same scheme with the
  channels in a different order.
- `learned=true` learns the angles of each head, starting from those above. By appendix A of Algebraic Positional
  Encodings, this is `orthogonal-seq` with a different initialisation.
- `partial` is the share of a head's channels that are rotated, like `rotary_pct` in GPT-NeoX (Black et al. 2022,
  arXiv:2204.06745, section 2.1.1: a quarter). The first channels are rotated, $K$ in the formula is their number, and
  the others carry no position.
- `scaling` changes the frequencies for longer contexts, as in Llama 3.1: `{"rope_type": "llama3", "factor": 8.0, …}`.
  `_rope_scaling.py` has the formulas of `linear`, `llama3` and `yarn`. A `yarn` also multiplies scores by a constant,
  so its operators are rotations only up to this factor, and it claims no `homomorphism`.

Angles are computed from the given positions; nothing is cached between forward passes.

Shapes: B batch, H heads, N tokens, K channels of a head, of which R are rotated. Angles are in radians.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.position import Context, Scheme, Shape, Side
from ape_cli.position._rope_scaling import scaling_of
from ape_cli.position._rotation import Rotations, check_base, circle, frequencies, rotate_halves, rotate_pairs
from ape_cli.position._scheme import Homomorphism


class Rope(Scheme):
    """Rotation of channel pairs by angles that are proportional to the position.

    Arguments: `base`, of the frequencies; `learned`, whether the angles are learned; `interleaved`, whether channels
    (2i, 2i+1) form a pair; `partial`, the share of the channels that are turned; `scaling`, a dictionary with the
    `rope_type` and its fields, named as in `transformers`. Raises `UsageError` if the base is not above 1, if `partial`
    is not a share of an even number of channels, 2 or more, or if `scaling` is of another type or lacks a field.
    """

    relative = True
    option_help: ClassVar[dict[str, str]] = {
        "base": "Base of the frequencies.",
        "learned": "Learn the angles.",
        "interleaved": "Pair channels 2i and 2i + 1; false pairs i and i + K/2.",
        "partial": "Share of the channels that are rotated.",
        "scaling": "Scaling of the frequencies for longer contexts: `rope_type` and its fields (only in Python).",
    }
    real_positions = True
    synonyms = ("rotary", "roformer")
    source = "Su et al. 2021, arXiv:2104.09864, section 3.2"
    homomorphism: Homomorphism = "orthogonal"
    content_dependent = True
    variants = ({"learned": True}, {"interleaved": False}, {"partial": 0.5})
    memory = "L D"
    extrapolation = "good"

    def __init__(
        self,
        shape: Shape,
        base: float = 10_000.0,
        learned: bool = False,
        interleaved: bool = True,
        partial: float = 1.0,
        scaling: dict[str, Any] | None = None,
    ) -> None:
        """Check the options, and create the angles if they are learned."""
        super().__init__(shape)
        check_base(base, 10000)
        self.base, self.learned, self.interleaved = base, learned, interleaved
        self.turned = _part(shape.head_dim, partial)
        self.scaling = None if scaling is None else scaling_of(scaling)
        if self.scaling and self.scaling.magnitude != 1.0:
            self.homomorphism = ""  # [x] [y] has the square of the factor
        if learned:
            self.angles = nn.Parameter(self.frequencies().float().repeat(shape.heads, 1))  # [H, R/2]

    def frequencies(self, device: torch.device | None = None) -> Tensor:
        """The fixed angle of one step for each pair, in radians. -> float64 [R/2]"""
        step = frequencies(self.turned, self.base, device)
        return self.scaling.scaled(step, self.base) if self.scaling else step

    def rotations(self, context: Context, _: Context) -> Rotations:
        """The rotations by the angles [B or 1, H or 1, N, R/2] of positions, which all layers share."""
        positions = context.positions  # int64 or floating point [B or 1, N]
        step = self.angles.double() if self.learned else self.frequencies(positions.device)[None]
        angle = positions[:, None, :, None] * step[:, None]
        return Rotations(angle, circle(angle) * self.scaling.magnitude if self.scaling else None)

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """Turn the vectors at each position. [B, H, N, K] -> the same"""
        if self.turned < x.shape[-1]:
            return torch.cat([self.rotate(x[..., : self.turned], context, side), x[..., self.turned :]], dim=-1)
        rotations = context.cached(context, self.rotations)
        return rotate_pairs(x, rotations) if self.interleaved else rotate_halves(x, rotations)


def _part(channels: int, share: float) -> int:
    """The number of channels in a share of them. Raises `UsageError` if it is not an even number, 2 or more."""
    part = round(channels * share) if 0.0 < share <= 1.0 else 0
    if part < 2 or part % 2 or abs(part - channels * share) > 1e-6:
        allowed = f"a share of the {channels} channels of a head that is an even number, such as {2 / channels:g} or 1"
        raise UsageError("bad partial", got=share, allowed=allowed, fix="GPT-NeoX uses 0.25")
    return part

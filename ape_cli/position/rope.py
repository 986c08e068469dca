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
  A `yarn` also multiplies scores by a constant, so its operators are rotations only up to this factor, and it claims no
  `homomorphism`.

With a scaling, each frequency $\theta$, in radians for each step, is divided by the factor $s$, kept, or something in
between:
$\theta' = \gamma \theta + (1 - \gamma) \theta / s$, with a share $\gamma$ for each channel pair $i$. $L$ is
`original_max_position_embeddings`, the context length before, and a pair makes $r = L \theta / 2 \pi$ turns within it.

- `linear`: $\gamma = 0$. Source: Chen et al. 2023, arXiv:2306.15595, section 2.3.
- `llama3`: $\gamma$ rises linearly with the turns $r$, from 0 at `low_freq_factor` to 1 at `high_freq_factor`. Source:
  the release of Llama 3.1. It is "NTK-by-parts" of Peng et al. 2023, arXiv:2309.00071, section 3.2.
- `yarn`: $\gamma$ falls linearly with the index $i$, from 1 at the pair that makes `beta_fast` turns to 0 at the one
  that makes `beta_slow`. With `truncate` both indices are rounded to whole ones, away from each other. Rotated vectors
  are multiplied by `attention_factor`, so scores by its square. By default it is $0.1 \ln s + 1$, or with `mscale` $m$
  and `mscale_all_dim` $a$, $(0.1 m \ln s + 1) / (0.1 a \ln s + 1)$. Source: the same paper,
  section 3.4. Deviation: the paper's $\gamma$ is linear in $r$. Its release, and models that use it, take $i$.

The names are those of `rope_parameters` in `transformers`. Types whose frequencies depend on the length of the text
(`dynamic`, `longrope`) are left out, because positions alone determine a rotation here.

Angles are computed from the given positions; nothing is cached between forward passes.

Shapes: B batch, H heads, N tokens, K channels of a head, of which R are rotated. Angles are in radians.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.position import Context, Scheme, Shape, Side
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


@dataclass(frozen=True)
class LinearScaling:
    """All frequencies are divided by the factor."""

    factor: float  # s

    @property
    def magnitude(self) -> float:
        """The number by which rotated vectors are multiplied."""
        return 1.0

    def kept(self, step: Tensor, base: float) -> Tensor:
        """The share gamma of each frequency that is kept. float64 [K/2], in radians for each step -> the same"""
        return torch.zeros_like(step)

    def scaled(self, step: Tensor, base: float) -> Tensor:
        """The scaled frequencies, from those of RoPE with this base. float64 [K/2] -> the same"""
        gamma = self.kept(step, base)
        return step * (gamma + (1 - gamma) / self.factor)


@dataclass(frozen=True)
class Llama3Scaling(LinearScaling):
    """Frequencies with many turns in the original context are kept, and those with few are divided."""

    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: float  # L

    def __post_init__(self) -> None:
        """Raises `UsageError` if the two ends are in the wrong order."""
        if self.high_freq_factor <= self.low_freq_factor:
            got = f"low_freq_factor {self.low_freq_factor:g}, high_freq_factor {self.high_freq_factor:g}"
            raise UsageError("bad scaling of rope", got=got, allowed="high_freq_factor above low_freq_factor")

    def kept(self, step: Tensor, base: float) -> Tensor:
        """Gamma rises with the number of turns. float64 [K/2] -> the same"""
        turns = self.original_max_position_embeddings * step / (2 * math.pi)
        return ((turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)).clamp(0, 1)


@dataclass(frozen=True)
class YarnScaling(LinearScaling):
    """Frequencies of the first pairs are kept, and those of the last are divided."""

    original_max_position_embeddings: float  # L
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True

    @property
    def magnitude(self) -> float:
        """The attention factor, which is given or follows from the factor."""
        if self.attention_factor is not None:
            return self.attention_factor
        over, under = (self.mscale, self.mscale_all_dim) if self.mscale and self.mscale_all_dim else (1.0, 0.0)
        growth = 0.1 * math.log(max(self.factor, 1.0))
        return (over * growth + 1.0) / (under * growth + 1.0)

    def kept(self, step: Tensor, base: float) -> Tensor:
        """Gamma falls with the index of the pair. float64 [K/2] -> the same"""
        channels = 2 * len(step)
        # base^(-2i/K) L / 2 pi turns = beta, solved for i
        first, last = (
            channels * math.log(self.original_max_position_embeddings / (2 * math.pi * turns)) / (2 * math.log(base))
            for turns in (self.beta_fast, self.beta_slow)
        )
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, channels - 1)  # the release's limits
        index = torch.arange(len(step), dtype=step.dtype, device=step.device)
        return 1 - ((index - first) / ((last - first) or 0.001)).clamp(0, 1)


SCALINGS: dict[str, type[LinearScaling]] = {"linear": LinearScaling, "llama3": Llama3Scaling, "yarn": YarnScaling}


def scaling_of(given: dict[str, Any]) -> LinearScaling:
    """The scaling that a dictionary describes: its `rope_type`, and the fields of that type.

    Raises `UsageError` for an unknown type, for a field that is missing or unknown, and for a bad value.
    """
    values = dict(given) if isinstance(given, dict) else {}
    scaling = SCALINGS.get(str(values.pop("rope_type", "")))
    if scaling is None:
        allowed = f"a dictionary with a `rope_type`: {', '.join(SCALINGS)}"
        fix = "choose one of these, or a scheme other than rope"
        raise UsageError("bad scaling of rope", got=given, allowed=allowed, fix=fix)
    needed = {field.name for field in fields(scaling) if field.default is MISSING}
    names = [field.name for field in fields(scaling)]
    switches = [name for name in values if isinstance(values[name], bool)]
    numbers = (value for name, value in values.items() if name not in switches)
    positive = all(isinstance(value, int | float) and 0 < value < math.inf for value in numbers)
    if not needed <= values.keys() <= set(names) or not positive or switches != ["truncate"] * ("truncate" in values):
        allowed = f"{', '.join(sorted(needed))}, and maybe others of: {', '.join(names)}"
        fix = "give numbers above 0, and true or false for `truncate`"
        raise UsageError("bad scaling of rope", got=given, allowed=allowed, fix=fix)
    return scaling(**values)

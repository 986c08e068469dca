r"""Scaling of RoPE's frequencies, by which released models read longer contexts than they were first trained on.

Each frequency $\theta$, in radians for each step, is divided by the factor $s$, kept, or something in between:
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
"""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields
from typing import Any

import torch
from torch import Tensor

from ape_cli.core.errors import UsageError


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


KINDS: dict[str, type[LinearScaling]] = {"linear": LinearScaling, "llama3": Llama3Scaling, "yarn": YarnScaling}


def scaling_of(given: dict[str, Any]) -> LinearScaling:
    """The scaling that a dictionary describes: its `rope_type`, and the fields of that type.

    Raises `UsageError` for an unknown type, for a field that is missing or unknown, and for a bad value.
    """
    what = "bad scaling of rope"
    kind = KINDS.get(given.get("rope_type", "")) if isinstance(given, dict) else None
    if kind is None:
        allowed = f"a dictionary with a `rope_type`: {', '.join(KINDS)}"
        fix = "choose one of these, or a scheme other than rope"
        raise UsageError(what, got=given, allowed=allowed, fix=fix)
    values = {name: value for name, value in given.items() if name != "rope_type"}
    known = {field.name: field.default for field in fields(kind)}
    missing = [name for name, default in known.items() if default is MISSING and name not in values]
    if missing or not values.keys() <= known.keys():
        without = f", without {' and '.join(missing)}" if missing else ""
        allowed = f"for {given['rope_type']}: {', '.join(known)}"
        raise UsageError(what, got=f"{', '.join(values) or 'no field'}{without}", allowed=allowed)
    for name, value in values.items():
        number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
        if not (isinstance(value, bool) if name == "truncate" else number):
            allowed = "true or false" if name == "truncate" else "a number above 0"
            raise UsageError(what, got=f"{name}={value!r}", allowed=allowed)
    return kind(**values)

"""Values that tests of positions draw."""

from __future__ import annotations

import torch
from torch import Tensor


def draw(*shape: int, seed: int = 1) -> Tensor:
    """Standard normal values. -> float64"""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))

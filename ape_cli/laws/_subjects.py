"""What laws are measured on: small schemes, example structures, random paths that reach far."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ape_cli import position
from ape_cli.position import Scheme
from ape_cli.structure import Cyclic, Structure, Tree

D_MODEL, HEADS, MAX_SIZE = 32, 4, 8  # of the schemes that are measured
FAR, DEEP = 10_000, 40
EXAMPLES = {  # of each pattern
    "any": ("seq", "tree(2)", "tree(3)", "grid(2)", "grid(3)", "cyclic(6)", "seq*tree(2)", "tree(2)*cyclic(5)"),
    "tree(k)": ("tree(2)", "tree(3)"),
    "grid(n)": ("grid(2)", "grid(3)"),
    "cyclic(n)": ("cyclic(6)",),
}


def examples(name: str) -> list[str]:
    """Structures that a scheme reads, to measure it on."""
    return [e for pattern in position.load(name).structures for e in EXAMPLES.get(pattern, (pattern,))]


def make(name: str, expression: str, dtype: torch.dtype, **options: Any) -> Scheme:
    """A small scheme, the same weights in either precision. Without a locality bias unless `decay` says so."""
    generator = torch.Generator().manual_seed(3)
    given = {"decay": 1.0, "max_size": MAX_SIZE} | options
    return position.make(name, D_MODEL, HEADS, structure=expression, generator=generator, **given).to(dtype)


# Positions ---------------------------------------------------------------------------------------


def paths(structure: Structure, count: int, reach: float, seed: int) -> Tensor:
    """Random paths, the longest of them first. `reach`: 1 for `FAR` and `DEEP`. -> [1, N] or [1, N, C]"""
    generator = torch.Generator().manual_seed(seed)

    def one(simple: Structure) -> Tensor:
        if not isinstance(simple, Tree):
            drawn = torch.randint(1, max(3, round(FAR * reach)), (1, count), generator=generator)
            drawn[0, 0] = round(FAR * reach)
            return drawn
        deepest = max(1, int(min(DEEP, simple.max_depth) * reach))
        depth = torch.randint(1, deepest + 1, (1, count), generator=generator)
        depth[0, 0] = deepest
        width = simple.branching**depth
        within = (torch.rand(1, count, generator=generator, dtype=torch.float64) * width).long().clamp(max=width - 1)
        return simple.level_start(depth) + within

    drawn = [one(simple) for simple in structure.simple]
    return drawn[0] if len(drawn) == 1 else torch.stack(drawn, dim=-1)


def near(structure: Structure, count: int) -> Tensor:
    """The first places, all different, as a bounded scheme can tell them apart. -> [1, N] or [1, N, C]"""
    places = torch.arange(1, count + 1)[None]
    if structure.width == 1:
        return places % structure.order if isinstance(structure, Cyclic) else places
    return torch.stack([places + (places % (i + 2) == 0) * (i + 1) for i in range(structure.width)], dim=-1)


def origin(structure: Structure, count: int = 1) -> Tensor:
    return torch.zeros((1, count, structure.width) if structure.width > 1 else (1, count), dtype=torch.int64)


def vectors(dtype: torch.dtype, rows: int, count: int, seed: int) -> Tensor:
    """[B, H, N, K], standard normal, the same numbers in either precision."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, HEADS, count, D_MODEL // HEADS, generator=generator, dtype=torch.float64).to(dtype)


def greatest(x: Tensor) -> Tensor:
    return x.detach().abs().max()

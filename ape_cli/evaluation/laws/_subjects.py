"""What laws are measured on: small schemes, example structures, random paths that reach far."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ape_cli import position
from ape_cli.position import Scheme
from ape_cli.structure import Cyclic, Structure, Tree

D_MODEL, HEADS, MAX_SIZE = 32, 4, 8  # of the schemes that are measured
FAR, DEEP = 10_000, 40  # steps and levels
EXAMPLES = {  # of each pattern
    "any": ("seq", "tree(2)", "tree(3)", "grid(2)", "grid(3)", "cyclic(6)", "seq*tree(2)", "tree(2)*cyclic(5)"),
    "tree(k)": ("tree(2)", "tree(3)"),
    "grid(n)": ("grid(2)", "grid(4)"),  # which share D_MODEL evenly
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


def paths(structure: Structure, count: int, seed: int, *, steps: int = FAR, depth: int = DEEP) -> Tensor:
    """Random paths, the longest of them first: up to `steps` along lines and rings, up to `depth` down trees
    (or as far as their heap indices reach). -> [1, N] or [1, N, C]"""
    generator = torch.Generator().manual_seed(seed)

    def one(simple: Structure) -> Tensor:
        if not isinstance(simple, Tree):
            drawn = torch.randint(1, steps + 1, (1, count), generator=generator)
            drawn[0, 0] = steps
            return drawn
        deepest = min(depth, simple.max_depth * depth // DEEP)
        level = torch.randint(1, deepest + 1, (1, count), generator=generator)
        level[0, 0] = deepest
        width = simple.branching**level
        within = (torch.rand(1, count, generator=generator, dtype=torch.float64) * width).long().clamp(max=width - 1)
        return simple.level_start(level) + within

    drawn = [one(simple) for simple in structure.simple]
    return drawn[0] if len(drawn) == 1 else torch.stack(drawn, dim=-1)


def rows(structure: Structure, count: int) -> Tensor:
    """Three rows that reach to different places and depths, all axes of a grid together. -> [3, N] or [3, N, C]"""
    reaches = ((12 // structure.width, 2), (60 // structure.width, 5), (300 // structure.width, 12))
    return torch.cat([paths(structure, count, i, steps=s, depth=d) for i, (s, d) in enumerate(reaches)])


def near(structure: Structure, count: int) -> Tensor:
    """The first places, all different, as a bounded scheme can tell them apart. -> [1, N] or [1, N, C]"""
    places = torch.arange(1, count + 1)[None]
    if structure.width == 1:
        return places % structure.order if isinstance(structure, Cyclic) else places
    return torch.stack([places + (places % (i + 2) == 0) * (i + 1) for i in range(structure.width)], dim=-1)


def length(structure: Structure, x: Tensor, y: Tensor, metric: str = "path") -> Tensor:
    """From each x to each y: steps of the path, counted one by one, or the straight line. [1, M], [1, N] (, C) ->
    [M, N], float64"""

    def between(simple: Structure, a: int, b: int) -> int:
        if isinstance(simple, Tree):
            above = [_ancestors(simple.branching, max(heap, 1)) for heap in (a, b)]
            return len(set(above[0]) ^ set(above[1]))
        if isinstance(simple, Cyclic):
            return min((a - b) % simple.order, (b - a) % simple.order)
        return abs(a - b)

    def whole(a: list[int], b: list[int]) -> float:
        if metric == "euclidean":
            return math.dist(a, b)
        return sum(between(s, p, q) for s, p, q in zip(structure.simple, a, b, strict=True))

    wide_x, wide_y = (at[0].reshape(at.shape[1], -1).tolist() for at in (x, y))
    return torch.tensor([[whole(a, b) for b in wide_y] for a in wide_x], dtype=torch.float64)


def _ancestors(branching: int, heap: int) -> list[int]:
    """A node and all above it."""
    found = [heap]
    while found[-1] > 1:
        found.append((found[-1] - 2) // branching + 1)
    return found


def origin(structure: Structure) -> Tensor:
    """The empty path. -> [1, 1] or [1, 1, C]"""
    return torch.zeros((1, 1, structure.width) if structure.width > 1 else (1, 1), dtype=torch.int64)


def vectors(dtype: torch.dtype, count: int, seed: int) -> Tensor:
    """[1, H, N, K], standard normal, the same numbers in either precision."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, HEADS, count, D_MODEL // HEADS, generator=generator, dtype=torch.float64).to(dtype)


def greatest(x: Tensor) -> Tensor:
    return x.detach().abs().max()

"""The subjects on which laws are measured: small schemes, example structures, and random paths that reach far.

Shapes: H heads, M and N tokens, C coordinates of a position, K channels of a head.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ape_cli import position
from ape_cli.position import Scheme
from ape_cli.structure import Cyclic, Structure, Tree

Module = TypeVar("Module", bound=nn.Module)
D_MODEL, HEADS, MAX_SIZE = 32, 4, 8  # sizes of the schemes that are measured
FAR, DEEP = 10_000, 40  # steps and levels
EXAMPLES = {  # example structures of each pattern
    "any": ("seq", "tree(2)", "tree(3)", "grid(2)", "grid(3)", "cyclic(6)", "seq*tree(2)", "tree(2)*cyclic(5)"),
    "tree(k)": ("tree(2)", "tree(3)"),
    "grid(n)": ("grid(2)", "grid(4)"),  # their axes share D_MODEL evenly
    "cyclic(n)": ("cyclic(6)",),
}


def examples(name: str) -> list[str]:
    """The structures on which a scheme is measured, out of those that it reads."""
    return [e for pattern in position.load(name).structures for e in EXAMPLES.get(pattern, (pattern,))]


def make(name: str, expression: str, dtype: torch.dtype, **options: Any) -> Scheme:
    """A small scheme, with the same weights in either precision. It has no locality bias unless `decay` is given."""
    generator = torch.Generator().manual_seed(3)
    settings = {"decay": 1.0, "max_size": MAX_SIZE} | options
    made = position.make(name, D_MODEL, HEADS, structure=expression, generator=generator, **settings)
    return converted(made, dtype)


def converted(module: Module, dtype: torch.dtype) -> Module:
    """A module in this precision, for evaluation. Complex numbers stay complex."""
    return (module.double() if dtype == torch.float64 else module.float()).eval()


# Positions ---------------------------------------------------------------------------------------


def paths(structure: Structure, count: int, seed: int, *, steps: int = FAR, depth: int = DEEP) -> Tensor:
    """Random paths, the longest one first. -> int64 [1, N] or [1, N, C]

    They have up to `steps` steps along lines and rings. In trees they have up to `depth` steps, or as many as heap
    indices can hold.
    """
    generator = torch.Generator().manual_seed(seed)

    def coordinate(simple: Structure) -> Tensor:
        """The coordinate of a simple factor. -> int64 [1, N]"""
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

    drawn = [coordinate(simple) for simple in structure.simple]
    return drawn[0] if len(drawn) == 1 else torch.stack(drawn, dim=-1)


def rows(structure: Structure, count: int) -> Tensor:
    """Three rows that reach to different distances and depths, shared among the axes of a grid.

    -> int64 [3, N] or [3, N, C]
    """
    reaches = ((12 // structure.width, 2), (60 // structure.width, 5), (300 // structure.width, 12))
    return torch.cat([paths(structure, count, i, steps=s, depth=d) for i, (s, d) in enumerate(reaches)])


def near(structure: Structure, count: int) -> Tensor:
    """The first places, all of them different, which a bounded scheme can tell apart. -> int64 [1, N] or [1, N, C]"""
    positions = torch.arange(1, count + 1)[None]
    if structure.width == 1:
        return positions % structure.order if isinstance(structure, Cyclic) else positions
    return torch.stack([positions + (positions % (i + 2) == 0) * (i + 1) for i in range(structure.width)], dim=-1)


def length(structure: Structure, x: Tensor, y: Tensor, metric: str = "path") -> Tensor:
    """The distance from each x to each y, computed by an independent method.

    [1, M], [1, N] (or with C) -> float64 [M, N]

    It is the number of steps of the path, counted one by one, or the Euclidean distance if `metric` is `euclidean`.
    """

    def between(simple: Structure, a: int, b: int) -> int:
        """The number of steps between two positions of a simple structure."""
        if isinstance(simple, Tree):
            above = [{max(heap, 1)} for heap in (a, b)]  # the node and all its ancestors
            for nodes in above:
                while (node := min(nodes)) > 1:
                    nodes.add((node - 2) // simple.branching + 1)
            return len(above[0] ^ above[1])
        if isinstance(simple, Cyclic):
            return min((a - b) % simple.order, (b - a) % simple.order)
        return abs(a - b)

    def whole(a: list[int], b: list[int]) -> float:
        """The distance between two positions of the whole structure."""
        if metric == "euclidean":
            return math.dist(a, b)
        return sum(between(s, p, q) for s, p, q in zip(structure.simple, a, b, strict=True))

    wide_x, wide_y = (at[0].reshape(at.shape[1], -1).tolist() for at in (x, y))
    return torch.tensor([[whole(a, b) for b in wide_y] for a in wide_x], dtype=torch.float64)


def origin(structure: Structure) -> Tensor:
    """The empty path. -> int64 [1, 1] or [1, 1, C]"""
    return torch.zeros((1, 1, structure.width) if structure.width > 1 else (1, 1), dtype=torch.int64)


def vectors(dtype: torch.dtype, count: int, seed: int) -> Tensor:
    """Standard normal vectors, the same numbers in either precision. -> [1, H, N, K]"""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, HEADS, count, D_MODEL // HEADS, generator=generator, dtype=torch.float64).to(dtype)


def greatest(x: Tensor) -> Tensor:
    """The greatest absolute value. [...] -> []"""
    return x.detach().abs().max()

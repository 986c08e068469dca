r"""Orthogonal, for any structure: paths become orthogonal operators, and composition becomes multiplication.

Source: Algebraic Positional Encodings, section 3. Let $[x]$ be the operator of the path $x$ from the origin. With
$q' = [x] q$ and $k' = [y] k$ the score is

$$
q'^\top k' = q^\top [x]^\top [y] k = q^\top [x^{-1} y] k
$$

The common prefix cancels, so only the path from query to key remains. Each head has its own operators, which all layers
share.

`structure` is any expression that `parse_structure` accepts. `side=query` and `side=key` are the absolute variants of
section 3.4.1: positions are paths from the origin, applied to one side only. (The locality bias, if any, still depends
on the distance between both positions.)

`init` selects the generators that training starts from. `identity` is near the identity: many small angles,
progressively fewer large ones, in random planes (appendix B of the preprint, arXiv:2312.16045v1). `rope` is the default
of the published version (v3): the rotations of RoPE. Each generator then turns the channel pairs (2i, 2i+1) by
$10000^{-2i/K}$, so all heads, and all branches of a tree, start alike. `orthogonal-seq` then starts with the scores of
`rope`, and `orthogonal-tree` with those of `rope` on depths. The authors' program has each frequency twice, and half as
many of them. The angles of `cyclic(n)` are fixed and have no start.

Generators are exponentials of skew-symmetric matrices, so they are rotations (determinant 1). There is no option for
reflections (determinant -1). Training could not move between the two, because they are separate components of the
orthogonal group; only the rotations contain the identity. Reflections would also add no more than one channel:
operators $g(x)$ with determinants $±1$ on $K - 1$ channels become rotations of $K$ channels if the last channel is
multiplied by $\det g(x)$, and this is again a homomorphism. On sequences, a reflection contributes a factor $(-1)^p$,
and so does a pair of channels that is rotated by $\pi$.

`_operators.py` defines the operators of every structure.

Shapes: B batch, H heads, N tokens, C factors of a product, K channels of a head.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ape_cli.core.errors import UsageError, pick
from ape_cli.data.position_plan import PositionPlan
from ape_cli.position import Context, FastScheme, Shape, Side
from ape_cli.position._branches import Branches
from ape_cli.position._operators import DirectSum, Interpretation, Operators
from ape_cli.position._powers import Joint, Powers, Ring
from ape_cli.structure import Cyclic, Seq, Structure, Tree

_INTERPRETATIONS: dict[type[Structure], type[Branches | Powers]] = {Seq: Powers, Cyclic: Ring, Tree: Branches}


class Orthogonal(FastScheme):
    """Orthogonal operators for the paths of any structure.

    Arguments: `side`, where the operators act: `both`, `query` or `key`; `init`, how the generators start: `identity`
    or `rope`. Raises `UsageError` for any other value, if a head has too few channels for the structure, and for
    `init=rope` if the structure has only rings.
    """

    structures = ("any",)
    relative = True
    default_decay = 0.98
    option_help: ClassVar[dict[str, str]] = {
        "side": "Side that the operators apply to: both, query or key.",
        "init": "Start of the generators: identity (near it), or rope (RoPE's rotations).",
    }
    synonyms = ("algebraic", "ape")
    source = "Algebraic Positional Encodings, section 3"
    homomorphism = "orthogonal"
    content_dependent = True
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"side": "query"}, {"side": "key"})
    memory = "as its factors"

    def __init__(self, shape: Shape, side: str = "both", init: str = "identity") -> None:
        """Create the operators of the structure."""
        super().__init__(shape)
        self.side = pick("side", side, ["both", "query", "key"])
        self.relative = side == "both"
        self.operators = self.draw_operators(shape)
        if pick("init", init, ["identity", "rope"]) == "rope":
            simple = shape.structure.simple
            if all(isinstance(factor, Cyclic) for factor in simple):
                what = "init=rope has no effect on rings, whose angles are fixed"
                raise UsageError(what, got=f"structure {shape.structure.expression}", fix="leave init out")
            self.operators.start_as_rope()
            self.unique = not any(isinstance(factor, Tree) for factor in simple)  # at the start, branches are alike

    def draw_operators(self, shape: Shape) -> Interpretation:
        """The operators of the structure, which a subclass may replace. Raises `UsageError` if a head is too narrow."""
        return interpret(shape.structure, shape.head_dim, shape.heads, shape.generator)

    def generators(self) -> Tensor:
        """The generators of a simple structure as matrices. -> [generator, H, K, K]

        Raises `UsageError` for a product.
        """
        return self.operators.generators()

    def plan(self, positions: Tensor, shared_with: PositionPlan | None = None) -> PositionPlan:
        """The operators' plan of positions, int64 [B or 1, N] or [B or 1, N, C] on the CPU."""
        return self.operators.plan(positions, shared_with)

    def prepare(self, positions: Tensor, plan: PositionPlan | None, shared_with: Any) -> Operators:
        """The operators of positions, int64 [B or 1, N] or [B or 1, N, C]."""
        return self.operators.prepare(positions, plan, shared_with)

    def basis(self, context: Context) -> Tensor | None:
        """The basis that is common to all positions. -> [H, K, K], None for the identity"""
        operators: Operators = context.state
        return operators.basis

    def rotate_in_basis(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """The operator of each position applied to the vectors there, in the basis of `basis`. [B, H, N, K] -> the same

        The vectors are returned unchanged if the operators do not act on this side.
        """
        operators: Operators = context.state
        return operators(x) if self.side in ("both", side) else x


def interpret(structure: Structure, channels: int, heads: int, generator: torch.Generator | None) -> Interpretation:
    """The operators of a structure on `channels` channels of each head. `channels` is even.

    The factors of a product share the channels (see `shares`). Raises `UsageError` if there are too few.
    """
    simple = structure.simple
    if len(simple) == 1:
        return _INTERPRETATIONS[type(simple[0])](simple[0], channels, heads, generator)
    widths = shares(structure, channels)
    parts = [interpret(factor, width, heads, generator) for factor, width in zip(simple, widths, strict=True)]
    joint = all(isinstance(part, Powers) for part in parts)
    return (Joint if joint else DirectSum)(parts, widths)


def shares(structure: Structure, channels: int) -> list[int]:
    """The number of channels of each factor of a product, out of `channels`, which is even.

    They share the channels evenly, in pairs. The first factors get the pairs that are left over. Raises `UsageError`
    if there are fewer pairs than factors.
    """
    pairs, over = divmod(channels // 2, structure.width)
    if not pairs:
        what, got = f"a head is too narrow for {structure.expression}", f"{channels} channels a head"
        raise UsageError(
            what, got=got, allowed=f"at least {2 * structure.width}", fix="a larger d_model or fewer heads"
        )
    return [2 * (pairs + (i < over)) for i in range(structure.width)]

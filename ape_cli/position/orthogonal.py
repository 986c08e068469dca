"""Orthogonal, for any structure: a path becomes an orthogonal operator, composition becomes multiplication.

Source: Algebraic Positional Encodings, section 3. With [x] the operator of the path x from the origin,
q' = [x] q and k' = [y] k, the score is q' [x]' [y] k = q' [x^-1 y] k: the common prefix cancels and the
path from query to key alone is left. Operators are one set per head, shared by all layers.

`structure` is any expression that `structure.parse` takes; `_algebra.py` interprets it. `side="query"` or
`side="key"` is the absolute variant of section 3.4.1: positions are paths from the origin, applied on
one side only (the locality bias, if it is on, still sees the distance between the two).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor

from ape_cli.core.errors import pick
from ape_cli.data.position_plan import PositionPlan, run_of
from ape_cli.position import Context, Scheme, Shape, Side
from ape_cli.position._algebra import interpret
from ape_cli.position._heads import by_head


class Orthogonal(Scheme):
    structures = ("any",)
    relative = True
    default_decay = 0.98
    source = "Algebraic Positional Encodings, section 3"
    homomorphism = True
    content_dependent = True
    renamed: ClassVar[dict[str, str]] = {name: f"operators.{name}" for name in ("angles", "basis", "free")}
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"side": "query"}, {"side": "key"})
    memory = "as its factors"

    def __init__(self, shape: Shape, side: str = "both") -> None:
        super().__init__(shape)
        self.side = pick("side", side, ["both", "query", "key"])
        self.relative = side == "both"
        self.operators = interpret(shape.structure, shape.head_dim, shape.heads, shape.generator)

    def generators(self) -> Tensor:
        """The generators of a simple structure as matrices. -> [generator, H, K, K]"""
        return self.operators.generators()

    def prepare(self, positions: Tensor) -> Any:
        return self.operators.prepare(positions)

    def prepare_beside(self, positions: Tensor, state: Any) -> Any:
        return self.operators.prepare(positions, state)

    def plan(self, positions: Tensor, beside: PositionPlan | None = None) -> PositionPlan:
        return replace(self.operators.plan(positions, beside), first=run_of(positions))

    def prepare_planned(self, positions: Tensor, plan: PositionPlan, state: Any) -> Any:
        return self.operators.prepare_planned(positions, plan, state)

    def frame(self, context: Context) -> Tensor | None:
        return self.operators.frame(context.state)

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        frame = self.frame(context)
        return self.turn(x if frame is None else by_head(x, frame.to(x.dtype)), context, side)

    def turn(self, x: Tensor, context: Context, side: Side) -> Tensor:
        return self.operators.turn(x, context.state) if self.side in ("both", side) else x

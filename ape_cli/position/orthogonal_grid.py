"""Orthogonal, for grids: each axis turns its own share of the channels by powers of its own matrix.

Source: Algebraic Positional Encodings, section 3.3: [(h, w)] = H^h + W^w, block by block (`_algebra.py`).

`distance` is that of the locality bias between two places that are h rows and w columns apart: `path`, the number of
steps, |h| + |w| (the source's, section 4.2), or `euclidean`, sqrt(h^2 + w^2), which favours no direction (ours). Either
depends on the path between the two alone.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from ape_cli.core.errors import UsageError, pick
from ape_cli.position import Shape
from ape_cli.position.orthogonal import Orthogonal
from ape_cli.structure import Grid


class OrthogonalGrid(Orthogonal):
    structures = ("grid(n)",)
    source = "Algebraic Positional Encodings, section 3.3"
    memory = "L D"
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"distance": "euclidean", "decay": 0.98},)

    def __init__(self, shape: Shape, side: str = "both", distance: str = "path") -> None:
        super().__init__(shape, side)
        self.metric = pick("distance", distance, ["path", "euclidean"])
        if distance != "path" and shape.decay == 1.0:
            raise UsageError(
                f"distance={distance} has no effect without a locality bias",
                got=f"distance={distance}, decay=1",
                allowed="a decay below 1, and an attention that takes it",
                fix="--set decay=0.98, or leave distance out",
            )

    def apart(self, x: Tensor, y: Tensor) -> Tensor:
        if self.metric == "path":
            return super().apart(x, y)
        assert isinstance(self.structure, Grid)
        # float64: powers made in float32 differ in the last digit with their place in a tensor, and so with the padding
        return self.structure.straight(x, y).double()

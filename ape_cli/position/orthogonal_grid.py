r"""Orthogonal, for grids: each axis rotates its own share of the channels by powers of its own matrix.

Source: Algebraic Positional Encodings, section 3.3: $[(h, w)] = H^h \oplus W^w$, block by block.

`distance` selects the distance of the locality bias between places that are $h$ rows and $w$ columns apart. `path` is
the number of steps, $|h| + |w|$, as in section 4.2 of the source. `euclidean` is $\sqrt{h^2 + w^2}$, which favours no
direction; the authors' programs for images use its whole part. Both depend only on the path between the two places.

`_operators.py` defines the operators.

Shapes: B batch, M queries, N keys, C axes.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ape_cli.core.errors import UsageError, pick
from ape_cli.position import Context, Shape
from ape_cli.position.orthogonal import Orthogonal
from ape_cli.structure import Grid


class OrthogonalGrid(Orthogonal):
    """Orthogonal operators for grids.

    Arguments: `side` and `init`, as for `Orthogonal`; `distance`, the distance of the locality bias, `path` or
    `euclidean`. Raises `UsageError` for other values, and for a `distance` that has no effect because there is no
    locality bias.
    """

    structures = ("grid(n)",)
    option_help: ClassVar[dict[str, str]] = Orthogonal.option_help | {
        "distance": "Distance of the locality bias: path or euclidean.",
    }
    synonyms = ("algebraic-grid", "ape-grid")
    source = "Algebraic Positional Encodings, section 3.3"
    memory = "L D"
    variants: ClassVar[tuple[dict[str, Any], ...]] = (
        {"distance": "euclidean", "decay": 0.98},
        {"init": "rope"},
    )

    def __init__(self, shape: Shape, side: str = "both", distance: str = "path", init: str = "identity") -> None:
        """Create the operators and check the distance."""
        super().__init__(shape, side, init)
        self.metric = pick("distance", distance, ["path", "euclidean"])
        if distance != "path" and shape.decay == 1.0:
            what = f"distance={distance} has no effect without a locality bias"
            raise UsageError(what, got="decay=1", fix="`decay=0.98`, or leave distance out")

    def decay(self, q_context: Context, k_context: Context) -> Tensor | None:
        """The locality bias c^distance, with the distance of paths or of straight lines.

        -> float32 [B or 1, 1, M, N], or None if c = 1.
        """
        if self.metric == "path" or self.shape.decay == 1.0:
            return super().decay(q_context, k_context)
        assert isinstance(self.structure, Grid)
        # The distance is float64, because a power in float32 can differ in the last digit with its place in a tensor,
        # and so with the padding.
        q_at, k_at = q_context.positions[:, :, None], k_context.positions[:, None, :]
        return torch.pow(self.shape.decay, self.structure.straight(q_at, k_at).double()).float()[:, None]

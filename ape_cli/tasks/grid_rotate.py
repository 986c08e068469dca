"""The task `grid-rotate`: the target is the grid after a clockwise quarter turn."""

from __future__ import annotations

from dataclasses import dataclass

from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._grids import Grids, clockwise


@dataclass(frozen=True, kw_only=True)
class GridRotate(Grids):
    """Rotate a grid clockwise by a quarter turn. The first row becomes the last column; height and width swap.

    >>> task = GridRotate(side_mean=2)
    >>> row = task.sample(rows=range(1), split="train", seed=2).to_pylist()[0]
    >>> "".join(task.id_names[i] for i in row["source_ids"]), row["source_positions"]
    ('gjmmlp', [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]])
    >>> "".join(task.id_names[i] for i in row["target_ids"]), row["target_positions"]
    ('mgljpm', [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]])
    """

    summary = "a quarter turn clockwise: abc/def -> da/eb/fc"
    default_for = "grid(n)"

    def target(self, source: Source) -> Tokens:
        """The target of each source: the rotated grid."""
        first, after = source.offsets[:-1], source.offsets[1:]
        height, width = source.position[after - 1].T + 1  # the last cell is (h-1, w-1)
        taken, position = clockwise(first, height, width)
        return Tokens(source.offsets, position, source.symbol[taken])

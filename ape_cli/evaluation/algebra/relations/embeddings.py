"""Relations of encodings that are added to the embeddings.

Shapes: N positions, D channels of the model.
"""

from __future__ import annotations

from typing import Any

import torch

from ape_cli.evaluation.algebra.relations._relation import ConfiguredScheme, Relation, put
from ape_cli.position._rotation import frequencies

_SIZE = 200  # positions of the table


def _nothing(_: Any, __: Any) -> None:
    """Nothing has to be set."""


def _given(special: Any, general: Any) -> None:
    """The given matrix: its angles as they start, and I as the basis."""
    put(general.basis, torch.zeros(()))
    put(general.angles, -frequencies(special.shape.d_model, special.base))
    put(general.point, special.start(None))


def _table(special: Any, general: Any) -> None:
    """The vectors of all positions up to `max_size` as the rows of the table."""
    put(general.table, special.vectors(torch.arange(len(general.table))[None])[0])


_GIVEN = ConfiguredScheme("matrix-power")
RELATIONS = [
    Relation(ConfiguredScheme("sinusoidal"), _GIVEN, "the default matrix and point", _nothing, "vectors"),
    Relation(
        _GIVEN,
        ConfiguredScheme("matrix-power", {"learned": True}),
        "the same angles and point, basis I",
        _given,
        "vectors",
    ),
    Relation(
        ConfiguredScheme("sinusoidal"),
        ConfiguredScheme("learned", {"max_size": _SIZE}),
        "its vectors as a table, up to max_size",
        _table,
        "vectors",
    ),
]

"""Maps of positions: from the place of a token along the linearisation to its position. Each is a single file.

`--positions NAME` selects a map. Its name is that of its file, with `-` for `_`. A map acts on coordinates along the
linearisation, so it works with every scheme that reads words, or reads trees or grids as `seq`. Each row of a dataset
has its own draw, which source and target share. In an encoder-decoder, SOS is the empty path and stays at position 0.

Positions are drawn as follows:

- In training, again in each epoch, as a function of (seed of the run, epoch, row).
- In validation and evaluation, once for each row, from the seed of the run. All validations and greedy decoding
  therefore see the same positions.

A draw does not depend on the batch, the other rows, or the number of processes.
"""

from __future__ import annotations

import pkgutil
import sys
from functools import cache
from typing import Any

import numpy as np

from ape_cli.core import own_parts, part_options, plugins, rng
from ape_cli.core.errors import ApeError
from ape_cli.data.position_maps._position_map import PositionMap, RowPositions

__all__ = ["PLAIN", "PositionMap", "RowPositions", "check_positions", "load", "make", "names", "options"]

__path__ = pkgutil.extend_path(__path__, __name__)  # so that maps in another ape_cli/data/position_maps are found

PLAIN = "plain"  # the map that changes nothing


def names() -> list[str]:
    """The names of all maps, from the files in this folder and from entry points.

    >>> names()
    ['coupled', 'offset', 'plain', 'randomised']
    """
    return plugins.names(sys.modules[__name__])


@cache
def load(name: str) -> type[PositionMap]:
    """The class of a map. Raises `UsageError` for an unknown name, and `ApeError` if its file cannot be imported."""
    return plugins.load(sys.modules[__name__], name, PositionMap)  # type: ignore[type-abstract]


def options(name: str) -> dict[str, Any]:
    """The options of a map, with their defaults."""
    return part_options.options(load(name))


def make(name: str, **settings: Any) -> PositionMap:
    """Create a map by its name, with its options. Raises `UsageError` for names and options that are not valid."""
    found = load(name)
    with own_parts.explained(found):
        return found(**part_options.settings(f"positions {name}", settings, options(name)))


def check_positions(found: PositionMap) -> None:
    """Call a map on a few rows. Raises `ApeError` if it fails, or does not return int64 positions from 1 on.

    A map of ape itself is not checked.
    """
    if not plugins.is_own(type(found)):
        return
    sources = np.array([2, 3, 4])
    counts = found.capacity(sources, joined=False)
    counts = np.full(3, 5) if counts is None else counts
    most = int(counts.max())
    with own_parts.explained(found):
        positions = found.positions(rng.rows(0, "position", sources), counts, most)
    valid = isinstance(positions, np.ndarray) and positions.dtype == np.int64 and positions.shape == (3, most)
    if not valid or (positions[np.arange(most) < counts[:, None]] < 1).any():
        got = f"{positions.dtype} {list(positions.shape)}" if isinstance(positions, np.ndarray) else repr(positions)
        raise ApeError(
            f"`positions` of the position map {plugins.name_of(type(found))!r} returns something else",
            got=got + " with a position below 1" * bool(valid),
            allowed=f"int64 [B, most] from 1 on; here [3, {most}]",
            fix="correct its file",
        )

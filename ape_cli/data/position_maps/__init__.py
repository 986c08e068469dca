"""Maps of positions: from the place of a token along the linearisation to its position. One file for each map.

`--positions NAME` chooses one. Its stem, with `_` replaced by `-`, is the name. A map acts on coordinates along the
linearisation, so it works with every scheme that reads words, or reads trees or grids as `seq`. Each row of a dataset
has its own draw, which source and target share. SOS of an encoder-decoder is the empty path, and stays at position 0.

When positions are drawn:

- Training draws them anew in each epoch. The draw is a function of (seed of the run, epoch, row).
- Validation and evaluation draw them once for each row, from the seed of the run. So every validation sees the same
  positions, and so does greedy decoding.

A draw depends neither on the batch nor on the other rows, nor on the number of processes.
"""

from __future__ import annotations

import pkgutil
import sys
from functools import cache
from typing import Any

from ape_cli.core import plugins
from ape_cli.data.position_maps._position_map import PositionMap, RowPositions

__all__ = ["PLAIN", "PositionMap", "RowPositions", "load", "make", "names", "options"]

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
    found = plugins.load(sys.modules[__name__], "position map", name, PositionMap)  # type: ignore[type-abstract]
    plugins.remember(found)
    return found


def options(name: str) -> dict[str, Any]:
    """The options of a map, with their defaults."""
    return plugins.options(load(name))


def make(name: str, **settings: Any) -> PositionMap:
    """Create a map by its name, with its options. Raises `UsageError` for names and options that are not valid."""
    found = load(name)
    with plugins.explained("position map", found):
        return found(**plugins.settings(f"positions {name}", settings, options(name)))

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
from typing import TYPE_CHECKING, Any

from ape_cli.core import part_options, plugins, renamed, user_parts
from ape_cli.data.position_maps._rules import RULES
from ape_cli.data.position_maps._sampler import PositionSampler, RowPositions

__all__ = ["PLAIN", "RULES", "PositionSampler", "RowPositions", "load", "make", "names", "options"]

__path__ = pkgutil.extend_path(__path__, __name__)  # so that maps in another ape_cli/data/position_maps are found

if not TYPE_CHECKING:
    __getattr__ = renamed.attributes(__name__, {"PositionMap": "PositionSampler"})

PLAIN = "plain"  # the map that changes nothing


def names() -> list[str]:
    """The names of all maps, from the files in this folder and from entry points.

    >>> names()
    ['abacus', 'coupled', 'offset', 'plain', 'randomised']
    """
    return plugins.names(sys.modules[__name__])


@cache
def load(name: str) -> type[PositionSampler]:
    """The class of a map. Raises `UsageError` for an unknown name, and `ApeError` if its file cannot be imported."""
    return plugins.load(sys.modules[__name__], name, PositionSampler)  # type: ignore[type-abstract]


def options(name: str) -> dict[str, Any]:
    """The options of a map, with their defaults."""
    return part_options.options(load(name))


def make(name: str, **settings: Any) -> PositionSampler:
    """Create a map by its name, with its options. Raises `UsageError` for names and options that are not valid."""
    cls = load(name)
    chosen = part_options.settings(f"positions {name}", settings, part_options.options(cls))
    with user_parts.explained(cls):
        sampler = cls(**chosen)
    vars(sampler)["_made_with"] = chosen  # also in a frozen dataclass
    return sampler

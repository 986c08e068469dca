"""No positional encoding.

Attention in the encoder sees a bag of tokens. The decoder sees prefixes of one, because of its mask.

Source: the control of every comparison. If it is given a locality bias (`decay`), distances along the sequence are
all that it knows of positions.
"""

from __future__ import annotations

from ape_cli.position import Scheme


class NoEncoding(Scheme):
    """A scheme that does nothing, as the control of comparisons."""

    synonyms = ("nope", "no-position")
    source = "control"
    unique = False

"""None: no positional encoding.

Attention in the encoder sees a bag of tokens. The decoder sees prefixes of one, because of its mask.

Source: the control of every comparison. With a locality bias (`decay`), it knows only distances along the sequence.
"""

from __future__ import annotations

from ape_cli.position import Scheme


class NoEncoding(Scheme):
    """A scheme that does nothing, as the control of comparisons."""

    synonyms = ("nope", "no-position")
    source = "control"
    unique = False

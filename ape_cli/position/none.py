"""No positional encoding: attention sees a bag of tokens (the decoder, through its mask, prefixes of one).

Source: the control of every comparison. With a locality bias given to it (`decay`), distances along
the sequence are all that it knows of positions.
"""

from __future__ import annotations

from ape_cli.position import Scheme


class NoEncoding(Scheme):
    source = "control"
    unique = False

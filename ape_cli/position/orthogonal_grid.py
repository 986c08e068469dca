"""Orthogonal, for grids: each axis turns its own share of the channels by powers of its own matrix.

Source: Algebraic Positional Encodings, section 3.3: [(h, w)] = H^h + W^w, block by block (`_algebra.py`).
"""

from __future__ import annotations

from ape_cli.position.orthogonal import Orthogonal


class OrthogonalGrid(Orthogonal):
    structures = ("grid(n)",)
    source = "Algebraic Positional Encodings, section 3.3"
    memory = "L D"
    variants = ()  # those of `orthogonal`

"""Orthogonal, for sequences: position p is the p-th power of one orthogonal matrix per head.

Source: Algebraic Positional Encodings, sections 3.1 and 4.2, appendix A. The matrix has learned angles
and a learned basis (`_powers.py`); by appendix A it is RoPE with angles that are learned.
"""

from __future__ import annotations

from ape_cli.position.orthogonal import Orthogonal


class OrthogonalSeq(Orthogonal):
    structures = ("seq",)
    source = "Algebraic Positional Encodings, section 3.1"
    memory = "L D"
    variants = ()  # those of `orthogonal`

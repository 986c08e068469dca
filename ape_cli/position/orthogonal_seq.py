"""Orthogonal, for sequences: position p is the p-th power of an orthogonal matrix of each head.

Source: Algebraic Positional Encodings, sections 3.1 and 4.2, appendix A. The matrix has learned angles and a learned
basis. By appendix A, this is RoPE with learned angles; with `init=rope` it also starts as RoPE. `_powers.py` defines
the operators.
"""

from __future__ import annotations

from ape_cli.position.orthogonal import Orthogonal


class OrthogonalSeq(Orthogonal):
    """Orthogonal operators for sequences."""

    structures = ("seq",)
    synonyms = ("algebraic-seq", "ape-seq")
    source = "Algebraic Positional Encodings, section 3.1"
    memory = "L D"
    variants = ({"init": "rope"},)  # `orthogonal` has the others

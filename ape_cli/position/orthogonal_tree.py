"""Orthogonal, for trees: a path from the root is a product of orthogonal matrices, one for each branch taken.

Source: Algebraic Positional Encodings, sections 3.2 and 4.2. The operators do not commute, so left-right and right-left
are different places. `_branches.py` defines the operators.
"""

from __future__ import annotations

from ape_cli.position.orthogonal import Orthogonal


class OrthogonalTree(Orthogonal):
    """Orthogonal operators for trees."""

    structures = ("tree(k)",)
    synonyms = ("algebraic-tree", "ape-tree")
    source = "Algebraic Positional Encodings, section 3.2"
    memory = "D K a path"
    variants = ({"init": "rope"},)  # `orthogonal` has the others

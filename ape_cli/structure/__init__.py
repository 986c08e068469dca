"""Structures: what a position is, how positions compose, and how far apart two of them are.

A structure is an algebra of paths (paper, sections 3.1.1, 3.2.1, 3.3, 3.4), written as an expression:

    seq            the free group with one generator: the integers
    tree(k)        the free group with k generators, a branch each
    cyclic(n)      the integers modulo n: a ring of n places
    a*b, grid(n)   products, component by component; grid(n) is seq*seq*...*seq, n times

Positions are what every scheme reads: int64, one number for each simple factor. A single factor has
positions [...], a product of C has [..., C]. 0 is the empty path, which SOS has in every factor:

    seq, cyclic    tokens stand at 1, 2, ... (what a dataset stores, plus 1)
    tree(k)        a path from the root down is its heap index: the root is 1, the children of i are
                   k (i - 1) + 2 .. k (i - 1) + k + 1, so 2i and 2i + 1 for binary trees; 0 is read as 1

A heap index holds `max_depth` steps at most (62 for binary trees); whoever makes deeper ones is refused.
The functions on positions use nothing but operators, so NumPy arrays and torch tensors of int64 serve alike.
"""

from __future__ import annotations

from ape_cli.structure.algebras import Cyclic, Grid, Product, Seq, Structure, Tree, bit_length
from ape_cli.structure.expressions import LINE, columns, example, matches, parse_structure

__all__ = [
    "LINE",
    "Cyclic",
    "Grid",
    "Product",
    "Seq",
    "Structure",
    "Tree",
    "bit_length",
    "columns",
    "example",
    "matches",
    "parse_structure",
]

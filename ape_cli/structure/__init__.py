"""Structures: what a position is, how positions compose, and how far apart two positions are.

A structure is an algebra of paths (paper, sections 3.1.1, 3.2.1, 3.3, 3.4). It is written as an expression:

    seq            the free group with one generator: the integers
    tree(k)        the free group with k generators, one for each branch
    cyclic(n)      the integers modulo n: a ring of n places
    a*b, grid(n)   products, component by component; grid(n) is seq*seq*...*seq, n times
    line           as seq, but always the place along the linearisation, for data that has a factor seq of its own

Every scheme reads positions. They are int64, with one number for each simple factor: a structure with a single factor
has positions [...], and a product of C factors has positions [..., C]. 0 is the empty path. SOS has the position 0 in
every factor. All other tokens have these positions:

    seq, cyclic    1, 2, ... (what a dataset stores, plus 1)
    tree(k)        the heap index of the path from the root down: the root is 1, and the children of i are
                   k (i - 1) + 2 .. k (i - 1) + k + 1, so 2i and 2i + 1 for binary trees; 0 is read as 1

A heap index holds paths of at most `Tree.max_depth` steps (62 for binary trees). Tasks refuse to make deeper trees.
The methods that take positions use only operators, so they accept NumPy arrays and torch tensors of int64 alike.
"""

from __future__ import annotations

from ape_cli.structure.algebras import Cyclic, LinePlace, Seq, Structure, Tree, bit_length
from ape_cli.structure.expressions import (
    LINE,
    Grid,
    Product,
    StructureField,
    columns,
    example,
    factors_of,
    left_out,
    matches,
    parse_structure,
)

__all__ = [
    "LINE",
    "Cyclic",
    "Grid",
    "LinePlace",
    "Product",
    "Seq",
    "Structure",
    "StructureField",
    "Tree",
    "bit_length",
    "columns",
    "example",
    "factors_of",
    "left_out",
    "matches",
    "parse_structure",
]

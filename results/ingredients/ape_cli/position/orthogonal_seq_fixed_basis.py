"""Orthogonal for sequences, with learned angles in a random basis that is not learned."""

from __future__ import annotations

from ape_cli.position import Shape
from ape_cli.position._powers import Powers
from ape_cli.position.orthogonal_seq import OrthogonalSeq


class OrthogonalSeqFixedBasis(OrthogonalSeq):
    """Powers of an orthogonal matrix whose planes of rotation stay as they were drawn."""

    def draw_operators(self, shape: Shape) -> Powers:
        """The operators of `orthogonal-seq`, with the basis as a constant, float32 [H, K, K]."""
        operators = Powers(shape.structure, shape.head_dim, shape.heads, shape.generator)
        basis = operators.basis
        del operators.basis
        operators.register_buffer("basis", None if basis is None else basis.detach())
        return operators

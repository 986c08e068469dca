r"""Matrix power: position j is the vector M^j x, for an orthogonal matrix M and an evaluation point x.

Source: "Notes on attention and positional encodings" (Ganev), section 3. A sequential encoding is a homomorphism
$j \mapsto M^j$ of the natural numbers into matrices, and $x$ is an evaluation point if $j \mapsto M^j x$ is injective.
An additive encoding (definition 3.1) adds $M^j x$ to the embeddings. A multiplicative encoding (definition 3.7,
`multiplicative=true`) transforms each embedding, $x_j \mapsto M^j x_j$, and has no evaluation point.

By default, $M$ is given: it has blocks that rotate by $-\theta^{k-1}$ with $\theta = \text{base}^{-2/D}$, and
$x = (0, 1, 0, 1, …)$ (example 3.6). This is the sinusoidal table. In Python, `matrix` [D, D] can be any orthogonal
matrix and `point` [D] any vector. Their powers are computed by repeated squaring in float64 (14 products for 10,000
steps).

With `learned=true`, $M = Q R Q^\top$ with $Q = \exp(A - A^\top)$. The angles of $R$, the matrix $A$ and $x$ are
learned. The angles and $x$ start from the given ones. The powers of $M$ multiply the angles by $j$.

The encoding is applied once, at the input of the encoder and of the decoder. Attention is unchanged. SOS is $j = 0$.

Shapes: B batch, N tokens, D channels of the model.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.position import Context, Scheme, Shape
from ape_cli.position._operators import exponential, skew
from ape_cli.position._rotation import Rotations, check_base, frequencies, rotate_pairs, wide


class MatrixPower(Scheme):
    """Powers of an orthogonal matrix, which act on an evaluation point or on the embeddings.

    Arguments: `base`, the base of the given angles; `learned`, whether angles, basis and point are learned;
    `multiplicative`, whether embeddings are turned; `matrix`, float [D, D], an orthogonal matrix; `point`, float [D],
    the evaluation point. Raises `UsageError` for values that are not valid or do not fit together.
    """

    option_help: ClassVar[dict[str, str]] = {
        "base": "Base of the frequencies of the given matrix.",
        "learned": "Learn the matrix.",
        "multiplicative": "Multiply the embeddings by M^j instead of adding M^j x.",
        "matrix": "An orthogonal matrix [D, D] (only in Python).",
        "point": "The vector x, [D] (only in Python).",
    }
    source = "Ganev, Notes on attention and positional encodings, section 3"
    isometric = True
    variants = ({"learned": True}, {"multiplicative": True}, {"learned": True, "multiplicative": True})
    memory = "L D"

    def __init__(
        self,
        shape: Shape,
        base: float = 10_000.0,
        learned: bool = False,
        multiplicative: bool = False,
        matrix: Tensor | None = None,
        point: Tensor | None = None,
    ) -> None:
        """Check the options and create the parameters."""
        super().__init__(shape)
        check_base(base, 10000)
        d = shape.d_model
        self.base, self.learned, self.multiplicative = base, learned, multiplicative
        self.content_dependent = multiplicative
        self.matrix = None if matrix is None else _real(matrix, "matrix", (d, d))  # M, float64 [D, D]
        self.given = None if point is None else _real(point, "point", (d,))  # x, float64 [D]
        if matrix is not None and (learned or base != 10_000.0):
            raise UsageError(
                "a given matrix has no base, and is not learned", got="a matrix", fix="leave the others out"
            )
        if point is not None and multiplicative:
            raise UsageError("multiplicative encodings have no evaluation point", got="a point", fix="leave it out")
        if (
            self.matrix is not None
            and (self.matrix @ self.matrix.T - torch.eye(d, device=self.matrix.device)).abs().max() > 1e-9
        ):
            raise UsageError("the matrix is not orthogonal", got="M M' other than I", fix="orthogonalise it in float64")
        if learned:
            self.angles = nn.Parameter(-frequencies(d, base).float())  # [D/2]
            self.basis = nn.Parameter(torch.randn(d, d, generator=shape.generator) * d**-0.5)  # A: [D, D]
            if not multiplicative:
                self.point = nn.Parameter(self.start(None).float())  # [D]

    def start(self, device: torch.device | None) -> Tensor:
        """The evaluation point that is given, or at which learning starts. -> float64 [D]"""
        if self.given is None:
            return torch.arange(self.shape.d_model, dtype=torch.float64, device=device) % 2  # 0, 1, 0, 1, …
        return self.given.to(device)

    def power(self, v: Tensor, positions: Tensor) -> Tensor:
        """M^j v for each position j.

        v: [..., N, D]; positions: int64 [B or 1, N]. -> [B, N, D], or [1, N, D] if shared
        """
        if self.matrix is not None:
            return self._by_squaring(v, positions)
        if not self.learned:
            return rotate_pairs(v, Rotations(positions[..., None] * -frequencies(v.shape[-1], self.base, v.device)))
        with torch.autocast(v.device.type, enabled=False):  # in bfloat16 the matrix would not stay orthogonal
            exact = wide(v)
            q = exponential(skew(wide(self.basis))).to(exact.dtype)
            rotated = rotate_pairs(exact @ q, Rotations(positions[..., None] * self.angles.double()))
            return (rotated @ q.mT).to(v.dtype)

    def _by_squaring(self, v: Tensor, positions: Tensor) -> Tensor:
        """`power` of a given matrix, by repeated squaring in float64. The bits of the positions choose the factors.

        A compiled function, which does not read the positions, has products for all bits of an int64.
        """
        assert self.matrix is not None
        power = self.matrix.to(v.device)  # M^(2^bit)
        out, left = v.double(), positions
        bits = 63 if torch.compiler.is_compiling() or not left.numel() else int(left.max()).bit_length()
        for _ in range(bits):
            out = torch.where((left & 1 > 0)[..., None], out @ power.mT, out)
            left = left >> 1
            # beyond the last bit, rounding errors would be squared until they overflow
            power = torch.where((left > 0).any(), power @ power, power)
        return out.to(v.dtype)

    def vectors(self, positions: Tensor) -> Tensor:
        """The vectors M^j x of an additive encoding. int64 [B or 1, N] -> [B or 1, N, D]"""
        point = self.point if self.learned else self.start(positions.device)
        return self.power(point.expand(*positions.shape, -1), positions)

    def embed(self, x: Tensor, context: Context) -> Tensor:
        """Add M^j x to each embedding, or turn each embedding by M^j. [B, N, D] -> the same"""
        if self.multiplicative:
            return self.power(x, context.positions)
        return x + self.vectors(context.positions).to(x.dtype)


def _real(value: Tensor, name: str, shape: tuple[int, ...]) -> Tensor:
    """Convert a given array to float64. Raises `UsageError` if it is not a floating-point tensor of this shape."""
    if not isinstance(value, Tensor) or value.shape != shape or not value.is_floating_point() or value.is_meta:
        got = f"{value.dtype} {list(value.shape)} on {value.device}" if isinstance(value, Tensor) else repr(value)
        raise UsageError(f"bad {name}", got=got, allowed=f"a real tensor {list(shape)} (from Python)", fix="pass one")
    return value.detach().double()

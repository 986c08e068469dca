"""Skew-symmetric matrices and their exponentials, which the orthogonal schemes share.

Source: Algebraic Positional Encodings, sections 3.1.2, 3.2.2 and 4.2, appendix A. A generator is the exponential of a
skew-symmetric matrix, W = exp(S). Every such S is Q T Q' with Q orthogonal and T made of 2x2 blocks [[0, -t],
[t, 0]], where the t are the angles of rotation of W. So a skew-symmetric matrix with given angles is known in closed
form, and W^p turns each plane by p t. Generators start near the identity. Angles are in radians.

Shapes: H heads, G generators, K channels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_HALVINGS = 8  # number of halvings on CUDA


def start_angles(generators: int, heads: int, pairs: int) -> Tensor:
    """Angles near the identity: many small ones, progressively fewer large ones, and no two alike.

    -> float64 [G, H, K/2]

    They are quantiles of a distribution whose density falls with the angle. They are dealt out in turn, so each
    generator of each head has its own.
    """
    count = generators * heads * pairs
    quantile = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    angle = math.pi * quantile**3  # half of the angles are below pi/8; the density of an angle t falls as t^(-2/3)
    return angle.view(pairs, generators, heads).permute(1, 2, 0).contiguous()


def random_orthogonal(shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
    """Haar-distributed orthogonal matrices. -> float64, of the given shape [..., K, K]"""
    q, r = torch.linalg.qr(torch.randn(shape, generator=generator, dtype=torch.float64))
    return q * r.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]


def skew_of(angles: Tensor, basis: Tensor) -> Tensor:
    """The skew-symmetric matrix Q T Q' with these angles in this basis. [..., K/2], [..., K, K] -> [..., K, K]"""
    pairs = angles.shape[-1]
    block = angles.new_zeros(*angles.shape[:-1], 2 * pairs, 2 * pairs)
    even = torch.arange(0, 2 * pairs, 2, device=angles.device)
    block[..., even + 1, even] = angles
    block[..., even, even + 1] = -angles
    return basis @ block @ basis.mT


def exponential(s: Tensor) -> Tensor:
    """The matrix exponential of skew-symmetric matrices, which is orthogonal.

    float32 or float64 [..., K, K] -> the same

    It is a Taylor polynomial of s / 2^j, evaluated in powers of the third power (Paterson and Stockmeyer 1973) and
    then squared j times. `torch.linalg.matrix_exp` gives the same values, but its gradient is the exponential of
    matrices twice as large: forward and backward together take 3 to 5 times as long, and the gradient is no better.

    On CUDA it is computed in float64 (see `exact`). There j is fixed, because a j that depends on the matrices would
    have to be read back from the GPU. A matrix whose row sums of absolute values reach 2^8 then gives NaN.
    """
    if s.is_cuda:
        return fixed_exponential(exact(s)).to(s.dtype)
    norm = float(s.detach().abs().sum(-1).amax()) if s.numel() else 0.0
    halvings = max(0, math.frexp(norm)[1]) if math.isfinite(norm) else 0  # so that the scaled norm is below 1
    return _taylor(s, halvings)


def fixed_exponential(s: Tensor) -> Tensor:
    """`exponential` with a fixed number of squarings, and NaN if that is too few. float64 [..., K, K] -> the same"""
    norm = s.detach().abs().sum(-1).amax()
    valid = torch.ones_like(norm).masked_fill(~(norm < 2.0**_HALVINGS), math.nan)  # made on the device, not sent there
    return _taylor(s, _HALVINGS) * valid


def exact(x: Tensor) -> Tensor:
    """The same values in float64 on CUDA, and unchanged elsewhere. [...] -> the same

    On CUDA a product of float32 matrices may be rounded to TF32.
    """
    return x.double() if x.is_cuda else x


def _taylor(s: Tensor, halvings: int) -> Tensor:
    """The exponential by a Taylor polynomial of s / 2^halvings and `halvings` squarings. [..., K, K] -> the same"""
    last = 9 if s.dtype == torch.float32 else 15  # the remainder is below 1/12! and 1/18! respectively
    x = s * 2.0**-halvings
    identity = torch.eye(s.shape[-1], dtype=s.dtype, device=s.device)
    x2 = x @ x
    x3 = x2 @ x

    def three_terms(i: int) -> Tensor:
        """The terms of the degrees i, i + 1 and i + 2, divided by x^i."""
        a, b, c = (1.0 / math.factorial(j) for j in (i, i + 1, i + 2))
        return a * identity + b * x + c * x2

    total = three_terms(last)
    for i in range(last - 3, -1, -3):
        total = total @ x3 + three_terms(i)
    for _ in range(halvings):
        total = total @ total
    return total


def skew(free: Tensor) -> Tensor:
    """The skew-symmetric matrix A - A' of a free square matrix A. [..., K, K] -> the same"""
    return free - free.mT

"""The laws of a scheme's operators, measured.

Source: Algebraic Positional Encodings, laws L1 to L3 and sections 3.1 to 3.4; for U and D_i, Shiv and Quirk 2019,
section 3. M(x) is the operator of the path x as scores see it, [e]'[x] with e the empty path, so that a map that all
positions have in common drops out.

The functions from `identity` on are laws: each returns an error as a scalar, or None if there is nothing to measure.
The first line of a law's docstring is printed for users.

Shapes: H heads, N tokens, K channels of a head, R channels of a representation, n branches and k depth of a tree
scheme.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ape_cli.evaluation.laws._subjects import D_MODEL, DEEP, FAR, HEADS, greatest, origin, paths
from ape_cli.position import Scheme, Side
from ape_cli.structure import Cyclic, Structure, Tree

_SIDES: tuple[Side, Side] = ("query", "key")


def operators(scheme: Scheme, at: Tensor, dtype: torch.dtype) -> Tensor:
    """M of each position, on the side of the query and on the side of the key.

    int64 [1, N] -> [2, H, N, K, K], or [2, H, N, R, R] for a scheme that has a `representation` on R channels.
    """
    k = D_MODEL // HEADS

    def images(positions: Tensor, side: Side) -> Tensor:
        """The images of the basis vectors, as matrices. -> [H, N, K, K]"""
        given = scheme.representation(positions, side)
        if given is not None:
            return given.to(dtype)
        basis = torch.eye(k, dtype=dtype)[:, None, None].expand(k, HEADS, positions.shape[1], k)
        return scheme.rotate(basis, scheme.context(positions), side).permute(1, 2, 3, 0)  # [H, N, K, K]

    start, there = ([images(x, side) for side in _SIDES] for x in (origin(scheme.structure), at))
    if scheme.homomorphism == "linear":  # the inverse on one side is the transpose on the other
        start.reverse()
    return torch.stack([first.mT @ image for first, image in zip(start, there, strict=True)])


def _error(scheme: Scheme, x: Tensor, y: Tensor, size: Tensor) -> Tensor:
    """The greatest deviation of x from y. Operators that are not orthogonal may be large, so it is relative to `size`.

    [..., R, R] each -> scalar
    """
    deviation = (x - y).abs()
    return greatest(deviation / size.abs().clamp(min=1.0) if scheme.homomorphism == "linear" else deviation)


def _transposed(scheme: Scheme, x: Tensor) -> Tensor:
    """The inverses of operators: their transposes, on the other side if they are not orthogonal. [2, ...] -> as x"""
    return (x.flip(0) if scheme.homomorphism == "linear" else x).mT


def halves(structure: Structure, *seeds: int) -> Iterator[Tensor]:
    """Paths of half the greatest length that laws use, int64 [1, 8] or [1, 8, C] for each seed."""
    return (paths(structure, 8, seed, steps=FAR // 2, depth=DEEP // 2) for seed in seeds)


def identity(scheme: Scheme, dtype: torch.dtype) -> Tensor:
    """[e] = I, as scores see it: [e]' [e] = I"""
    return _from_identity(operators(scheme, origin(scheme.structure), dtype))


def composition(scheme: Scheme, dtype: torch.dtype) -> Tensor:
    """[x y] = [x] [y]"""
    x, y = halves(scheme.structure, 1, 2)
    whole = operators(scheme, scheme.structure.compose(x, y), dtype)
    one, other = operators(scheme, x, dtype), operators(scheme, y, dtype)
    return _error(scheme, whole, one @ other, one.abs() @ other.abs())


def inverse(scheme: Scheme, dtype: torch.dtype) -> Tensor:
    """[x y] [y]' = [x]: the transpose takes a path back; it is that of the other side if [y] is not orthogonal"""
    x, y = halves(scheme.structure, 3, 4)
    whole = operators(scheme, scheme.structure.compose(x, y), dtype)
    back = _transposed(scheme, operators(scheme, y, dtype))
    return _error(scheme, whole @ back, operators(scheme, x, dtype), whole.abs() @ back.abs())


def orthogonality(scheme: Scheme, dtype: torch.dtype) -> Tensor:
    """[x]' [x] = I, however long the path"""
    far = operators(scheme, paths(scheme.structure, 8, 5), dtype)
    return _from_identity(far.mT @ far)


def duality(scheme: Scheme, dtype: torch.dtype) -> Tensor:
    """[x]' on the side of the query times [x] on the side of the key = I, however long the path"""
    far = operators(scheme, paths(scheme.structure, 8, 5), dtype)
    back = _transposed(scheme, far)
    identity = torch.eye(far.shape[-1], dtype=dtype)
    return _error(scheme, back @ far, identity, back.abs() @ far.abs())


def period(scheme: Scheme, dtype: torch.dtype) -> Tensor | None:
    """[x] = [x + n] for `cyclic(n)`: W^n = I"""
    if not any(isinstance(s, Cyclic) for s in scheme.structure.simple):
        return None
    x = paths(scheme.structure, 8, 6)
    turns = torch.tensor([s.order if isinstance(s, Cyclic) else 0 for s in scheme.structure.simple])
    later = x + (turns if scheme.structure.width > 1 else turns[0])
    return greatest(operators(scheme, x, dtype) - operators(scheme, later, dtype))


def round_trip(scheme: Scheme, dtype: torch.dtype) -> Tensor | None:
    """U D_i = I for each branch i; D_i leads from a node to its child i, and U leads back to the parent.

    Returns a scalar, shape [].
    """
    tree = scheme.structure
    if not isinstance(tree, Tree):
        return None
    branches = range(tree.branching)
    if scheme.homomorphism:
        x = paths(tree, 8, 7, depth=DEEP - 4)
        child = [operators(scheme, tree.compose(x, torch.full_like(x, b + 2)), dtype) for b in branches]
        down = [operators(scheme, torch.tensor([[b + 2]]), dtype) for b in branches]
        up = [_transposed(scheme, d) for d in down]
        there = operators(scheme, x, dtype)
        return torch.stack(
            [_error(scheme, c @ u, there, c.abs() @ u.abs()) for c, u in zip(child, up, strict=True)]
        ).max()
    if not hasattr(scheme, "stack"):
        return None
    affine: Any = scheme  # with stacks [B, N, k, n] that each step changes by an affine map x -> A x + b
    node = torch.arange(1, tree.level_start(4))[None]  # with room for one more step
    (up, up_b), stack = affine.up(), affine.stack(node)[0].flatten(1).double()
    errors: list[Tensor] = []
    for b in branches:
        a, push = affine.down(b)
        below = affine.stack(tree.branching * (node - 1) + 2 + b)[0].flatten(1).double()
        errors += [stack @ a.T + push - below, below @ up.T + up_b - stack]
    return greatest(torch.stack(errors))


def _from_identity(x: Tensor) -> Tensor:
    """The greatest deviation of matrices from the identity. [..., K, K] -> scalar"""
    return greatest(x - torch.eye(x.shape[-1], dtype=x.dtype))

"""The algebra of a scheme, measured: its operators, its scores, its places.

Source: Algebraic Positional Encodings, laws L1 to L3 and sections 3.1 to 3.4; for U and D_i, Shiv and
Quirk 2019, section 3. M(x) is the operator of the path x as scores see it, [e]'[x] with e the empty path,
so that a map that all positions have in common drops out.

Shapes: H heads, N tokens, K channels of a head.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ape_cli import attention
from ape_cli.laws._subjects import D_MODEL, HEADS, MAX_SIZE, greatest, near, origin, paths, vectors
from ape_cli.position import Scheme
from ape_cli.structure import Cyclic, Tree


@runtime_checkable
class Affine(Protocol):
    """A scheme whose vectors a step changes by an affine map: (A, b) of x -> A x + b."""

    def down(self, branch: int) -> tuple[Tensor, Tensor]: ...

    def up(self) -> tuple[Tensor, Tensor]: ...


def operators(scheme: Scheme, at: Tensor, dtype: torch.dtype) -> Tensor:
    """M of each position. [1, N] -> [H, N, K, K]"""
    k = D_MODEL // HEADS

    def images(positions: Tensor) -> Tensor:
        basis = torch.eye(k, dtype=dtype)[:, None, None].expand(k, HEADS, positions.shape[1], k)
        return scheme.rotate(basis, scheme.context(positions), "key").permute(1, 2, 3, 0)  # [H, N, K, K]

    return images(origin(scheme.structure)).mT @ images(at)


def identity(scheme: Scheme, dtype: torch.dtype) -> Tensor | None:
    """[e] = I"""
    if not scheme.homomorphism:
        return None
    return _from_identity(operators(scheme, origin(scheme.structure), dtype))


def composition(scheme: Scheme, dtype: torch.dtype) -> Tensor | None:
    """[x y] = [x] [y]"""
    if not scheme.homomorphism:
        return None
    x, y = (paths(scheme.structure, 8, 0.5, seed) for seed in (1, 2))
    whole = operators(scheme, scheme.structure.compose(x, y), dtype)
    return greatest(whole - operators(scheme, x, dtype) @ operators(scheme, y, dtype))


def inverse(scheme: Scheme, dtype: torch.dtype) -> Tensor | None:
    """[x y] [y]' = [x]: the transpose takes a path back; for trees U D_i = I, for each branch i."""
    if not scheme.homomorphism:
        return None
    x, y = (paths(scheme.structure, 8, 0.5, seed) for seed in (3, 4))
    back = operators(scheme, scheme.structure.compose(x, y), dtype) @ operators(scheme, y, dtype).mT
    return greatest(back - operators(scheme, x, dtype))


def orthogonality(scheme: Scheme, dtype: torch.dtype) -> Tensor | None:
    """[x]' [x] = I, however long the path"""
    if not scheme.homomorphism:
        return None
    far = operators(scheme, paths(scheme.structure, 8, 1.0, 5), dtype)
    return _from_identity(far.mT @ far)


def period(scheme: Scheme, dtype: torch.dtype) -> Tensor | None:
    """[x] = [x + n] for `cyclic(n)`: W^n = I"""
    if not scheme.homomorphism or not any(isinstance(s, Cyclic) for s in scheme.structure.simple):
        return None
    x = paths(scheme.structure, 8, 1.0, 6)
    turns = torch.tensor([s.order if isinstance(s, Cyclic) else 0 for s in scheme.structure.simple])
    return greatest(
        operators(scheme, x, dtype) - operators(scheme, x + (turns if scheme.structure.width > 1 else turns[0]), dtype)
    )


def round_trip(scheme: Scheme, dtype: torch.dtype) -> Tensor | None:
    """U D_i = I for each branch i: down and up again, as affine maps of stacks that have room, or as operators"""
    tree = scheme.structure
    if not isinstance(tree, Tree):
        return None
    if scheme.homomorphism:
        x = paths(tree, 8, 0.9, 7)
        child = [operators(scheme, tree.compose(x, torch.full_like(x, b + 2)), dtype) for b in range(tree.branching)]
        down = [operators(scheme, torch.tensor([[b + 2]]), dtype) for b in range(tree.branching)]
        back = [c @ d.mT - operators(scheme, x, dtype) for c, d in zip(child, down, strict=True)]
        return greatest(torch.stack(back))
    if not isinstance(scheme, Affine):
        return None
    (up, up_b), size = scheme.up(), MAX_SIZE * tree.branching
    room = torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(8))
    room[-tree.branching :] = 0
    down_up = [up @ (a @ room + b) + up_b for a, b in map(scheme.down, range(tree.branching))]
    return greatest(torch.stack(down_up) - room)


def relative(scheme: Scheme, dtype: torch.dtype) -> Tensor | None:
    """Scores do not move when both paths are prefixed by a third"""
    if not scheme.relative:
        return None
    x, y = (paths(scheme.structure, 8, 0.5, seed) for seed in (9, 10))
    q, k = (vectors(dtype, 1, 8, seed) for seed in (1, 2))
    one, other = (
        attention.logits(scheme, q, k, scheme.context(here), scheme.context(there))
        for here, there in ((x, y), _prefixed(scheme, x, y))
    )
    return greatest(one - other)


def locality(scheme: Scheme, dtype: torch.dtype) -> Tensor | None:
    """The locality bias does not move either, and is 1 from a place to itself"""
    if scheme.shape.decay == 1.0:
        return None
    x, y = (paths(scheme.structure, 8, 0.002, seed) for seed in (9, 10))
    found = [
        scheme.decay(scheme.context(here), scheme.context(there))
        for here, there in ((x, y), _prefixed(scheme, x, y), (x, x))
    ]
    one, other, same = (torch.ones(()) if f is None else f for f in found)
    return torch.stack([greatest(one - other), greatest(same.diagonal(dim1=-2, dim2=-1) - 1)]).max()


def _prefixed(scheme: Scheme, *at: Tensor) -> tuple[Tensor, ...]:
    prefix = paths(scheme.structure, 1, 0.5, 11)
    return tuple(scheme.structure.compose(prefix.expand_as(x), x) for x in at)


def gap(scheme: Scheme, dtype: torch.dtype) -> Tensor | None:
    """Uniqueness: the smallest difference that any two of the first positions make to vectors or scores"""
    if not scheme.unique:
        return None
    structure = scheme.structure
    count = structure.order if isinstance(structure, Cyclic) else MAX_SIZE if scheme.bounded else 200
    if isinstance(structure, Tree) and scheme.bounded:
        count = structure.level_start(MAX_SIZE // 2) - 1
    at = near(structure, count)
    context, zero = scheme.context(at), scheme.context(origin(structure))
    added = scheme.embed(torch.ones(1, count, D_MODEL, dtype=dtype), context)
    turned = scheme.rotate(vectors(dtype, 1, 1, 1).expand(-1, -1, count, -1), context, "key")
    signs = [added[0], turned[0].transpose(0, 1).flatten(1)]
    bias = scheme.bias(vectors(dtype, 1, 1, 2), zero, context)  # [1, H or 1, 1, N]
    signs += [] if bias is None else [bias[0, :, 0].T.to(dtype)]
    sign = torch.cat(signs, dim=1)  # [N, .]
    apart = (sign[:, None] - sign[None]).abs().amax(-1) + 1e9 * torch.eye(count, dtype=dtype)
    return apart.min()


def _from_identity(x: Tensor) -> Tensor:
    return greatest(x - torch.eye(x.shape[-1], dtype=x.dtype))

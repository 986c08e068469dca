"""Orthogonal, for trees: a path from the root is a product of orthogonal matrices, one per branch.

Source: Algebraic Positional Encodings, sections 3.2 and 4.2.
W_b = exp(A_b - A_b'), b the branch, one pair per head, shared by all layers, near the identity at
first. A node at the path b1 b2 ... bL from the root down has the operator W_b1 W_b2 ... W_bL; with
q' = [x] q and k' = [y] k the score is q' [x]' [y] k = q' [x^-1 y] k: the common prefix cancels. SOS
and the root are the identity.

One operator is built for each distinct path of the batch, parents before children; the tokens that
share a path meet it together, in groups of a few, so that no operator is copied for each token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ape_cli.position import Context, Scheme, Shape, Side
from ape_cli.position._orthogonal import random_orthogonal, skew, skew_of, start_angles
from ape_cli.structure import level

_GROUP = 8  # tokens of one path that meet its operator at once


@dataclass(frozen=True)
class _Plan:
    """Which operator meets which tokens. G groups of `_GROUP` places; T tokens."""

    operators: Tensor  # [G, H, K, K]
    token: Tensor  # [G * _GROUP] the token at each place, T where there is none
    place: Tensor  # [T] the place of each token


class OrthogonalTree(Scheme):
    structures = ("tree(k)",)
    relative = True
    default_decay = 0.98
    source = "Algebraic Positional Encodings, section 3.2"

    branching = 2

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        h, k = shape.heads, shape.head_dim
        angles = start_angles(self.branching, h, k // 2)
        basis = random_orthogonal((self.branching, h, k, k), shape.generator)
        self.free = nn.Parameter((skew_of(angles, basis) / 2).float())  # A: [branch, H, K, K]

    def generators(self) -> Tensor:
        """W of each branch and head. -> [branch, H, K, K]"""
        return torch.linalg.matrix_exp(skew(self.free))

    def operators(self, paths: Tensor) -> Tensor:
        """The operator of each path. int64 heap indices [U], sorted, with every parent -> [U, H, K, K]

        In the parameters' own precision, also within autocast: products of bf16 would not stay orthogonal.
        """
        with torch.autocast(paths.device.type, enabled=False):
            return self._operators(paths)

    def _operators(self, paths: Tensor) -> Tensor:
        w = self.generators()
        depth = level(paths)
        identity = torch.eye(self.shape.head_dim, dtype=w.dtype, device=w.device)
        levels = [identity.expand(1, self.shape.heads, -1, -1)]
        above = paths[:1]
        for d in range(1, int(depth[-1]) + 1):
            here = paths[depth == d]
            parent = torch.searchsorted(above, here >> 1)
            levels.append(levels[-1][parent] @ w[here & 1])
            above = here
        return torch.cat(levels)

    def prepare(self, positions: Tensor) -> _Plan:
        heap = positions.flatten().clamp(min=1)
        used, path_of_token, count = torch.unique(heap, return_inverse=True, return_counts=True)
        paths = _with_parents(used)
        groups = (count + _GROUP - 1) // _GROUP  # of each path
        first = (groups.cumsum(0) - groups) * _GROUP  # its first place
        order = torch.argsort(path_of_token, stable=True)
        rank = torch.arange(heap.numel(), device=heap.device) - (count.cumsum(0) - count)[path_of_token[order]]
        place = torch.empty_like(order)
        place[order] = first[path_of_token[order]] + rank
        token = torch.full((int(groups.sum()) * _GROUP,), heap.numel(), device=heap.device)
        token[place] = torch.arange(heap.numel(), device=heap.device)
        which = torch.searchsorted(paths, used).repeat_interleave(groups)
        return _Plan(self.operators(paths).index_select(0, which), token, place)

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """[x] applied to each vector: [B, H, N, K] -> the same."""
        plan: _Plan = context.state
        b, h, n, k = x.shape
        flat = x.transpose(1, 2).reshape(b * n, h, k)
        grouped = nn.functional.pad(flat, (0, 0, 0, 0, 0, 1)).index_select(0, plan.token).view(-1, _GROUP, h, k)
        turned = grouped.transpose(1, 2) @ plan.operators.mT.to(x.dtype)  # [G, H, _GROUP, K]
        spread = turned.transpose(1, 2).reshape(-1, h, k).index_select(0, plan.place)
        return spread.view(b, n, h, k).transpose(1, 2)


def _with_parents(paths: Tensor) -> Tensor:
    """These heap indices and all their ancestors, sorted. [.] -> [U]"""
    found = [paths]
    while int(paths[-1]) > 1:
        paths = torch.unique((paths >> 1).clamp(min=1))
        found.append(paths)
    return torch.unique(torch.cat([paths.new_ones(1), *found]))

"""Operators of `tree(k)`: a path from the root is a product of orthogonal matrices, one for each branch taken.

Source: Algebraic Positional Encodings, sections 3.2 and 4.2.
W_b = exp(A_b - A_b'), b = 1..k the branch, one set per head, near the identity at first. A node at the
path b1 b2 ... bL from the root down has the operator W_b1 W_b2 ... W_bL; SOS and the root are the identity.

One operator is built for each distinct path of the batch, parents before children; the tokens that
share a path meet it together, in groups of a few, so that no operator is copied for each token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ape_cli.position._algebra import Interpretation
from ape_cli.position._orthogonal import random_orthogonal, skew, skew_of, start_angles
from ape_cli.structure import Structure, Tree

_GROUP = 8  # tokens of one path that meet its operator at once


@dataclass(frozen=True)
class _Plan:
    """Which operator meets which tokens. G groups of `_GROUP` places; T tokens."""

    operators: Tensor  # [G, H, K, K]
    token: Tensor  # [G * _GROUP] the token at each place, T where there is none
    place: Tensor  # [T] the place of each token


class Branches(Interpretation):
    """`tree(k)`: k free generators per head."""

    def __init__(self, structure: Structure, channels: int, heads: int, generator: torch.Generator | None) -> None:
        super().__init__()
        assert isinstance(structure, Tree)
        self.tree, self.heads, self.channels = structure, heads, channels
        k = structure.branching
        basis = random_orthogonal((k, heads, channels, channels), generator)
        angles = start_angles(k, heads, channels // 2)
        self.free = nn.Parameter((skew_of(angles, basis) / 2).float())  # A: [branch, H, K, K]

    def generators(self) -> Tensor:
        """W of each branch and head. -> [branch, H, K, K]"""
        return torch.linalg.matrix_exp(skew(self.free))

    def operators(self, paths: Tensor) -> Tensor:
        """The operator of each path. int64 heap indices [U], sorted, with every parent -> [U, H, K, K]

        In the parameters' own precision, also within autocast: products of bf16 would not stay orthogonal.
        """
        with torch.autocast(paths.device.type, enabled=False):
            w = self.generators()
            depth = self.tree.level(paths)
            identity = torch.eye(self.channels, dtype=w.dtype, device=w.device)
            levels = [identity.expand(1, self.heads, -1, -1)]
            above = paths[:1]
            for d in range(1, int(depth[-1]) + 1):
                here = paths[depth == d]
                parent = torch.searchsorted(above, self.tree.ancestor(here, 1))
                levels.append(levels[-1][parent] @ w[self.tree.branch(here)])
                above = here
            return torch.cat(levels)

    def prepare(self, positions: Tensor) -> _Plan:
        heap = positions.flatten().clamp(min=1)
        used, path_of_token, count = torch.unique(heap, return_inverse=True, return_counts=True)
        paths = self._with_parents(used)
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

    def turn(self, x: Tensor, state: _Plan) -> Tensor:
        """[x] applied to each vector: [B, H, N, K] -> the same."""
        b, h, n, k = x.shape
        rows = state.place.numel() // n  # of positions: B, or 1 that all rows share
        tokens = x.reshape(b // rows, rows, h, n, k).permute(1, 3, 2, 0, 4).reshape(rows * n, h, -1, k)
        grouped = nn.functional.pad(tokens, (0, 0, 0, 0, 0, 0, 0, 1)).index_select(0, state.token)
        grouped = grouped.view(-1, _GROUP, h, b // rows, k).transpose(1, 2).flatten(2, 3)  # [G, H, vectors, K]
        turned = (grouped @ state.operators.mT.to(x.dtype)).view(-1, h, _GROUP, b // rows, k).transpose(1, 2)
        spread = turned.reshape(-1, h, b // rows, k).index_select(0, state.place)  # [T, H, B / rows, K]
        return spread.view(rows, n, h, b // rows, k).permute(3, 0, 2, 1, 4).reshape(b, h, n, k)

    def _with_parents(self, paths: Tensor) -> Tensor:
        """These heap indices and all their ancestors, sorted. [.] -> [U]"""
        found = [paths]
        while int(paths[-1]) > 1:
            paths = torch.unique(self.tree.ancestor(paths.clamp(min=2), 1))
            found.append(paths)
        return torch.unique(torch.cat([paths.new_ones(1), *found]))


KINDS: dict[type[Structure], type[Interpretation]] = {Tree: Branches}

"""The action of paths on vectors: on queries and keys, on embeddings, or on what is added to embeddings.

Shapes: G generators, S operators of each (sides and heads), N positions, R channels on which operators act, H heads,
D channels of the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ape_cli.evaluation.algebra.action import AHEAD, DTYPE, SAMPLES, Action, fitted, generators
from ape_cli.evaluation.laws._subjects import D_MODEL, FAR, HEADS, greatest, paths
from ape_cli.evaluation.laws.operators import composition, halves, operators, period, round_trip
from ape_cli.position import Scheme
from ape_cli.structure import Structure


def on_queries_and_keys(scheme: Scheme) -> Action | None:
    """The action of operators on queries and keys. None if they are not linear, or the same everywhere."""
    at = generators(scheme.structure)
    nothing = torch.zeros(1, HEADS, at.shape[1], D_MODEL // HEADS, dtype=DTYPE)
    if any(scheme.rotate(nothing, scheme.context(at), side).any() for side in ("query", "key")):
        return None
    steps = _steps(scheme)
    if greatest(steps - torch.eye(steps.shape[-1], dtype=DTYPE)) == 0.0:
        return None
    element = _as_matrix_element(scheme) if scheme.overrides("representation") else None
    return Action("composition", _composition(scheme), steps, element)


def on_nothing(scheme: Scheme) -> Action:
    """The action of a scheme without a hook, whose operators are the identity."""
    return Action("composition", _composition(scheme), _steps(scheme))


def _composition(scheme: Scheme) -> float:
    """The error of [x y] = [x] [y]. In a ring it is also that of W^n = I, without which the group would be another."""
    errors = composition(scheme, DTYPE), period(scheme, DTYPE)
    return max(float(error.detach()) for error in errors if error is not None)


def _steps(scheme: Scheme) -> Tensor:
    """The operators of single steps on queries and keys. -> float64 [G, S, R, R]"""
    steps = operators(scheme, generators(scheme.structure), DTYPE).detach()
    return steps.reshape(-1, *steps.shape[-3:]).transpose(0, 1)


def _as_matrix_element(scheme: Scheme) -> float:
    """How far the bias of keys behind the query is from u' [x]' [y] v, with u and v fixed in each head.

    u v' is fitted to half of the pairs of positions. The greatest error at the other half is returned. A scheme whose
    operators are only given as matrices could otherwise have other scores.
    """
    at = paths(scheme.structure, 24, 21, steps=200, depth=8).sort(dim=1).values
    here, count = scheme.context(at, causal=True), at.shape[1]
    bias = scheme.bias(torch.zeros(1, HEADS, count, D_MODEL // HEADS, dtype=DTYPE), here, here)
    queries, keys = (scheme.representation(at, side) for side in ("query", "key"))
    if bias is None or queries is None or keys is None:
        return float("nan")
    queries, keys = (x.reshape(-1, *x.shape[-3:]).to(DTYPE) for x in (queries, keys))  # [H, N, R, R]
    behind = torch.ones(count, count, dtype=torch.bool).tril()
    errors = []
    for query, key, wanted in zip(queries, keys, bias[0].to(DTYPE), strict=True):
        products = (query.mT[:, None] @ key[None])[behind].flatten(1)  # one row for each pair
        fitted = torch.linalg.lstsq(products[::2], wanted[behind][::2, None], driver="gelsd").solution[:, 0]
        errors.append(greatest(products[1::2] @ fitted - wanted[behind][1::2]))
    return float(torch.stack(errors).max())


def on_embeddings(scheme: Scheme) -> Action:
    """The action on embeddings: of operators that multiply them, or of fitted ones on the vectors that are added."""
    nothing = torch.zeros(1, 1, D_MODEL, dtype=DTYPE)
    if not _embedded(scheme, nothing, generators(scheme.structure)).any():
        return _on_tokens(scheme)
    farthest = (SAMPLES if scheme.bounded else FAR) - max(AHEAD)
    places = paths(scheme.structure, SAMPLES, 22, steps=farthest)
    before = _embedded(scheme, nothing, places)[0]
    steps, errors = [], []
    for step in generators(scheme.structure).split(1, dim=1):
        ahead = list(_walked(scheme.structure, places, step))
        matrix, error = fitted(before, {n: _embedded(scheme, nothing, ahead[n - 1])[0] for n in AHEAD})
        steps.append(matrix)
        errors.append(error)
    return Action("shift", max(errors), torch.stack(steps)[:, None])


def _walked(structure: Structure, places: Tensor, step: Tensor) -> Iterator[Tensor]:
    """Places after 1, 2, 3, ... steps of one kind. int64 [1, N(, C)], [1, 1(, C)] -> [1, N(, C)] each"""
    for _ in range(max(AHEAD)):
        places = structure.compose(places, step.expand_as(places))
        yield places


def _embedded(scheme: Scheme, tokens: Tensor, at: Tensor) -> Tensor:
    """The same tokens at several positions. float64 [B, 1, D], int64 [1, N(, C)] -> [B, N, D]"""
    return scheme.embed(tokens.expand(-1, at.shape[1], -1), scheme.context(at)).detach()


def _on_tokens(scheme: Scheme) -> Action:
    """The action of operators that multiply the embeddings."""
    basis = torch.eye(D_MODEL, dtype=DTYPE)[:, None]
    x, y = halves(scheme.structure, 1, 2)
    at = generators(scheme.structure), x, y, scheme.structure.compose(x, y)
    steps, one, other, whole = (_embedded(scheme, basis, each).permute(1, 2, 0) for each in at)  # [N, D, D] each
    return Action("composition", float(greatest(whole - one @ other)), steps[:, None])


def on_stacks(scheme: Any) -> Action:
    """The action of a scheme's own affine maps on its stacks. Their linear parts are the operators."""
    maps = [scheme.down(branch) for branch in range(scheme.structure.branching)]
    steps, pushed = (torch.stack(part) for part in zip(*maps, strict=True))  # [n, R, R], [n, R]
    affine = torch.eye(steps.shape[-1] + 1, dtype=DTYPE).repeat(len(maps), 1, 1)
    affine[:, :-1] = torch.cat([steps, pushed[..., None]], dim=-1)
    error = round_trip(scheme, DTYPE)
    assert error is not None
    return Action("round trip", float(error), steps[:, None], affine=affine[:, None])

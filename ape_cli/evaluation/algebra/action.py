"""How the paths of a structure act on vectors: the operators of single steps, and the law that they obey.

A scheme acts in one of these ways, which are tried in this order:

- Its operators multiply queries and keys (`rotate`, or `representation`). The law is composition, [x y] = [x] [y].
- Its operators multiply the embeddings (`embed`). The law is the same.
- It adds vectors P(p) to the embeddings. An operator R of each step is fitted to half of some positions, so that
  P(p + 1) = R P(p). The law is P(p + n) = R^n P(p) at the other half, for the steps n of `_AHEAD`. A scheme with
  `stack`, `down` and `up` has affine maps of its own, and their law is U D_i = I.
- It adds terms to the scores. There are no operators, and the law is that the terms depend on the path alone.

`along_paths.py` measures schemes whose scores depend on the content between two tokens. Operators that are the same at
all positions, and maps that are not linear, are no action of paths.

Shapes: G generators, S operators of each (sides and heads), N positions, R channels on which operators act, H heads,
D channels of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ape_cli.evaluation.laws._subjects import D_MODEL, FAR, HEADS, greatest, origin, paths
from ape_cli.evaluation.laws.scheme import composition, halves, operators, period, relative, round_trip
from ape_cli.position import Scheme
from ape_cli.structure import Structure, Tree

DTYPE = torch.float64
_AHEAD = (1, 7, 50)  # steps
SAMPLES = 6 * D_MODEL  # positions, for the fit and for its test together


@dataclass(frozen=True)
class Action:
    """What single steps do, and how well the law holds."""

    law: str
    error: float
    steps: Tensor | None = None  # float64 [G, S, R, R], None if there are no operators
    element: float | None = None  # if the operators are given as matrices: how far the scores are from u' [x]' [y] v
    affine: Tensor | None = None  # affine maps, whose linear parts are `steps`, as matrices [G, S, R + 1, R + 1]

    @property
    def commutator(self) -> float | None:
        """The greatest entry of g h - h g for two generators g and h. None if there is only one."""
        maps = self.steps if self.affine is None else self.affine
        if maps is None or len(maps) < 2:
            return None
        products = maps[:, None] @ maps[None]
        return float(greatest(products - products.transpose(0, 1)))


def generators(structure: Structure) -> Tensor:
    """The paths of a single step: one for each branch of a tree, one for any other factor. -> int64 [1, G(, C)]"""
    each: list[Tensor] = []
    for factor, simple in enumerate(structure.simple):
        for step in range(2, simple.branching + 2) if isinstance(simple, Tree) else (1,):
            at = origin(structure)
            at.view(-1)[factor] = step  # the heap index of a child, or one step ahead
            each.append(at)
    return torch.cat(each, dim=1)


def measure(scheme: Scheme, sized: Callable[[int], Scheme] | None = None) -> Action:
    """Measure how a scheme in float64 acts on its structure.

    `sized` makes the scheme with another `max_size`. It is called for a bounded scheme that acts on embeddings.
    """
    if any(map(scheme.overrides, ("rotate", "representation"))) and (found := _on_queries_and_keys(scheme)):
        return found
    if hasattr(scheme, "stack"):
        return _on_stacks(scheme)
    if scheme.overrides("embed"):
        return _on_embeddings(sized(SAMPLES) if sized and scheme.bounded else scheme)
    if scheme.overrides("bias"):
        return Action("relative", float(relative(scheme, DTYPE)))
    return Action("composition", _composition(scheme), _steps(scheme))


def _composition(scheme: Scheme) -> float:
    """The error of [x y] = [x] [y]. In a ring it is also that of W^n = I, without which the group would be another."""
    errors = composition(scheme, DTYPE), period(scheme, DTYPE)
    return max(float(error.detach()) for error in errors if error is not None)


def _steps(scheme: Scheme) -> Tensor:
    """The operators of single steps on queries and keys. -> float64 [G, S, R, R]"""
    steps = operators(scheme, generators(scheme.structure), DTYPE).detach()
    return steps.reshape(-1, *steps.shape[-3:]).transpose(0, 1)


def _on_queries_and_keys(scheme: Scheme) -> Action | None:
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


def _on_embeddings(scheme: Scheme) -> Action:
    """The action on embeddings: of operators that multiply them, or of fitted ones on the vectors that are added."""
    nothing = torch.zeros(1, 1, D_MODEL, dtype=DTYPE)
    if not _embedded(scheme, nothing, generators(scheme.structure)).any():
        return _on_tokens(scheme)
    farthest = (SAMPLES if scheme.bounded else FAR) - max(_AHEAD)
    places = paths(scheme.structure, SAMPLES, 22, steps=farthest)
    before = _embedded(scheme, nothing, places)[0]
    fit, test = slice(0, None, 2), slice(1, None, 2)
    steps, errors = [], []
    for step in generators(scheme.structure).split(1, dim=1):
        ahead = list(_walked(scheme.structure, places, step))
        after = {number: _embedded(scheme, nothing, ahead[number - 1])[0] for number in _AHEAD}
        matrix = torch.linalg.lstsq(before[fit], after[1][fit], driver="gelsd").solution.mT
        powers = {number: torch.linalg.matrix_power(matrix, number) for number in _AHEAD}
        errors += [greatest(before[test] @ powers[number].mT - after[number][test]) for number in _AHEAD]
        steps.append(matrix)
    return Action("shift", float(torch.stack(errors).max()), torch.stack(steps)[:, None])


def _walked(structure: Structure, places: Tensor, step: Tensor) -> Iterator[Tensor]:
    """Places after 1, 2, 3, ... steps of one kind. int64 [1, N(, C)], [1, 1(, C)] -> [1, N(, C)] each"""
    for _ in range(max(_AHEAD)):
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


def _on_stacks(scheme: Any) -> Action:
    """The action of a scheme's own affine maps on its stacks. Their linear parts are the operators."""
    maps = [scheme.down(branch) for branch in range(scheme.structure.branching)]
    steps, pushed = (torch.stack(part) for part in zip(*maps, strict=True))  # [n, R, R], [n, R]
    affine = torch.eye(steps.shape[-1] + 1, dtype=DTYPE).repeat(len(maps), 1, 1)
    affine[:, :-1] = torch.cat([steps, pushed[..., None]], dim=-1)
    error = round_trip(scheme, DTYPE)
    assert error is not None
    return Action("round trip", float(error), steps[:, None], affine=affine[:, None])

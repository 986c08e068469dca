"""The action of paths on terms that are added to scores.

On a sequence, the terms of many queries and heads at an offset d, and those of the next offsets, make a vector b(d).
Terms that come from a representation, u' [d] v, have b(d + n) = R^n b(d) for an operator R, which is fitted to half of
some offsets and tested at the others: those within 200 steps of the query, and some that are up to 5,000 steps away.

Shapes: H heads, N offsets, R dimensions that the vectors span.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ape_cli.evaluation.algebra.action import AHEAD, DTYPE, LIMIT, SAMPLES, Action, fitted
from ape_cli.evaluation.laws._subjects import D_MODEL, FAR, HEADS, paths, vectors
from ape_cli.evaluation.laws.scheme import relative
from ape_cli.position import Scheme
from ape_cli.structure import Seq

TERMS, TERMS_BEHIND = "terms", "terms behind"
_QUERIES = 2 * D_MODEL // HEADS  # so that the terms of all heads span as many dimensions as they can
_NEAR = 200  # steps from the query within which the terms of all offsets are measured
_IN_A_ROW = 4  # keys whose terms make a vector, because a single function of the offset may need several dimensions


def on_terms(scheme: Scheme, sized: Callable[[int], Scheme] | None) -> Action:
    """The action on the terms that are added to scores, if they are matrix elements of one."""
    error = float(relative(scheme, DTYPE))
    if not error <= LIMIT or not isinstance(scheme.structure, Seq):
        return Action("relative", error)
    wide = sized(2 * FAR) if sized and scheme.bounded else scheme
    least = float("inf")
    for law, causal in ((TERMS, False), (TERMS_BEHIND, True)):
        if causal or not scheme.causal_only:
            matrix, error_of_fit = _of_offsets(wide, causal)
            if error_of_fit <= LIMIT:
                return Action(law, max(error, error_of_fit), matrix[None, None])
            least = min(least, error_of_fit)
    return Action("relative", error, element=least)


def _of_offsets(scheme: Scheme, causal: bool) -> tuple[Tensor, float]:
    """The operator that is fitted to the terms of offsets, and its error. `causal`: of keys behind the query alone."""
    here, most = FAR // 2, max(AHEAD) + _IN_A_ROW - 1
    far = here - 1 if causal else 2 * here - 1  # from the first key
    near = torch.arange(here - _NEAR, (here if causal else here + _NEAR) - most)[None]
    keys = torch.cat([1 + paths(scheme.structure, SAMPLES, 23, steps=far - most - 1), near], dim=1)
    queries = torch.full((1, _QUERIES), here)
    q = vectors(DTYPE, _QUERIES, 24)

    def terms(at: Tensor) -> Tensor:
        """The terms of all queries and heads, for keys at some positions and right after them.

        int64 [1, N] -> float64 [N, .]
        """
        parts = []
        for lag in range(_IN_A_ROW):
            bias = scheme.bias(q, scheme.context(queries, causal=causal), scheme.context(at + lag, causal=causal))
            if bias is not None:
                parts.append(bias.detach().to(DTYPE).expand(1, -1, _QUERIES, -1).flatten(0, 2).mT)
        return torch.cat(parts, dim=1)

    return fitted(terms(keys), {n: terms(keys + n) for n in AHEAD})

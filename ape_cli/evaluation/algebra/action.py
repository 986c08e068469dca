"""How a scheme acts along the paths of a structure: what single steps do to vectors, and how well their law holds.

On vectors: operators that multiply queries and keys, or embeddings; affine maps of stacks; and vectors that are added
to embeddings, to which operators are fitted.

On terms of scores: on a sequence, the terms of many queries and heads at an offset d, and those of the next offsets,
make a vector b(d). Terms that come from a representation, u' [d] v, have b(d + n) = R^n b(d) for an operator R, which
is fitted to half of some offsets and tested at the others: those within 200 steps of the query, and some that are up to
5,000 steps away.

On scores that depend on the content between two tokens: the score of a query at i and a key at j <= i, with the content
of all tokens held fixed, is written as

    s_ij = q_i' T_ij k_j / sqrt(K) + d_ij.

It has this form if it is affine in q and in k, without terms in only one of them. T and d are then probed with zero
and basis vectors. Each token on the path contributes one factor if T_ij T_jl = T_il and d_ij + d_jl = d_il for all
l <= j <= i. A sum is a product too: d_ij acts as the unipotent matrix [[1, d_ij], [0, 1]]. If the score is not of
this form, as when gates depend on the query and the key, there is no operator between two tokens to be measured.

Shapes: G generators, S operators of each (sides and heads), H heads, N vectors, positions, offsets or tokens, R
channels on which operators act, K channels of a head, D channels of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ape_cli import attention
from ape_cli.evaluation.laws import LIMITS
from ape_cli.evaluation.laws._subjects import D_MODEL, FAR, HEADS, greatest, origin, paths, vectors
from ape_cli.evaluation.laws.scheme import composition, content_of, halves, operators, period, relative, round_trip
from ape_cli.position import Scheme
from ape_cli.structure import Seq, Structure, Tree

DTYPE = torch.float64
LIMIT = LIMITS[DTYPE]  # of an error, if a law holds
AHEAD = (1, 7, 50)  # steps at which a fitted operator is tested
SAMPLES = 6 * D_MODEL  # positions, for the fit and for its test together
_SPAN = 1e-9  # of the greatest singular value: smaller ones are 0
TERMS, TERMS_BEHIND = "terms", "terms behind"
_QUERIES = 2 * D_MODEL // HEADS  # so that the terms of all heads span as many dimensions as they can
_NEAR = 200  # steps from the query within which the terms of all offsets are measured
_IN_A_ROW = 4  # keys whose terms make a vector, because a single function of the offset may need several dimensions
TOKENS, _K = 7, D_MODEL // HEADS
_AFFINE = 1e-9  # greatest error of a score that has the form above
PRODUCT, FORM, ALONE = "path product", "affine", "alone"


@dataclass(frozen=True)
class Action:
    """What single steps do, and how well the law holds."""

    law: str
    error: float
    steps: Tensor | None = None  # float64 [G, S, R, R], None if there are no operators
    # how far terms of scores are from matrix elements u' [x]' [y] v: of operators that are given as matrices, or of
    # fitted ones, if they do not fit
    element: float | None = None
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
    steps_of_factors: list[Tensor] = []
    for factor, simple in enumerate(structure.simple):
        for step in range(2, simple.branching + 2) if isinstance(simple, Tree) else (1,):
            at = origin(structure)
            at.view(-1)[factor] = step  # the heap index of a child, or one step ahead
            steps_of_factors.append(at)
    return torch.cat(steps_of_factors, dim=1)


def fitted(before: Tensor, after: dict[int, Tensor]) -> tuple[Tensor, float]:
    """The operator R of a step, fitted to half of some vectors, and the greatest error of R^n at the other half.

    Errors of vectors with entries above 1 are relative to the greatest entry.

    before: float64 [N, D]; after: the vectors n steps ahead, [N, D] for each n -> R, float64 [R, R] on the R dimensions
    that the vectors span
    """
    fit, test = slice(0, None, 2), slice(1, None, 2)
    _, size, axes = torch.linalg.svd(before[fit], full_matrices=False)
    axes = axes[size > _SPAN * size[0]]  # [R, D]
    start = before @ axes.mT
    matrix = torch.linalg.lstsq(start[fit], after[1][fit] @ axes.mT, driver="gelsd").solution.mT
    powers = {n: torch.linalg.matrix_power(matrix, n) for n in after}
    errors = [greatest(start[test] @ powers[n].mT @ axes - there[test]) for n, there in after.items()]
    scale = torch.stack([greatest(there) for there in after.values()]).max().clamp(min=1)
    return matrix, float(torch.stack(errors).max() / scale)


def _by_others(scheme: Scheme) -> float:
    """How far the operators of single steps in a tree change with the other nodes of their row."""
    if not isinstance(scheme.structure, Tree):
        return 0.0
    nodes, single = torch.arange(1, scheme.structure.level_start(3))[None], generators(scheme.structure)
    among = operators(scheme, nodes, DTYPE)[:, :, 1 : 1 + single.shape[1]]
    return float(greatest(among - operators(scheme, single, DTYPE)))


def on_queries_and_keys(scheme: Scheme) -> Action | None:
    """The action of operators on queries and keys. None if they are not linear, or the same everywhere."""
    at = generators(scheme.structure)
    nothing = torch.zeros(1, HEADS, at.shape[1], D_MODEL // HEADS, dtype=DTYPE)
    if any(scheme.rotate(nothing, scheme.context(at), side).any() for side in ("query", "key")):
        return None
    if (changed := _by_others(scheme)) > LIMIT:
        return Action(ALONE, changed)
    steps = _steps(scheme)
    if greatest(steps - torch.eye(steps.shape[-1], dtype=DTYPE)) == 0.0:
        return None
    element = _as_matrix_element(scheme) if scheme.overrides("representation") else None
    return Action("composition", _composition(scheme), steps, element)


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
        fit = torch.linalg.lstsq(products[::2], wanted[behind][::2, None], driver="gelsd").solution[:, 0]
        errors.append(greatest(products[1::2] @ fit - wanted[behind][1::2]))
    return float(torch.stack(errors).max())


def on_embeddings(scheme: Scheme) -> Action:
    """The action on embeddings: of operators that multiply them, or of fitted ones on the vectors that are added."""
    nothing = torch.zeros(1, 1, D_MODEL, dtype=DTYPE)
    if not _embedded(scheme, nothing, generators(scheme.structure)).any():  # it multiplies
        basis = torch.eye(D_MODEL, dtype=DTYPE)[:, None]
        x, y = halves(scheme.structure, 1, 2)
        at = generators(scheme.structure), x, y, scheme.structure.compose(x, y)
        single, first, second, whole = (_embedded(scheme, basis, path).permute(1, 2, 0) for path in at)  # [N, D, D]
        return Action("composition", float(greatest(whole - first @ second)), single[:, None])
    tree = isinstance(scheme.structure, Tree)
    lags = AHEAD[:1] if tree else AHEAD  # a table of nodes has few levels
    positions = _shuffled_nodes() if tree else _places(scheme)
    before = _embedded(scheme, nothing, positions)[0]
    steps, errors = [], []
    for step in generators(scheme.structure).split(1, dim=1):
        ahead = [positions]
        for _ in range(max(lags)):
            ahead.append(scheme.structure.compose(ahead[-1], step.expand_as(positions)))
        after = {n: _embedded(scheme, nothing, ahead[n])[0] for n in lags}
        matrix, error = fitted(before, after)
        steps.append(matrix)
        errors += [error, fitted(after[1], {1: before})[1]]  # a step of a group can be undone
    return Action("shift", max(errors), torch.stack(steps)[:, None])


def _places(scheme: Scheme) -> Tensor:
    """The positions to which operators on vectors are fitted. -> int64 [1, N(, C)]"""
    return paths(scheme.structure, SAMPLES, 22, steps=(SAMPLES if scheme.bounded else FAR) - max(AHEAD))


def _shuffled_nodes() -> Tensor:
    """The first nodes of a tree in level order, all different, in random order. -> int64 [1, N]"""
    return 1 + torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(22))[None]


def _embedded(scheme: Scheme, tokens: Tensor, at: Tensor) -> Tensor:
    """The same tokens at several positions. float64 [B, 1, D], int64 [1, N(, C)] -> [B, N, D]"""
    return scheme.embed(tokens.expand(-1, at.shape[1], -1), scheme.context(at)).detach()


def on_stacks(scheme: Any) -> Action:
    """The action of a scheme's own affine maps on its stacks. Their linear parts are the operators."""
    maps = [scheme.down(branch) for branch in range(scheme.structure.branching)]
    steps, pushed = (torch.stack(part) for part in zip(*maps, strict=True))  # [n, R, R], [n, R]
    affine = torch.eye(steps.shape[-1] + 1, dtype=DTYPE).repeat(len(maps), 1, 1)
    affine[:, :-1] = torch.cat([steps, pushed[..., None]], dim=-1)
    error = round_trip(scheme, DTYPE)
    assert error is not None
    return Action("round trip", float(error), steps[:, None], affine=affine[:, None])


def on_terms(scheme: Scheme, sized: Callable[[int], Scheme] | None) -> Action:
    """The action on the terms that are added to scores, if they are matrix elements of one."""
    error = float(relative(scheme, DTYPE))
    if not error <= LIMIT or not isinstance(scheme.structure, Seq):
        return Action("relative", error)
    wide = sized(2 * FAR) if sized and scheme.bounded else scheme
    errors = []
    for law, causal in ((TERMS, False), (TERMS_BEHIND, True)):
        if causal or not scheme.causal_only:
            matrix, error_of_fit = _of_offsets(wide, causal)
            if error_of_fit <= LIMIT:
                return Action(law, max(error, error_of_fit), matrix[None, None])
            errors.append(error_of_fit)
    return Action("relative", error, element=min(errors))


def _of_offsets(scheme: Scheme, causal: bool) -> tuple[Tensor, float]:
    """The operator that is fitted to the terms of offsets, and its error. `causal`: of keys behind the query alone."""
    here, maximum = FAR // 2, max(AHEAD) + _IN_A_ROW - 1
    far = here - 1 if causal else 2 * here - 1  # from the first key
    near = torch.arange(here - _NEAR, (here if causal else here + _NEAR) - maximum)[None]
    keys = torch.cat([1 + paths(scheme.structure, SAMPLES, 23, steps=far - maximum - 1), near], dim=1)
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


def on_content(scheme: Scheme) -> Action:
    """The action of a scheme that has scores of its own. Its steps are those from each token to the next."""
    probes = torch.cat([torch.zeros(1, _K, dtype=DTYPE), torch.eye(_K, dtype=DTYPE)])  # [K + 1, K]
    pairs = torch.cartesian_prod(*[torch.arange(_K + 1)] * 2).T  # of a query and a key that are the same everywhere
    probed = (probes[index, None, None].expand(-1, HEADS, TOKENS, -1) for index in pairs)
    raw = _scores(scheme, *probed).unflatten(0, (_K + 1, _K + 1))
    constant = raw[0, 0]  # [H, N, N]
    t = (raw[1:, 1:] - constant).permute(2, 3, 4, 0, 1) * _K**0.5  # [H, N, N, K, K]
    q, k = vectors(DTYPE, TOKENS, 31), vectors(DTYPE, TOKENS, 32)  # [1, H, N, K], other ones for each token
    expected = torch.einsum("hia,hijab,hjb->hij", q[0], t, k[0]) / _K**0.5 + constant
    form = float(greatest((_scores(scheme, q, k)[0] - expected).tril()))
    if not form <= _AFFINE:
        return Action(FORM, form)
    errors = []
    for j in range(TOKENS):  # the token in the middle
        after, before = slice(j, None), slice(None, j + 1)
        errors.append(greatest(t[:, after, j, None] @ t[:, None, j, before] - t[:, after, before]))
        sums = constant[:, after, j, None] + constant[:, None, j, before]
        errors.append(greatest(sums - constant[:, after, before]))
    step = torch.arange(1, TOKENS)
    steps = torch.eye(_K + 2, dtype=DTYPE).repeat(HEADS, TOKENS - 1, 1, 1)
    steps[..., :_K, :_K] = t[:, step, step - 1]
    steps[..., _K, _K + 1] = constant[:, step, step - 1]
    return Action(PRODUCT, float(torch.stack(errors).max()), steps.flatten(0, 1)[None])


def _scores(scheme: Scheme, q: Tensor, k: Tensor) -> Tensor:
    """The scores of causal attention, with the content of the same tokens in all rows. [B, H, N, K] -> [B, H, N, N]"""
    content = content_of(scheme, "decoder", vectors(DTYPE, TOKENS, 33).transpose(1, 2).flatten(2))
    if content is not None:
        content = content.expand(len(q), *content.shape[1:])
    here = scheme.context(torch.arange(1, TOKENS + 1)[None], causal=True)
    return attention.logits(scheme, q, k, here, here, content).detach()


def action_of(scheme: Scheme, sized: Callable[[int], Scheme] | None = None) -> Action:
    """Measure how a scheme in float64 acts on its structure, in one of these ways, which are tried in this order.

    - Its scores depend on content (`logits`).
    - Its operators multiply queries and keys (`rotate`, or `representation`). Operators that are the same at all
      positions, and maps that are not linear, are no action of paths.
    - It has stacks with affine maps (`stack`, `down` and `up`).
    - It acts on embeddings (`embed`): it multiplies them by operators, or adds vectors, to which operators are fitted.
    - It adds terms to scores (`bias`), to which operators are fitted.

    `sized` makes the scheme with another `max_size`. It is called for a bounded scheme to whose results an operator is
    fitted, which takes more positions than the other laws.
    """
    if scheme.overrides("logits"):
        return on_content(scheme)
    if any(map(scheme.overrides, ("rotate", "representation"))) and (action := on_queries_and_keys(scheme)):
        return action
    if hasattr(scheme, "stack"):
        return on_stacks(scheme)
    if scheme.overrides("embed"):
        return on_embeddings(sized(SAMPLES) if sized and scheme.bounded else scheme)
    if scheme.overrides("bias"):
        return on_terms(scheme, sized)
    return Action("composition", _composition(scheme), _steps(scheme))  # operators that are the identity

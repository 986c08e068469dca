"""The laws of a scheme, measured: those of its operators, then those of its scores and vectors.

Source: Algebraic Positional Encodings, laws L1 to L3 and sections 3.1 to 3.4; for U and D_i, Shiv and Quirk 2019,
section 3. M(x) is the operator of the path x as scores see it, [e]'[x] with e the empty path, so that a map that all
positions have in common drops out.

The functions from `identity` to `round_trip`, and from `relative` on, are laws: each returns an error as a scalar, or
None if there is nothing to measure. `gap` and `reach` return a difference, which has to be large. The first line of a
law's docstring is printed for users.

Shapes: H heads, M queries, N tokens or keys, K channels of a head, R channels of a representation, C factors of a
product, n branches and k depth of a tree scheme.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ape_cli import attention
from ape_cli.evaluation.laws._subjects import (
    D_MODEL,
    DEEP,
    FAR,
    HEADS,
    MAX_SIZE,
    greatest,
    length,
    near,
    origin,
    paths,
    vectors,
)
from ape_cli.position import Context, Role, Scheme, Side
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
    first, second = operators(scheme, x, dtype), operators(scheme, y, dtype)
    return _error(scheme, whole, first @ second, first.abs() @ second.abs())


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


def _pairs(structure: Structure) -> Iterator[tuple[Tensor, Tensor]]:
    """Positions of queries and keys that are near each other, at a medium distance, and far apart.

    -> int64 [1, 8] (, C) each
    """
    for steps, depth in ((12, 3), (150, 8), (FAR // 2, DEEP // 2)):
        yield paths(structure, 8, 9, steps=steps, depth=depth), paths(structure, 8, 10, steps=steps, depth=depth)


def _parts(scheme: Scheme, x: Tensor, y: Tensor) -> Iterator[tuple[Role, Context, Context]]:
    """Contexts of queries and keys as in the encoder, in the decoder, and in the attention between them."""
    roles: dict[Role, tuple[bool, bool]] = {"encoder": (False, False), "decoder": (True, True), "cross": (True, False)}
    source = None if scheme.causal_only else scheme.context(y)
    for role, (decoder_q, decoder_k) in roles.items():
        if not scheme.causal_only or role == "decoder":
            queries, keys = (
                scheme.context(at, causal=c, shared_with=source if c else None)
                for at, c in ((x, decoder_q), (y, decoder_k))
            )
            yield role, queries, keys


def _scores(scheme: Scheme, x: Tensor, y: Tensor, dtype: torch.dtype, order: Tensor | None = None) -> Tensor:
    """The logits in each part where the scheme acts. -> [3, 1, H, M, N], or [1, 1, H, N, N] if it is `causal_only`

    Then the positions have to be in ascending order, all queries are keys, and the scores of later keys are 0.
    `order` is a permutation of the tokens, int64 [N]: the result has the pairs in the order of the tokens before it.
    """
    q, k = vectors(dtype, x.shape[1], 1), vectors(dtype, y.shape[1], 2)
    tokens = vectors(dtype, y.shape[1], 3).transpose(1, 2).flatten(2)  # [1, N, D]
    if order is not None:
        q, k, tokens = q[:, :, order], k[:, :, order], tokens[:, order]
    parts = _parts(scheme, x, y)
    scores = torch.stack(
        [attention.logits(scheme, q, k, q_at, k_at, content_of(scheme, role, tokens)) for role, q_at, k_at in parts]
    )
    scores = scores.tril() if scheme.causal_only else scores
    if order is not None:
        back = order.argsort()
        scores = scores[..., back, :][..., back]
    return scores


def content_of(scheme: Scheme, role: Role, tokens: Tensor) -> Any:
    """What the scheme's module of the first layer returns for tokens, [1, N, D], or None without one."""
    key = scheme.attach(role, 0)
    scheme.layers.to(tokens.dtype)
    return scheme.content(key, tokens)


def relative(scheme: Scheme, dtype: torch.dtype) -> Tensor:
    """Scores, also of cross-attention, and embedded tokens do not change if all paths get the same prefix.

    Returns a scalar, shape [].
    """
    errors = []
    pairs = _pairs(scheme.structure)
    if scheme.causal_only:
        pairs = ((x.sort(dim=1).values,) * 2 for x, _ in pairs)
    for x, y in pairs:
        prefixed = _prefixed(scheme, x, y)
        errors.append(greatest(_scores(scheme, x, y, dtype) - _scores(scheme, prefixed[0], prefixed[1], dtype)))
        tokens = vectors(dtype, x.shape[1], 3).transpose(1, 2).flatten(2)
        embedded = [scheme.embed(tokens, scheme.context(at)) for at in (x, prefixed[0])]
        errors.append(greatest(embedded[0] - embedded[1]))
    return torch.stack(errors).max()


def locality(scheme: Scheme, dtype: torch.dtype) -> Tensor:
    """The locality bias is c^distance, also if both paths get the same prefix.

    Returns a scalar, shape [].
    """
    errors = []
    for x, y in list(_pairs(scheme.structure))[:2]:
        expected = scheme.shape.decay ** length(scheme.structure, x, y, getattr(scheme, "metric", "path"))
        errors += [greatest(_decay(scheme, *at) - expected) for at in ((x, y), _prefixed(scheme, x, y))]
    return torch.stack(errors).max()


def distance(scheme: Scheme, dtype: torch.dtype) -> Tensor:
    """The locality bias is symmetric, and between c^steps and c^(steps / sqrt(axes)).

    Returns a scalar, shape [].
    """
    rate, errors = scheme.shape.decay, []
    for x, y in list(_pairs(scheme.structure))[:2]:
        decay, steps = _decay(scheme, x, y), length(scheme.structure, x, y)
        minimum, maximum = rate**steps, rate ** (steps / scheme.structure.width**0.5)
        errors += [greatest(decay - _decay(scheme, y, x).mT), greatest(decay - decay.clamp(minimum, maximum))]
    return torch.stack(errors).max()


def _decay(scheme: Scheme, x: Tensor, y: Tensor) -> Tensor:
    """The locality bias of all pairs in each part where it acts, 1 if there is none. -> float64 [3 or 1, M, N]"""
    decays = [scheme.decay(q_at, k_at) for _, q_at, k_at in _parts(scheme, x, y)]
    ones = torch.ones(x.shape[1], y.shape[1], dtype=torch.float64)
    return torch.stack([ones if decay is None else decay[0, 0].double() for decay in decays])


def _prefixed(scheme: Scheme, *at: Tensor) -> tuple[Tensor, ...]:
    """The positions of all paths after they are prefixed by one more path."""
    prefix = next(halves(scheme.structure, 11))[:, :1]
    return tuple(scheme.structure.compose(prefix.expand_as(x), x) for x in at)


def gap(scheme: Scheme, dtype: torch.dtype) -> Tensor:
    """No two of the first positions have the same vectors or scores; this is the smallest difference.

    Returns a scalar, shape [].
    """
    structure = scheme.structure
    count = structure.order if isinstance(structure, Cyclic) else MAX_SIZE if scheme.bounded else 200
    if isinstance(structure, Tree) and scheme.bounded:
        count = structure.level_start(MAX_SIZE // 2) - 1
    at = near(structure, count)
    context, middle = scheme.context(at), scheme.context(at[:, count // 2 : count // 2 + 1])
    signs = [scheme.embed(torch.ones(1, count, D_MODEL, dtype=dtype), context)[0]]
    vector = vectors(dtype, 1, 1).expand(-1, -1, count, -1)
    signs += [scheme.rotate(vector, context, side)[0].transpose(0, 1).flatten(1) for side in ("query", "key")]
    bias = scheme.bias(vectors(dtype, 1, 2), middle, context)  # of a query in their middle: [1, H or 1, 1, N]
    signs += [] if bias is None else [bias[0, :, 0].T.to(dtype)]
    if scheme.overrides("logits"):
        query, tokens = vectors(dtype, 1, 2), vectors(dtype, 1, 3).flatten()[:D_MODEL].expand(1, count, -1)
        scores = attention.logits(scheme, query, vector, middle, context, content_of(scheme, "decoder", tokens))
        signs += [scores[0, :, 0].T]
    sign = torch.cat(signs, dim=1)  # [N, .]
    apart = (sign[:, None] - sign[None]).abs().amax(-1) + 1e9 * torch.eye(count, dtype=dtype)
    return apart.min()


def reach(scheme: Scheme, dtype: torch.dtype) -> Tensor | None:
    """Positions have an effect in encoder, decoder and cross-attention; this is the smallest change by other positions.

    Returns a scalar, shape [].
    """
    injection, at = scheme.properties.injection, near(scheme.structure, 6)
    changes = [_reach_of_embeddings(scheme, at, dtype)] if "embeddings" in injection else []
    changes += [_reach_of_attention(scheme, at, dtype)] if "attention" in injection else []
    return torch.stack(changes).min() if changes else None


def _reach_of_embeddings(scheme: Scheme, at: Tensor, dtype: torch.dtype) -> Tensor:
    """The smallest change of embeddings by other positions, in the encoder or the decoder. Returns a scalar."""
    x = torch.ones(1, 6, D_MODEL, dtype=dtype)
    causal = (scheme.context(p, causal=c) for c in (False, True) for p in (at, at.flip(1)))
    a, b, c, d = (scheme.embed(x, context) for context in causal)
    return torch.stack([greatest(a - b), greatest(c - d)]).min()


def _reach_of_attention(scheme: Scheme, at: Tensor, dtype: torch.dtype) -> Tensor:
    """The smallest change of logits by other positions, in one of the three kinds of attention. Returns a scalar.

    If the scheme is `causal_only`, the tokens before the last one are put in another order.
    """
    here, flipped = _scores(scheme, at, at, dtype), at.flip(1)
    if scheme.causal_only:
        count = at.shape[1]
        order = torch.tensor([*range(count - 2, -1, -1), count - 1])
        return greatest((here - _scores(scheme, at, at, dtype, order))[..., -1, :])
    others = (_scores(scheme, x, y, dtype) for x, y in ((at, flipped), (flipped, at)))  # keys elsewhere, or queries
    moved = torch.stack([(here - other).detach().abs().flatten(1).amax(1) for other in others]).amax(0)  # [3]
    return (moved if getattr(scheme, "acts_between", True) else moved[:2]).min()


def shift(scheme: Scheme, dtype: torch.dtype) -> Tensor:
    """P(p + k) = R_k P(p) for all p, R_k orthogonal; inner products do not change if both positions are shifted.

    Returns a scalar, shape [].
    """
    errors = []
    for x, _ in _pairs(scheme.structure):
        grams = []
        for at in (x, *_prefixed(scheme, x)):
            start = torch.full((1, 8, D_MODEL), float(scheme.content_dependent), dtype=dtype)  # turned, or added to
            vector = scheme.embed(start, scheme.context(at))[0]
            grams.append(vector @ vector.T)
        errors.append(greatest(grams[0] - grams[1]))
    return torch.stack(errors).max()

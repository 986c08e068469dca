"""The laws of a scheme's scores and vectors, measured. `operators.py` has those of its operators.

Source: Algebraic Positional Encodings, laws L1 to L3 and sections 3.1 to 3.4.

The functions from `relative` on are laws: each returns an error as a scalar, or None if there is nothing to measure.
`gap` and `reach` return a difference, which has to be large. The first line of a law's docstring is printed for users.

Shapes: H heads, M queries, N tokens or keys, K channels of a head, C factors of a product, n branches and k depth of a
tree scheme.
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
    MAX_SIZE,
    greatest,
    length,
    near,
    paths,
    vectors,
)
from ape_cli.evaluation.laws.operators import halves
from ape_cli.position import Context, Role, Scheme
from ape_cli.structure import Cyclic, Structure, Tree


def _pairs(structure: Structure) -> Iterator[tuple[Tensor, Tensor]]:
    """Positions of queries and keys that are near each other, at a medium distance, and far apart.

    -> int64 [1, 8] (, C) each
    """
    for steps, depth in ((12, 3), (150, 8), (FAR // 2, DEEP // 2)):
        yield paths(structure, 8, 9, steps=steps, depth=depth), paths(structure, 8, 10, steps=steps, depth=depth)


def _parts(scheme: Scheme, x: Tensor, y: Tensor) -> Iterator[tuple[Role, Context, Context]]:
    """Contexts of queries and keys as in the encoder, in the decoder, and in the attention between them."""
    roles: dict[Role, tuple[bool, bool]] = {"encoder": (False, False), "decoder": (True, True), "cross": (True, False)}
    for role, (decoder_q, decoder_k) in roles.items():
        if not scheme.causal_only or role == "decoder":
            yield role, scheme.context(x, causal=decoder_q), scheme.context(y, causal=decoder_k)


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
    return scheme.layers[key].to(tokens.dtype)(tokens) if key in scheme.layers else None


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
        least, most = rate**steps, rate ** (steps / scheme.structure.width**0.5)
        errors += [greatest(decay - _decay(scheme, y, x).T), greatest(decay - decay.clamp(least, most))]
    return torch.stack(errors).max()


def _decay(scheme: Scheme, x: Tensor, y: Tensor) -> Tensor:
    """The locality bias of all pairs, 1 if there is none. -> float64 [M, N]"""
    decay = scheme.decay(scheme.context(x), scheme.context(y))
    return torch.ones(x.shape[1], y.shape[1], dtype=torch.float64) if decay is None else decay[0, 0].double()


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
    one = vectors(dtype, 1, 1).expand(-1, -1, count, -1)
    signs += [scheme.rotate(one, context, side)[0].transpose(0, 1).flatten(1) for side in ("query", "key")]
    bias = scheme.bias(vectors(dtype, 1, 2), middle, context)  # of a query in their middle: [1, H or 1, 1, N]
    signs += [] if bias is None else [bias[0, :, 0].T.to(dtype)]
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

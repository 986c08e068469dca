"""The symmetries of a kind of attention, measured.

Source: "Notes on attention and positional encodings" (Ganev), lemma 2.3: Att(t Q g, s K g, s V h) = t Att(Q, K, V) h
for permutations t of the queries and s of the keys with their values, g orthogonal, h invertible. Each action is
measured on its own. A kind states which of them it claims.

The public functions are laws: each returns an error as a scalar. The first line of its docstring is printed for users.

Shapes: H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ape_cli.attention import AttentionContext, AttentionType
from ape_cli.evaluation.laws._subjects import D_MODEL, DEEP, FAR, HEADS, greatest, make, paths, vectors
from ape_cli.position._operators import random_orthogonal

_K, _M, _N = D_MODEL // HEADS, 20, 23


def _attend(attention_type: AttentionType, dtype: torch.dtype, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention without positions, masks or dropout. [1, H, M, K], [1, H, N, K], [1, H, N, K] -> [1, H, M, K]"""
    scheme = make("none", "seq", dtype)
    at, of = (scheme.context(torch.arange(x.shape[2])[None]) for x in (q, k))
    return attention_type.attend(scheme, q, k, v, AttentionContext(at, of), 0.0)


def _qkv(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values.

    Some queries and keys are near each other, and some further apart than any kernel reaches.
    """
    return 1.5 * vectors(dtype, _M, 1), 1.5 * vectors(dtype, _N, 2), vectors(dtype, _N, 3)


def permutation(attention_type: AttentionType, dtype: torch.dtype, _: float = 1.0) -> Tensor:
    """Att(t Q, s K, s V) = t Att(Q, K, V), where t permutes queries, and s permutes keys and values.

    Returns a scalar, shape [].
    """
    generator, (q, k, v) = torch.Generator().manual_seed(4), _qkv(dtype)
    t, s = torch.randperm(_M, generator=generator), torch.randperm(_N, generator=generator)
    return greatest(
        _attend(attention_type, dtype, q[:, :, t], k[:, :, s], v[:, :, s])
        - _attend(attention_type, dtype, q, k, v)[:, :, t]
    )


def rotation(attention_type: AttentionType, dtype: torch.dtype, _: float = 1.0) -> Tensor:
    """Att(Q g, K g, V) = Att(Q, K, V), where g is orthogonal.

    Returns a scalar, shape [].
    """
    g, (q, k, v) = random_orthogonal((_K, _K), torch.Generator().manual_seed(5)).to(dtype), _qkv(dtype)
    return greatest(_attend(attention_type, dtype, q @ g, k @ g, v) - _attend(attention_type, dtype, q, k, v))


def values(attention_type: AttentionType, dtype: torch.dtype, _: float = 1.0) -> Tensor:
    """Att(Q, K, V h) = Att(Q, K, V) h, where h is invertible.

    Returns a scalar, shape [].
    """
    h = torch.randn(_K, _K, generator=torch.Generator().manual_seed(6), dtype=torch.float64).to(dtype)
    q, k, v = _qkv(dtype)
    return greatest(_attend(attention_type, dtype, q, k, v @ h) - _attend(attention_type, dtype, q, k, v) @ h)


def relative(attention_type: AttentionType, dtype: torch.dtype, decay: float = 1.0) -> Tensor:
    """With an orthogonal encoding, nothing changes if all paths get the same prefix, far along sequences and trees.

    Returns a scalar, shape [].
    """
    errors = []
    for name, expression in (("orthogonal-seq", "seq"), ("orthogonal-tree", "tree(2)")):
        scheme = make(name, expression, dtype, decay=decay)
        q, k, v = _qkv(dtype)
        # at larger distances the locality bias would leave nothing
        steps, depth = (FAR // 2, DEEP // 2) if decay == 1.0 else (40, 6)
        x, y = (paths(scheme.structure, n, s, steps=steps, depth=depth) for n, s in ((_M, 9), (_N, 10)))
        prefix = paths(scheme.structure, 1, 11, steps=FAR // 2, depth=DEEP // 2)
        prefixed = [scheme.structure.compose(prefix.expand_as(at), at) for at in (x, y)]
        output, prefixed_output = (
            attention_type.attend(
                scheme, q, k, v, AttentionContext.of(scheme, scheme.context(a), scheme.context(b)), 0.0
            )
            for a, b in ((x, y), prefixed)
        )
        errors.append(greatest(output - prefixed_output))
    return torch.stack(errors).max()

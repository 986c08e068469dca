"""The symmetries of a kind of attention, measured, and its manners inside a model.

Source: "Notes on attention and positional encodings" (Ganev), lemma 2.3:
Att(t Q g, s K g, s V h) = t Att(Q, K, V) h for permutations t of the queries and s of the keys with their
values, g orthogonal, h invertible. Each action is measured on its own; a kind says which ones it claims.

Shapes: H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ape_cli.attention import Kind, Link
from ape_cli.laws._subjects import D_MODEL, HEADS, greatest, make, paths, vectors
from ape_cli.laws.model import causality as _causality
from ape_cli.laws.model import independence as _independence
from ape_cli.laws.model import sample, small
from ape_cli.position._orthogonal import random_orthogonal

_K, _M, _N = D_MODEL // HEADS, 20, 23


def _attend(kind: Kind, dtype: torch.dtype, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Without positions, masks or dropout. -> [1, H, M, K]"""
    scheme = make("none", "seq", dtype)
    at, of = (scheme.context(torch.arange(x.shape[2])[None]) for x in (q, k))
    return kind.mix(scheme, q, k, v, Link(at, of), 0.0)


def _qkv(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Some queries and keys are near each other, some further apart than any kernel reaches."""
    return 1.5 * vectors(dtype, 1, _M, 1), 1.5 * vectors(dtype, 1, _N, 2), vectors(dtype, 1, _N, 3)


def permutation(kind: Kind, dtype: torch.dtype) -> Tensor | None:
    """Att(t Q, s K, s V) = t Att(Q, K, V), queries permuted by t, keys and values by s"""
    if not kind.permutation:
        return None
    generator, (q, k, v) = torch.Generator().manual_seed(4), _qkv(dtype)
    t, s = torch.randperm(_M, generator=generator), torch.randperm(_N, generator=generator)
    return greatest(_attend(kind, dtype, q[:, :, t], k[:, :, s], v[:, :, s]) - _attend(kind, dtype, q, k, v)[:, :, t])


def rotation(kind: Kind, dtype: torch.dtype) -> Tensor | None:
    """Att(Q g, K g, V) = Att(Q, K, V), g orthogonal"""
    if not kind.rotation:
        return None
    g, (q, k, v) = random_orthogonal((_K, _K), torch.Generator().manual_seed(5)).to(dtype), _qkv(dtype)
    return greatest(_attend(kind, dtype, q @ g, k @ g, v) - _attend(kind, dtype, q, k, v))


def values(kind: Kind, dtype: torch.dtype) -> Tensor | None:
    """Att(Q, K, V h) = Att(Q, K, V) h, h invertible"""
    if not kind.values:
        return None
    h = torch.randn(_K, _K, generator=torch.Generator().manual_seed(6), dtype=torch.float64).to(dtype)
    q, k, v = _qkv(dtype)
    return greatest(_attend(kind, dtype, q, k, v @ h) - _attend(kind, dtype, q, k, v) @ h)


def relative(kind: Kind, dtype: torch.dtype) -> Tensor:
    """With orthogonal encodings: prefixing all paths by one more moves nothing, far along sequences and trees"""
    errors = []
    for name, expression in (("orthogonal-seq", "seq"), ("orthogonal-tree", "tree(2)")):
        scheme = make(name, expression, dtype)
        (q, k, v), x, y = _qkv(dtype), paths(scheme.structure, _M, 0.5, 9), paths(scheme.structure, _N, 0.5, 10)
        prefix = paths(scheme.structure, 1, 0.5, 11)
        one, other = (
            kind.mix(scheme, q, k, v, Link(scheme.context(here), scheme.context(there)), 0.0)
            for here, there in ((x, y), (scheme.structure.compose(prefix, x), scheme.structure.compose(prefix, y)))
        )
        errors.append(greatest(one - other))
    return torch.stack(errors).max()


def causality(kind: Kind, dtype: torch.dtype) -> Tensor:
    """What stands after t, and where, changes no score up to t, with dropout on"""
    return _causality(make("orthogonal-seq", "seq", dtype), dtype, kind)


def independence(kind: Kind, dtype: torch.dtype) -> Tensor:
    """A row's scores are the same alone, beside other rows, and with padding behind it"""
    return _independence(make("orthogonal-seq", "seq", dtype), dtype, kind)


def dead_parameters(kind: Kind, dtype: torch.dtype) -> Tensor:
    """How many parameters of a model get no gradient (what only queries and keys feel aside, if it is a step)"""
    scheme = make("orthogonal-seq", "seq", dtype)
    net, (ids, at) = small(scheme, dtype, kind), sample(scheme)
    net(ids, at, torch.ones(3, 9, dtype=torch.bool), ids, at).logsumexp(-1).sum().backward()
    excused = () if kind.differentiable else ("query", "key", "cross_norm", "scheme")
    found = [(n, p) for n, p in net.named_parameters() if not any(part in n.split(".") for part in excused)]
    return torch.tensor(float(sum(p.grad is None or not bool((p.grad != 0).any()) for _, p in found)))

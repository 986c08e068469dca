"""Scores that depend on the content between two tokens: whether each token contributes one factor.

The score of a query at i and a key at j <= i, with the content of all tokens held fixed, is written as

    s_ij = q_i' T_ij k_j / sqrt(K) + d_ij.

It has this form if it is affine in q and in k, without terms in only one of them. T and d are then probed with zero
and basis vectors. Each token on the path contributes one factor if T_ij T_jl = T_il and d_ij + d_jl = d_il for all
l <= j <= i. A sum is a product too: d_ij acts as the unipotent matrix [[1, d_ij], [0, 1]]. If the score is not of
this form, as when gates depend on the query and the key, there is no operator between two tokens to be measured.

Shapes: H heads, N tokens, K channels of a head, D channels of the model.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ape_cli import attention
from ape_cli.evaluation.algebra.action import DTYPE, Action
from ape_cli.evaluation.laws._subjects import D_MODEL, HEADS, greatest, vectors
from ape_cli.evaluation.laws.scheme import content_of
from ape_cli.position import Scheme

_TOKENS, _K = 7, D_MODEL // HEADS
_AFFINE = 1e-9  # greatest error of a score that has the form above
PRODUCT, FORM = "path product", "affine"


def measure(scheme: Scheme) -> Action:
    """Measure a scheme that has scores of its own. The steps of the action are those from each token to the next."""
    probes = torch.cat([torch.zeros(1, _K, dtype=DTYPE), torch.eye(_K, dtype=DTYPE)])  # [K + 1, K]
    raw = _scores(scheme, probes[:, None].expand(-1, _K + 1, -1), probes[None].expand(_K + 1, -1, -1))
    constant = raw[0, 0]  # [H, N, N]
    t = (raw[1:, 1:] - constant).permute(2, 3, 4, 0, 1) * _K**0.5  # [H, N, N, K, K]
    q, k = vectors(DTYPE, _TOKENS, 31), vectors(DTYPE, _TOKENS, 32)  # [1, H, N, K], other ones for each token
    expected = torch.einsum("hia,hijab,hjb->hij", q[0], t, k[0]) / _K**0.5 + constant
    form = float(greatest((_scores_of(scheme, q, k)[0] - expected).tril()))
    if not form <= _AFFINE:
        return Action(FORM, form)
    errors = []
    for j in range(_TOKENS):  # the token in the middle
        after, before = slice(j, None), slice(None, j + 1)
        errors.append(greatest(t[:, after, j, None] @ t[:, None, j, before] - t[:, after, before]))
        sums = constant[:, after, j, None] + constant[:, None, j, before]
        errors.append(greatest(sums - constant[:, after, before]))
    step = torch.arange(1, _TOKENS)
    steps = torch.eye(_K + 2, dtype=DTYPE).repeat(HEADS, _TOKENS - 1, 1, 1)
    steps[..., :_K, :_K] = t[:, step, step - 1]
    steps[..., _K, _K + 1] = constant[:, step, step - 1]
    return Action(PRODUCT, float(torch.stack(errors).max()), steps.flatten(0, 1)[None])


def _scores(scheme: Scheme, q: Tensor, k: Tensor) -> Tensor:
    """The scores if all queries and all keys are equal, for several choices of both.

    float64 [A, B, K] each -> [A, B, H, N, N]
    """
    batch = q.shape[:2]
    q, k = (x.reshape(-1, 1, 1, _K).expand(-1, HEADS, _TOKENS, -1) for x in (q, k))
    return _scores_of(scheme, q, k).unflatten(0, batch)


def _scores_of(scheme: Scheme, q: Tensor, k: Tensor) -> Tensor:
    """The scores of causal attention, with the content of the same tokens in all rows. [B, H, N, K] -> [B, H, N, N]"""
    content = content_of(scheme, "decoder", vectors(DTYPE, _TOKENS, 33).transpose(1, 2).flatten(2))
    if content is not None:
        content = content.expand(len(q), *content.shape[1:])
    here = scheme.context(torch.arange(1, _TOKENS + 1)[None], causal=True)
    return attention.logits(scheme, q, k, here, here, content).detach()

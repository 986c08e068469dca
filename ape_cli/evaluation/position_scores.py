"""The score that a scheme alone gives to two positions: what is left of a logit when content is averaged out.

Let c be the content of a token: a random vector without a preferred direction, which is the query at position x and
the key at position y. Its length is such that its logit with itself is 1 without an encoding. So 1 is the unit of
scores. E(x, y) is the mean over c of the logit (`attention.logits`: after the scaling by 1/sqrt(K), with the locality
bias, before mask and softmax). The score is one of these, which is named with the result:

- `SHARE`, for schemes that multiply the content (`content_dependent`, without a bias): E(x, y), the share of the
  content's logit that the operators leave. It is 1 at equal positions if the operators are orthogonal. With operators
  [x] and [y] it is c^distance tr([x]'[y]) / K; for `rope` it is the mean of cos((y - x) theta_i).
- `ADDED`, for all other schemes: E(x, y) - 1, which the scheme adds to the content's logit. For `alibi` it is
  -m |y - x|, for `t5` the scalar of the bucket, and for `transformer-xl` the term v r_(x-y) / sqrt(K), because the
  terms with the content have the mean 0. For `none` it is 0.
- `SPREAD`, for schemes whose bias has the mean 0 at all pairs (`relative`, whose bias is q w): the root of the mean
  over c of the squared bias. It says how much the bias can matter, and has no sign. A locality bias is left out.

A scheme that acts on the embeddings acts before the projections of queries and keys, which mix all channels. Its
score has the projections replaced by the identity: query and key are the embeddings at x and y, and there is a single
head with all D channels. Then the vectors p of an additive scheme have the score p_x p_y / D, where the embeddings of
tokens have the squared length D. For `sinusoidal` it is half of the mean of cos((y - x) theta_i). If a scheme acts in
attention too, only that is scored, and the name of the score ends with `IN_ATTENTION`.

The mean over c is exact. A logit is a quadratic polynomial of c, so c and -c for each axis are enough. Positions are
those of the encoder, or of the decoder if the model has no other part. If a scheme acts only in causal attention, they
are a decoder's, and later keys have the score 0.
If its scores depend on the tokens between two places (`logits`), there is no score of two places alone.

Shapes: H heads (1 for schemes that act on the embeddings), N places, C factors, K channels of a head, D of the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ape_cli import attention, position
from ape_cli.core import user_parts
from ape_cli.core.errors import ApeError, UsageError
from ape_cli.core.rng import I64
from ape_cli.position import Context, Scheme

SHARE = "share of the content's logit"
ADDED = "added to the logit"
SPREAD = "added to the logit, root mean square"
IN_ATTENTION = ", by attention alone (its embeddings are not shown)"
_DECIMALS = 12
_ZERO = 1e-9  # of a mean beside its root mean square, relative


def initial_scheme(name: str, seed: int, **arguments: Any) -> Scheme:
    """A scheme with the initial weights of a seed. `arguments`: the others of `position.make`, which may raise."""
    return position.make(name, generator=torch.Generator().manual_seed(seed), **arguments)


def position_scores(
    scheme: Scheme, positions: I64, scale: float = 1.0, *, decoder_only: bool = False
) -> tuple[NDArray[np.float64], str]:
    """The scores of all pairs of positions, and which of the three they are.

    positions: int64 [N] or [N, C] -> float64 [H, N, N], queries as rows. `scale`: the factor of what the scheme adds to
    embeddings. `decoder_only`: whether the model has only a decoder. The scheme is converted to float64. Raises
    `ApeError` if a hook of a scheme that is not part of ape fails, or if a score is not finite, and `UsageError` if
    scores depend on the tokens between two places.
    """
    if scheme.overrides("logits"):
        what = f"the scores of {scheme.name} depend on the tokens, so two places alone have no score"
        raise UsageError(what, fix="draw the attention of a run: `view=attention`, or choose another scheme")
    with torch.no_grad(), user_parts.explained():
        scores, what = _scores(scheme, positions, scale, decoder_only or bool(scheme.causal_only))
    if not np.isfinite(scores).all():
        fix = "correct its hooks, or choose other options"
        raise ApeError(f"the scores of scheme {scheme.name!r} are not all finite", fix=fix)
    return scores, what


def _scores(scheme: Scheme, positions: I64, scale: float, causal: bool) -> tuple[NDArray[np.float64], str]:
    """`position_scores`, unchecked. `causal`: whether the positions are a decoder's."""
    context = scheme.double().context(torch.from_numpy(positions)[None], causal=causal)
    injection, partly = scheme.properties.injection, ""
    if injection == "embeddings":
        mean_logits = _of_embeddings(scheme, context, scale)
    else:
        partly = IN_ATTENTION if "embeddings" in injection else ""
        mean, square = _of_bias(scheme, context)
        if float(square.max()) > 0 and float(mean.abs().max()) <= _ZERO * float(square.max()) ** 0.5:
            return _rounded(square.sqrt()), SPREAD + partly
        contents = _of_heads(scheme, len(positions))
        mean_logits = _mean(attention.logits(scheme, c, c, context, context)[0] for c in contents)
    shares = scheme.content_dependent and not scheme.overrides("bias")
    shown = mean_logits if shares else mean_logits - 1.0
    return _rounded(shown.tril() if scheme.causal_only else shown), (SHARE if shares else ADDED) + partly


def _rounded(scores: Tensor) -> NDArray[np.float64]:
    """Scores without rounding errors, which would have colours if all scores are 0. float64 [...] -> the same"""
    return np.asarray(scores.numpy().round(_DECIMALS) + 0.0)


def _contents(channels: int, length: float) -> Iterator[Tensor]:
    """Vectors of a length along each axis, in both directions. -> float64 [channels] each"""
    for axis in torch.eye(channels, dtype=torch.float64) * length:
        yield from (axis, -axis)


def _of_heads(scheme: Scheme, count: int) -> Iterator[Tensor]:
    """The contents whose logit with itself is 1, as the queries or keys of all heads and places. -> [1, H, N, K]"""
    k = scheme.shape.head_dim
    for content in _contents(k, k**0.25):
        yield content.expand(1, scheme.shape.heads, count, -1)


def _of_bias(scheme: Scheme, context: Context) -> tuple[Tensor, Tensor]:
    """The mean over contents of the bias, and of its square. -> float64 [H or 1, N, N] each; zeros if there is none"""
    count = context.positions.shape[1]
    mean = square = torch.zeros(1, count, count, dtype=torch.float64)
    contents = list(_of_heads(scheme, count)) if scheme.overrides("bias") else []
    for content in contents:
        term = scheme.bias(content, context, context)
        if term is not None:
            mean, square = mean + term[0] / len(contents), square + term[0] ** 2 / len(contents)
    return mean, square


def _of_embeddings(scheme: Scheme, context: Context, scale: float) -> Tensor:
    """E of a scheme that acts on the embeddings, with a single head of D channels. -> float64 [1, N, N]"""
    d, count = scheme.shape.d_model, context.positions.shape[1]

    def product(content: Tensor) -> Tensor:
        """The logits of the embeddings of one content at all places. [D] -> [1, N, N]"""
        plain = content.expand(1, count, -1)
        x = plain + scale * (scheme.embed(plain, context) - plain)
        return x @ x.mT / d

    decay = scheme.decay(context, context)
    mean = _mean(product(content) for content in _contents(d, d**0.5))
    return mean if decay is None else mean * decay[0].double()


def _mean(values: Iterator[Tensor]) -> Tensor:
    """The mean of tensors, [...], one of which is in memory at a time."""
    total, count = next(values).double(), 1
    for value in values:
        total, count = total + value, count + 1
    return total / count

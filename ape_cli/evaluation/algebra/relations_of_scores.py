"""Relations of encodings that add a term to the scores, compute scores from content, or are added to the embeddings.

Shapes: B batch, H heads, M queries, N keys or positions, K channels of a head, D channels of the model.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ape_cli.evaluation.algebra.relation import ConfiguredScheme, Relation, layer_of, put
from ape_cli.position import Context, Scheme
from ape_cli.position._rotation import frequencies

_SMALL = 1e-15  # c of FIRE in the limit of a linear scale
_CLOSED = -80.0  # where a sigmoid is 0 in the limit


class _KeyBias(Scheme):
    """A bias m_h j on the key at position j, with the slopes of ALiBi. No query's position is read."""

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor:
        """m_h j. -> [B or 1, H, M, N]"""
        term = _slopes(self)[:, None, None] * k_context.positions[:, None, None]
        return term.expand(-1, -1, q.shape[2], -1)


def _slopes(scheme: Scheme) -> Tensor:
    """The slopes of ALiBi, 2^(-8h/H) for h = 1, ..., H. -> float64 [H]"""
    heads = scheme.shape.heads
    return torch.tensor([2.0 ** (-8 * h / heads) for h in range(1, heads + 1)], dtype=torch.float64)


def _linear_function(general: Any, c: Tensor, slopes: Tensor) -> None:
    """f(psi(d) / psi(L)) = -slope log(c d + 1) for distances d up to L, with f linear and L the threshold.

    The divisor is psi(L), increased by 1e-6.
    """
    for parameter in (general.w, general.b, general.out_w, general.out_b):
        put(parameter, torch.zeros(()))
    put(general.c, c)
    general.w.data[0] = 1.0
    general.out_w.data[:, 0] = -slopes * ((c * general.initial).log1p() + 1e-6)


def _one_scale(special: Any, general: Any) -> None:
    """c = r2, which all heads share, and slopes r1."""
    special.free.data[1] = special.free[1, 0]
    r1, r2 = special.coefficients()
    _linear_function(general, r2[0], r1)


def _constant_gates(special: Any, general: Any) -> None:
    """Gates e^-m that do not depend on the token."""
    project = layer_of(general).double().project
    put(project.weight, torch.zeros(()))
    put(project.bias, -_slopes(special).expm1().log())


def _closed(_: Any, general: Any) -> None:
    """beta in the limit 0."""
    beta = layer_of(general).double().beta
    put(beta.weight, torch.zeros(()))
    put(beta.bias, torch.tensor(_CLOSED))


def _given(special: Any, general: Any) -> None:
    put(general.basis, torch.zeros(()))
    put(general.angles, -frequencies(special.shape.d_model, special.base))
    put(general.point, special.start(None))


_ALIBI, _NONE = ConfiguredScheme("alibi"), ConfiguredScheme("none")
_SINUSOIDAL, _MATRIX = ConfiguredScheme("sinusoidal"), ConfiguredScheme("matrix-power")
RELATIONS = [
    Relation(ConfiguredScheme("shear"), _ALIBI, "same scores for keys behind the query", compared="behind"),
    Relation(
        _ALIBI,
        ConfiguredScheme("a bias on keys", formula=_KeyBias),
        "bias m j; the softmax cancels m i, which all keys share",
        compared="weights",
    ),
    Relation(
        _ALIBI,
        ConfiguredScheme("kerple", {"kind": "power"}),
        "r1 = m, r2 = 1",  # which is twice a sigmoid of 0
        lambda alibi, kerple: put(kerple.free, torch.stack([_slopes(alibi).log(), torch.zeros_like(_slopes(alibi))])),
    ),
    Relation(
        _ALIBI,
        ConfiguredScheme("fire"),
        "limit c -> 0, with a linear function",  # log(c d + 1) is c d
        lambda alibi, fire: _linear_function(fire, torch.tensor(_SMALL, dtype=torch.float64), _slopes(alibi) / _SMALL),
    ),
    Relation(
        ConfiguredScheme("kerple"),
        ConfiguredScheme("fire"),
        "c = r2 if all heads share it, with a linear function",
        _one_scale,
    ),
    Relation(
        _ALIBI,
        ConfiguredScheme("forget"),
        "constant gates e^-m, at consecutive positions",
        _constant_gates,
        "behind",
        places=lambda _: (torch.arange(1, 11)[None],) * 2,  # gates count tokens and not steps
    ),
    Relation(_NONE, ConfiguredScheme("path"), "limit beta -> 0", _closed, "behind"),
    Relation(
        _NONE,
        ConfiguredScheme("contextual"),
        "zero vectors",
        lambda _, contextual: put(contextual.vectors, torch.zeros(())),
        "behind",
    ),
    Relation(_SINUSOIDAL, _MATRIX, "the default matrix and point", compared="vectors"),
    Relation(
        _MATRIX,
        ConfiguredScheme("matrix-power", {"learned": True}),
        "the same angles and point, basis I",
        _given,
        "vectors",
    ),
    Relation(
        _SINUSOIDAL,
        ConfiguredScheme("learned", {"max_size": 200}),
        "its vectors as a table, up to max_size",
        lambda sinusoidal, learned: put(learned.table, sinusoidal.vectors(torch.arange(len(learned.table))[None])[0]),
        "vectors",
    ),
]

"""A relation between two encodings, and the difference of their scores.

Shapes: H heads, N tokens, K channels of a head, D channels of the model, C coordinates.

The relations in this file are of encodings that add a term to the scores, compute scores from content, or are added to
the embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from ape_cli import attention, position
from ape_cli.evaluation.laws._subjects import D_MODEL, greatest, make, paths, vectors
from ape_cli.evaluation.laws.scheme import content_of
from ape_cli.position import Context, Scheme, Shape
from ape_cli.position._rotation import frequencies
from ape_cli.structure import Structure, example, parse_structure

_DTYPE = torch.float64
_COUNT = 10  # tokens


@dataclass(frozen=True)
class ConfiguredScheme:
    """A scheme with options on a structure, or the formula of a publication, which is a scheme without a name here."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    structure: str = "seq"
    formula: Callable[[Shape], Scheme] | None = None
    source: str = ""  # of a formula
    places: str = ""  # what it reads instead of the positions of the general one

    @property
    def label(self) -> str:
        """The name with options, and with the structure if it is not the usual one: `orthogonal on cyclic(6)`."""
        own = "seq" if self.formula else example(position.load(self.name).structures[0]).expression
        values = {k: f"{v:g}" if isinstance(v, float) else str(v).lower() for k, v in self.options.items()}
        where = f" on {self.places or self.structure}" if self.places or self.structure != own else ""
        return " ".join([self.name, *(f"{key}={value}" for key, value in values.items())]) + where

    def made(self) -> Scheme:
        """A small instance in float64."""
        if self.formula is None:
            return make(self.name, self.structure, _DTYPE, **self.options)
        shape = make("none", "seq", _DTYPE).shape
        drawn = replace(shape, structure=parse_structure(self.structure), generator=torch.Generator().manual_seed(5))
        return self.formula(drawn).to(_DTYPE)


@dataclass(frozen=True)
class Relation:
    """An encoding that is a special case of another one.

    `fit(special, general)` sets the parameters of the general one, if any have to be set. What is compared: `scores` of
    all pairs, scores of keys up to the query (`behind`) in a decoder, attention `weights` there, or the `vectors` that
    are added to tokens.
    """

    special: ConfiguredScheme
    general: ConfiguredScheme
    about: str  # how the parameters are mapped
    fit: Callable[[Any, Any], None] | None = None
    compared: Literal["scores", "behind", "weights", "vectors"] = "scores"
    basis: Callable[[Any], Tensor] | None = None  # Q [H, K, K]: the general one gets Q' q and Q' k, as projections can
    positions: Callable[[Structure], tuple[Tensor, Tensor]] | None = None  # for the special one and the general

    def difference(self, change: Callable[[Scheme, Scheme], None] | None = None) -> float:
        """The greatest difference. `change`: what is done to the two schemes before they are compared."""
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            special, general = self.special.made(), self.general.made()
            if self.fit:
                self.fit(special, general)
            if change:
                change(special, general)
            at, there = (
                self.positions(general.structure) if self.positions else (_test_positions(special.structure),) * 2
            )
            basis = self.basis(special) if self.basis else None
            return float(greatest(self._seen(special, at, None) - self._seen(general, there, basis)))

    def _seen(self, scheme: Scheme, at: Tensor, basis: Tensor | None) -> Tensor:
        """What is compared of a scheme."""
        if self.compared == "vectors":
            return scheme.embed(torch.zeros(1, at.shape[1], D_MODEL, dtype=_DTYPE), scheme.context(at))
        context = scheme.context(at, causal=self.compared != "scores")
        q, k = (vectors(_DTYPE, at.shape[1], seed) for seed in (1, 2))
        if basis is not None:
            q, k = q @ basis, k @ basis
        tokens = vectors(_DTYPE, at.shape[1], 3).transpose(1, 2).flatten(2)
        scores = attention.logits(scheme, q, k, context, context, content_of(scheme, "decoder", tokens))
        if self.compared == "scores":
            return scores
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(ahead, -torch.inf).softmax(-1) if self.compared == "weights" else scores.tril()


def _test_positions(structure: Structure) -> Tensor:
    """Positions in ascending order, the empty path first. -> int64 [1, N(, C)]"""
    at = paths(structure, _COUNT, 41, steps=200, depth=8)
    if structure.width == 1:
        at = at.sort(dim=1).values
    at[:, 0] = 0
    return at


def put(parameter: Tensor, value: Tensor) -> None:
    """Set the values of a parameter, which are broadcast."""
    parameter.data.copy_(value.to(parameter.dtype).expand_as(parameter))


def layer_of(scheme: Scheme) -> Any:
    """The module of the layer that is measured."""
    return scheme.layers[scheme.attach("decoder", 0)]


def planes(skew: Tensor) -> tuple[Tensor, Tensor]:
    """The angles t and a free matrix A of skew-symmetric matrices S = Q T Q', where Q = exp(A - A') is a rotation.

    T has the blocks [[0, -t], [t, 0]]. The eigenvalues of S have to be distinct. [..., K, K] -> [..., K/2], [..., K, K]
    """
    size = skew.shape[-1]
    values, vectors = torch.linalg.eigh(1j * skew.to(torch.complex128))
    angles, chosen = values[..., size // 2 :], vectors[..., size // 2 :] * 2**0.5  # S a = t b, S b = -t a for a + i b
    chosen = chosen * torch.exp(1j * torch.arange(1, size // 2 + 1))  # any phase; Q then has no eigenvalue near -1
    q = torch.stack([chosen.real, chosen.imag], dim=-1).flatten(-2)
    sign = torch.linalg.det(q).sign()
    q[..., -1] *= sign[..., None]  # a plane that is turned the other way instead
    angles = torch.cat([angles[..., :-1], angles[..., -1:] * sign[..., None]], dim=-1)
    turned, basis = torch.linalg.eig(q)
    logarithm = (basis * turned.log()[..., None, :]) @ torch.linalg.inv(basis)
    return angles, logarithm.real / 2


_SMALL = 1e-15  # c of FIRE in the limit of a linear scale
CLOSED = -80.0  # where a sigmoid is 0 in the limit


class _KeyBias(Scheme):
    """A bias m_h j on the key at position j, with the slopes of ALiBi. No query's position is read."""

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor:
        """m_h j. -> [B or 1, H, M, N]"""
        term = slopes(self)[:, None, None] * k_context.positions[:, None, None]
        return term.expand(-1, -1, q.shape[2], -1)


def slopes(scheme: Scheme) -> Tensor:
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
    put(project.bias, -slopes(special).expm1().log())


def closed(_: Any, general: Any) -> None:
    """beta in the limit 0."""
    beta = layer_of(general).double().beta
    put(beta.weight, torch.zeros(()))
    put(beta.bias, torch.tensor(CLOSED))


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
        lambda alibi, kerple: put(kerple.free, torch.stack([slopes(alibi).log(), torch.zeros_like(slopes(alibi))])),
    ),
    Relation(
        _ALIBI,
        ConfiguredScheme("fire"),
        "limit c -> 0, with a linear function",  # log(c d + 1) is c d
        lambda alibi, fire: _linear_function(fire, torch.tensor(_SMALL, dtype=torch.float64), slopes(alibi) / _SMALL),
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
        positions=lambda _: (torch.arange(1, 11)[None],) * 2,  # gates count tokens and not steps
    ),
    Relation(_NONE, ConfiguredScheme("path"), "limit beta -> 0", closed, "behind"),
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

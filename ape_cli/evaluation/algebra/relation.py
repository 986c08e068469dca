"""A relation between two encodings, and the difference of their scores.

Shapes: H heads, N tokens, K channels of a head, D channels of the model, C coordinates.
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
from ape_cli.position import Scheme, Shape
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

    @property
    def label(self) -> str:
        """The name with options, and with the structure if it is not the usual one: `orthogonal on cyclic(6)`."""
        own = "seq" if self.formula else example(position.load(self.name).structures[0]).expression
        values = {k: f"{v:g}" if isinstance(v, float) else str(v).lower() for k, v in self.options.items()}
        where = "" if self.structure == own else f" on {self.structure}"
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
    places: Callable[[Structure], tuple[Tensor, Tensor]] | None = None  # positions for the special one and the general

    def difference(self, change: Callable[[Scheme, Scheme], None] | None = None) -> float:
        """The greatest difference. `change`: what is done to the two schemes before they are compared."""
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            special, general = self.special.made(), self.general.made()
            if self.fit:
                self.fit(special, general)
            if change:
                change(special, general)
            at, there = self.places(general.structure) if self.places else (_places(special.structure),) * 2
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


def _places(structure: Structure) -> Tensor:
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
    values, found = torch.linalg.eigh(1j * skew.to(torch.complex128))
    angles, chosen = values[..., size // 2 :], found[..., size // 2 :] * 2**0.5  # S a = t b, S b = -t a for a + i b
    chosen = chosen * torch.exp(1j * torch.arange(1, size // 2 + 1))  # any phase; Q then has no eigenvalue near -1
    q = torch.stack([chosen.real, chosen.imag], dim=-1).flatten(-2)
    sign = torch.linalg.det(q).sign()
    q[..., -1] *= sign[..., None]  # a plane that is turned the other way instead
    angles = torch.cat([angles[..., :-1], angles[..., -1:] * sign[..., None]], dim=-1)
    turned, basis = torch.linalg.eig(q)
    logarithm = (basis * turned.log()[..., None, :]) @ torch.linalg.inv(basis)
    return angles, logarithm.real / 2

"""The laws that encodings and attentions claim, measured: an error in float64 and in float32, and whether it holds.

A law is a function of a scheme (or of a kind of attention) and a precision that returns the greatest
absolute deviation (0 where the law holds exactly), or None where no such law is claimed. Paths reach to
10,000 steps of a sequence and to 40 levels of a tree. What a scheme claims, it says itself:
`homomorphism`, `relative`, `unique`; so does a kind: `permutation`, `rotation`, `values`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ape_cli import attention, position
from ape_cli.errors import pick
from ape_cli.laws import group, mixing, model
from ape_cli.laws._subjects import examples, make

Law = Callable[[Any, torch.dtype], Tensor | None]

LAWS: dict[str, Law] = {
    "identity": group.identity,
    "composition": group.composition,
    "inverse": group.inverse,
    "orthogonality": group.orthogonality,
    "period": group.period,
    "round trip": group.round_trip,
    "relative": group.relative,
    "locality": group.locality,
    "uniqueness": group.gap,
    "equivariance": model.equivariance,
    "causality": model.causality,
    "independence": model.independence,
    "gradients": model.dead_parameters,
}
OF_ATTENTION: dict[str, Law] = {
    "permutation": mixing.permutation,
    "rotation": mixing.rotation,
    "values": mixing.values,
    "relative": mixing.relative,
    "causality": mixing.causality,
    "independence": mixing.independence,
    "gradients": mixing.dead_parameters,
}
LIMITS = {torch.float64: 1e-9, torch.float32: 1e-4}
LEAST_GAP = 1e-4  # of `uniqueness`, the one law whose measure has to be large
_OPTIONS: dict[str, dict[str, Any]] = {"locality": {"decay": 0.98}}  # the others are measured without the locality bias


@dataclass(frozen=True)
class Finding:
    """One law of one scheme on one structure, or of one kind of attention (structure None)."""

    subject: str
    structure: str | None
    law: str
    about: str
    float64: float | None
    float32: float | None
    holds: bool
    trouble: str | None = None  # what went wrong, where nothing could be measured


def subjects() -> list[str]:
    """All that can be checked: every scheme, then every kind of attention."""
    return position.names() + attention.names()


def check(name: str) -> Iterator[Finding]:
    """Every law that a scheme claims, on an example of every structure that it reads; or an attention's laws."""
    pick("scheme or attention", name, subjects())
    if name in attention.names():
        for law, measure in OF_ATTENTION.items():
            yield from _finding(name, None, law, measure, partial(_kind, name))
        return
    for expression in examples(name):
        for law, measure in LAWS.items():
            yield from _finding(
                name, expression, law, measure, partial(make, name, expression, **_OPTIONS.get(law, {}))
            )


def _kind(name: str, dtype: torch.dtype) -> attention.Kind:
    return attention.make(name)  # it has no parameters: its precision is that of what it is given


def _finding(
    name: str, expression: str | None, law: str, measure: Law, subject: Callable[[torch.dtype], Any]
) -> Iterator[Finding]:
    """What a law comes to; nothing if it is not claimed."""
    about = (measure.__doc__ or "").strip().splitlines()[0].rstrip(".")
    errors = []
    try:
        with torch.random.fork_rng(devices=[]):
            for dtype in LIMITS:
                error = measure(subject(dtype), dtype)
                if error is None:
                    return
                errors.append(float(error.detach()))
    except Exception as error:  # whatever is done wrong is a finding, and the others are still measured
        yield Finding(name, expression, law, about, None, None, False, f"{type(error).__name__}: {error}")
        return
    if law == "uniqueness":
        holds = all(e >= LEAST_GAP for e in errors)
    else:
        holds = all(e <= limit for e, limit in zip(errors, LIMITS.values(), strict=True))
    yield Finding(name, expression, law, about, errors[0], errors[1], holds)

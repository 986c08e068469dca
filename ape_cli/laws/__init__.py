"""The laws that encodings claim, measured: an error in float64 and in float32 for each, and whether it holds.

A law is a function of a scheme and a precision that returns the greatest absolute deviation (0 where the
law holds exactly), or None where the scheme claims no such law. Paths reach to 10,000 steps of a sequence
and to 40 levels of a tree. What a scheme claims, it says itself: `homomorphism`, `relative`, `unique`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ape_cli.laws import group, model
from ape_cli.laws._subjects import examples, make
from ape_cli.position import Scheme

Law = Callable[[Scheme, torch.dtype], Tensor | None]

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
LIMITS = {torch.float64: 1e-9, torch.float32: 1e-4}
LEAST_GAP = 1e-4  # of `uniqueness`, the one law whose measure has to be large
_OPTIONS = {"locality": {"decay": 0.98}}  # the others are measured without the locality bias


@dataclass(frozen=True)
class Finding:
    """One law of one scheme on one structure."""

    subject: str
    structure: str
    law: str
    about: str
    float64: float | None
    float32: float | None
    holds: bool
    trouble: str | None = None  # what went wrong, where nothing could be measured


def check(name: str) -> Iterator[Finding]:
    """Every law that a scheme claims, on an example of every structure that it reads."""
    for expression in examples(name):
        for law, measure in LAWS.items():
            found = _finding(name, expression, law, measure)
            if found is not None:
                yield found


def _finding(name: str, expression: str, law: str, measure: Law) -> Finding | None:
    about = (measure.__doc__ or "").strip().splitlines()[0].rstrip(".")
    errors = []
    try:
        for dtype in LIMITS:
            error = measure(make(name, expression, dtype, **_OPTIONS.get(law, {})), dtype)
            if error is None:
                return None
            errors.append(float(error.detach()))
    except Exception as error:  # whatever a scheme does wrong is a finding, and the others are still measured
        return Finding(name, expression, law, about, None, None, False, f"{type(error).__name__}: {error}")
    if law == "uniqueness":
        holds = all(e >= LEAST_GAP for e in errors)
    else:
        holds = all(e <= limit for e, limit in zip(errors, LIMITS.values(), strict=True))
    return Finding(name, expression, law, about, errors[0], errors[1], holds)

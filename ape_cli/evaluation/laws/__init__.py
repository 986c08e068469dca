"""The laws that schemes and kinds of attention claim, measured as errors in float64 and in float32.

A law is a function of a scheme (or of a kind of attention) and a precision. It returns the greatest absolute
deviation, which is 0 if the law holds exactly, or None if there is nothing to measure. The first line of its docstring
describes the law to users. The algebra is measured at 10,000 steps of a sequence and 40 levels of a tree. Scores are
measured at pairs that are near, at a medium distance, and that far apart. Models are measured on rows that reach to
12, 60 and 300 steps, and to 2, 5 and 12 levels. Everything that attention computes is measured with the locality bias
off and on. A scheme states its claims in `homomorphism`, `relative`, `isometric` and `unique`, and a kind in
`permutation`, `rotation` and `values`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor

from ape_cli import attention, position, tasks
from ape_cli.core import plugins, user_parts
from ape_cli.core.errors import ApeError, NeedsError, error_text
from ape_cli.data import position_maps
from ape_cli.evaluation.laws import mixing, model, scheme
from ape_cli.evaluation.laws._subjects import examples, make
from ape_cli.position import Scheme

T = TypeVar("T")
logger = logging.getLogger(__name__)

LAWS: dict[str, Callable[[Scheme, torch.dtype], Tensor | None]] = {
    "identity": scheme.identity,
    "composition": scheme.composition,
    "inverse": scheme.inverse,
    "orthogonality": scheme.orthogonality,
    "duality": scheme.duality,
    "period": scheme.period,
    "round trip": scheme.round_trip,
    "relative": scheme.relative,
    "locality": scheme.locality,
    "distance": scheme.distance,
    "shift": scheme.shift,
    "uniqueness": scheme.gap,
    "reach": scheme.reach,
    "equivariance": model.equivariance,
    "causality": model.causality,
    "stepwise": model.stepwise,
    "independence": model.independence,
    "gradients": model.dead_parameters,
}
OF_ATTENTION: dict[str, Callable[..., Tensor]] = {
    "permutation": mixing.permutation,
    "rotation": mixing.rotation,
    "values": mixing.values,
    "relative": mixing.relative,
    "causality": model.causality,
    "stepwise": model.stepwise,
    "independence": model.independence,
}
CLAIMS = {  # the attribute by which a scheme claims a law; the other laws hold for all schemes
    **dict.fromkeys(("identity", "composition", "inverse", "orthogonality", "duality", "period"), "homomorphism"),
    "relative": "relative",
    "uniqueness": "unique",
    "shift": "isometric",
}
_KINDS = {"orthogonality": "orthogonal", "duality": "linear"}  # laws of homomorphisms of one kind
_IMPORT = "Its file can be imported, and it can be made"
IN_A_MODEL = ("equivariance", "causality", "stepwise", "independence", "gradients")
LIMITS = {torch.float64: 1e-9, torch.float32: 1e-4}
GAPS = {"uniqueness", "reach"}  # laws whose measure has to be large, in either precision
LEAST_GAP = 1e-4  # minimum of those measures
# computed in float32 by every model, so the limit of float32 holds in both precisions
_MADE_IN_FLOAT32 = {"locality", "distance"}
# locality biases of each law; 1 for all others
_DECAYS = {"locality": (0.98,), "distance": (0.98,)} | dict.fromkeys(("relative", *IN_A_MODEL), (1.0, 0.9))
_DECAYS["stepwise"] = (1.0,)  # in float32, the locality bias of one query differs from that of all in its last digit


@dataclass(frozen=True)
class Finding:
    """The result of a law or of a rule for one part. Laws of a scheme are measured on one structure each."""

    part: str  # the kind of part: "scheme", "attention" and so on
    subject: str
    options: dict[str, Any]
    structure: str | None
    law: str
    about: str
    float64: float | None = None  # the error in this precision; None where it was not measured, and for rules
    float32: float | None = None
    holds: bool = False
    trouble: str | None = None  # the error, if the law could not be measured or the rule is broken

    @property
    def name(self) -> str:
        """The subject, with the options that differ from the defaults: `rope learned=true`."""
        return " ".join([self.subject, *(f"{k}={str(v).lower()}" for k, v in self.options.items())])


Check: TypeAlias = tuple[ModuleType, Callable[[str], Iterator[Finding]]]


def check_names(names: Iterable[str], checks: Mapping[str, Check]) -> None:
    """Check that each is the name of a part of one of these kinds.

    Raises `UsageError`, with the places that were searched, for another name.
    """
    packages = [package for package, _ in checks.values()]
    all_names = {name for package in packages for name in package.names()}
    for name in names:
        if name not in all_names:
            raise plugins.not_found(" or ".join(checks), name, all_names, *packages)


def check(name: str, checks: Mapping[str, Check] | None = None) -> Iterator[Finding]:
    """Check every part of this name: a scheme and a kind of attention may share one.

    `checks`: the kinds of parts, by default `CHECKS`. Raises `UsageError` for an unknown name.
    """
    checks = CHECKS if checks is None else checks
    check_names([name], checks)
    for package, findings in checks.values():
        if name in package.names():
            yield from findings(name)


def check_scheme(name: str) -> Iterator[Finding]:
    """Apply the rules for schemes to a scheme, and measure every law that it claims if it keeps them.

    It is measured on an example of every structure that it reads, and with each of its `variants`.
    """
    try:
        every = examples(name)
        if idle := position.without_hooks(position.load(name)):
            raise idle
        forms: list[tuple[dict[str, Any], str]] = [({}, expression) for expression in every]
        forms += [(options, every[0]) for options in position.load(name).variants]
    except ApeError as error:
        yield Finding("scheme", name, {}, None, "import", _IMPORT, trouble=str(error))
        return
    rules: list[Finding] = []
    for options, structure in forms:
        made = partial(make, name, structure, torch.float32, **options)
        rules += check_rules("scheme", name, made, position.RULES, options, structure)
    yield from rules
    for options, structure in forms if all(f.holds for f in rules) else ():
        for law, measure in LAWS.items():
            finding = Finding("scheme", name, options, structure, law, _about(measure))
            yield from _finding(finding, partial(_of_scheme, finding))


def check_attention(name: str) -> Iterator[Finding]:
    """Apply the rules for kinds of attention to a kind, and measure every law that it claims if it keeps them."""

    def made() -> attention.AttentionType:
        """The kind. It has no parameters, so its precision is that of its inputs."""
        with position.global_seed(torch.Generator().manual_seed(3)):
            return attention.make(name)

    rules = list(check_rules("attention", name, made, attention.RULES))
    yield from rules
    for law, measure in OF_ATTENTION.items() if all(f.holds for f in rules) else ():
        yield from _finding(
            Finding("attention", name, {}, None, law, _about(measure)), partial(_of_attention_type, made(), law)
        )


def check_rules(
    part_kind: str,
    name: str,
    make: Callable[[], T],
    rules: Mapping[str, Callable[[T], None]],
    options: Mapping[str, Any] | None = None,
    structure: str | None = None,
) -> Iterator[Finding]:
    """Apply rules to a part that `make` returns, a new one for each rule. `part_kind` and `name`: of the part.

    If it cannot be made, there is one finding, whose law is "import". There is none, but a message, for a part that
    needs a package or data that is not here.
    """
    blank = Finding(part_kind, name, dict(options or {}), structure, "import", _IMPORT)
    try:
        make()
    except NeedsError as error:
        logger.info(f"not checked: {error.summary}")
        return
    except ApeError as error:
        yield replace(blank, trouble=str(error))
        return
    for rule, apply in rules.items():
        finding = replace(blank, law=rule, about=_about(apply))
        try:
            with torch.random.fork_rng(devices=[]):
                user_parts.apply(apply, make())
        except NeedsError as error:
            logger.info(f"not checked: {error.summary}")
            return
        except ApeError as error:
            finding = replace(finding, trouble=str(error))
        yield replace(finding, holds=finding.trouble is None)


# The parts that are checked: the package of each kind, and the function that checks one of its parts
CHECKS: dict[str, Check] = {
    "scheme": (position, check_scheme),
    "attention": (attention, check_attention),
    "position map": (
        position_maps,
        lambda name: check_rules("position map", name, partial(position_maps.make, name), position_maps.RULES),
    ),
    "task": (tasks, lambda name: check_rules("task", name, partial(tasks.make, name), tasks.RULES)),
}


def _about(measure: Callable[..., Any]) -> str:
    """What a law or a rule says."""
    return plugins.described(measure, "`python -OO` drops the description").rstrip(".")


def _of_scheme(finding: Finding, dtype: torch.dtype) -> Iterator[Tensor | None]:
    """Measure a law of a scheme with each locality bias, or with the variant's own."""
    decays = (finding.options["decay"],) if "decay" in finding.options else _DECAYS.get(finding.law, (1.0,))
    for decay in decays:
        assert finding.structure is not None
        subject = make(finding.subject, finding.structure, dtype, **finding.options | {"decay": decay})
        if claims(subject, finding.law):
            yield LAWS[finding.law](subject, dtype)


def claims(scheme: Scheme, law: str) -> bool:
    """Whether a scheme claims a law."""
    if law in _KINDS:
        return scheme.homomorphism == _KINDS[law]
    return law not in CLAIMS or bool(getattr(scheme, CLAIMS[law]))


def _of_attention_type(attention_type: attention.AttentionType, law: str, dtype: torch.dtype) -> Iterator[Tensor]:
    """Measure a law of a kind of attention with each locality bias that it takes."""
    for decay in (
        () if law in attention_type.lacks else (1.0,) if attention_type.refuses_decay else _DECAYS.get(law, (1.0,))
    ):
        if law in IN_A_MODEL:
            yield OF_ATTENTION[law](make("orthogonal-tree", "tree(2)", dtype, decay=decay), dtype, attention_type, 70)
        else:
            yield OF_ATTENTION[law](attention_type, dtype, decay)


def _finding(finding: Finding, runs: Callable[[torch.dtype], Iterator[Tensor | None]]) -> Iterator[Finding]:
    """The result of a law, which is the worst of its runs. Nothing is yielded if the law is not claimed."""
    worst: Callable[[list[float]], float] = min if finding.law in GAPS else max
    errors = []
    try:
        with torch.random.fork_rng(devices=[]), user_parts.explained():
            for dtype in LIMITS:
                measured = [float(e.detach()) for e in runs(dtype) if e is not None]
                if not measured:
                    return
                errors.append(worst(measured))
                if not math.isfinite(sum(measured)):
                    raise ArithmeticError("the result is not a finite number")
    except Exception as error:  # any error is a finding, and the other laws are still measured
        yield replace(finding, trouble=str(error) if isinstance(error, ApeError) else error_text(error))
        return
    if finding.law in GAPS:
        holds = all(e >= LEAST_GAP for e in errors)
    else:
        limits = [LIMITS[torch.float32] if finding.law in _MADE_IN_FLOAT32 else limit for limit in LIMITS.values()]
        holds = all(e <= limit for e, limit in zip(errors, limits, strict=True))
    yield replace(finding, float64=errors[0], float32=errors[1], holds=holds)

"""Which encoding is which representation: measured, for every scheme on every structure that it reads.

The paths of a structure form a group, and a scheme may represent it: each path acts by an operator, and the operator of
two paths, one after the other, is the product of their operators (Algebraic Positional Encodings, section 3). Then the
kind of the operators of single steps (`spectrum_of`) says what happens along a path: elliptic operators turn,
hyperbolic ones stretch and shrink, unipotent ones shear. A scheme whose law does not hold represents nothing, whatever
its steps are. All measures are in float64, with the small schemes of `ape check`, which are not trained.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch

from ape_cli import position
from ape_cli.core import user_parts
from ape_cli.core.errors import ApeError, error_text
from ape_cli.evaluation.algebra import relation, relations_of_content, relations_of_operators, relations_of_trees
from ape_cli.evaluation.algebra.action import (
    ALONE,
    DTYPE,
    FORM,
    LIMIT,
    PRODUCT,
    TERMS,
    TERMS_BEHIND,
    action_of,
)
from ape_cli.evaluation.algebra.spectrum import spectrum_of
from ape_cli.evaluation.laws._subjects import examples, make
from ape_cli.position import Scheme
from ape_cli.structure import Cyclic, Structure, Tree

RELATIONS = tuple(
    one
    for module in (relation, relations_of_content, relations_of_operators, relations_of_trees)
    for one in module.RELATIONS
)
NO_REPRESENTATION = "none"
CONTENT = "content-dependent path product"
LAWS = {  # the law of each kind of action
    "composition": "[x y] = [x] [y]",
    "shift": "P(p + n) = R^n P(p), with R fitted at other positions",
    "round trip": "U D_i = I for the affine maps down to child i and up again",
    "relative": "terms of scores depend on the path alone",
    TERMS: "terms b of scores have b(d + n) = R^n b(d) at all offsets d, with R fitted at others",
    TERMS_BEHIND: "the same for keys behind the query; steps back alone are the monoid N",
    PRODUCT: "T_ij T_jl = T_il for the operators between tokens, and d_ij + d_jl = d_il for terms",
    ALONE: "an operator [x] that depends on the position x alone, and not on the other tokens",
    FORM: "s_ij = q_i' T_ij k_j / sqrt(K) + d_ij, so that there is an operator between two tokens",
}


@dataclass(frozen=True)
class Representation:
    """How a scheme acts on one structure."""

    scheme: str
    options: dict[str, Any]
    structure: str
    group: str
    kind: str  # of the representation, or `NO_REPRESENTATION`
    steps: str | None  # the kind of the operators of single steps, also if the law fails; None without operators
    law: str  # a key of `LAWS`
    error: float
    holds: bool
    commutator: float | None  # the greatest entry of g h - h g for two steps g and h
    block: int | None  # rows of the largest Jordan block of a step
    eigenvalues: list[list[tuple[float, float]]]  # real and imaginary parts, for each step, side and head
    element: float | None  # how far terms of scores are from matrix elements of operators (see `Action`)


@dataclass(frozen=True)
class Case:
    """An encoding that is a special case of another one."""

    special: str  # a name with options
    general: str
    names: tuple[str, str]  # of both, without options
    options: dict[str, Any]  # of the special one
    structure: str  # of the special one, or the `places` that it reads
    about: str  # how the parameters of the general one are set
    compared: str  # "scores" of all pairs, of keys "behind" the query, causal attention "weights", or added "vectors"
    source: str
    error: float  # the greatest difference
    holds: bool


def representations(name: str) -> list[Representation]:
    """How a scheme acts: on an example of each structure that it reads, and in its `variants` on the first of them.

    Raises `UsageError` for an unknown name, and `ApeError` if a scheme cannot be measured.
    """
    every = examples(name)
    forms: list[tuple[str, dict[str, Any]]] = [(expression, {}) for expression in every]
    forms += [(every[0], options) for options in position.load(name).variants]
    return [representation(name, expression, options) for expression, options in forms]


def representation(name: str, expression: str, options: dict[str, Any]) -> Representation:
    """How a scheme with some options (its own, and `decay`) acts on a structure.

    Raises `UsageError` for arguments that are not valid, and `ApeError` if the scheme cannot be measured.
    """
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), user_parts.explained():
            return _representation(name, expression, options)
    except ApeError:
        raise
    except (RuntimeError, TypeError, ValueError) as error:  # in the measure, of what hooks return
        raise ApeError(f"the algebra of scheme {name!r} cannot be measured", got=error_text(error)) from error


def _representation(name: str, expression: str, options: dict[str, Any]) -> Representation:
    """`representation`, with the errors of PyTorch."""
    scheme = make(name, expression, DTYPE, **options)
    of_content = scheme.overrides("logits")

    def sized(size: int) -> Scheme:
        """The same scheme for another size."""
        return make(name, expression, DTYPE, **options | {"max_size": size})

    action = action_of(scheme, sized)
    holds = action.error <= LIMIT and (action.steps is None or action.element is None or action.element <= LIMIT)
    fits = holds or action.law != "shift"  # otherwise the fitted operators mean nothing
    seen = spectrum_of(action.steps.flatten(0, 1)) if action.steps is not None and fits else None
    groups = {PRODUCT: "paths of tokens", FORM: "paths of tokens", TERMS_BEHIND: "N"}
    if action.law == "round trip":  # going up has no inverse
        groups[action.law] = f"free monoid of {group(scheme.structure)}"
    kind = NO_REPRESENTATION
    if seen and holds:
        kind = f"{CONTENT}, {seen.kind}" if of_content else seen.kind
    return Representation(
        scheme=name,
        options=options,
        structure=expression,
        group=groups.get(action.law, group(scheme.structure)),
        kind=kind,
        steps=seen.kind if seen else None,
        law=action.law,
        error=action.error,
        holds=holds,
        commutator=action.commutator if seen else None,
        block=seen.block if seen else None,
        eigenvalues=seen.eigenvalues if seen else [],
        element=action.element,
    )


def group(structure: Structure) -> str:
    """The group of the paths of a structure: Z, Z/n, the free group F_k, or a product.

    >>> from ape_cli.structure import parse_structure
    >>> [group(parse_structure(text)) for text in ("seq", "grid(2)", "cyclic(6)", "seq*tree(2)")]
    ['Z', 'Z^2', 'Z/6', 'Z × F_2']
    """

    def factor_group(simple: Structure) -> str:
        if isinstance(simple, Tree):
            return f"F_{simple.branching}"
        return f"Z/{simple.order}" if isinstance(simple, Cyclic) else "Z"

    powers = Counter(map(factor_group, structure.simple))
    return " × ".join(name if count == 1 else f"{name}^{count}" for name, count in powers.items())


def cases(names: list[str] | None = None) -> list[Case]:
    """All relations between encodings, with the differences that are measured. `names`: only those of these schemes."""
    measured = []
    for case in RELATIONS:
        special, general = case.special, case.general
        if names is None or {special.name, general.name} & set(names):
            error = case.difference()
            measured.append(
                Case(
                    special=special.label,
                    general=general.label,
                    names=(special.name, general.name),
                    options=dict(special.options),
                    structure=special.places or special.structure,
                    about=case.about,
                    compared=case.compared,
                    source=special.source or general.source,
                    error=error,
                    holds=error <= LIMIT,
                )
            )
    return sorted(measured, key=lambda case: (case.special, case.general))

"""Subtle mistakes in schemes: `ape check` finds each, in the laws that it breaks. Laws on all example structures."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor

from ape_cli import position
from ape_cli.attention import dot
from ape_cli.evaluation import laws
from ape_cli.position.relative import Relative
from ape_cli.position.rope import Rope
from ape_cli.position.t5 import T5
from ape_cli.position.tree import ShivQuirkTree
from ape_cli.structure import Grid
from tests.evaluation.test_laws import FEW, check_claims, without_mask

STACK = ShivQuirkTree.stack
RIGHT = {"relative": Relative.bias, "t5": T5.bias, "rope": Rope.rotate}


def clipped(self: Relative, q: Tensor, q_context: position.Context, k_context: position.Context) -> Tensor:
    """A wrong term of Shaw: positions are clipped before they are subtracted."""
    short = (position.Context(c.positions.clamp(max=100)) for c in (q_context, k_context))
    return RIGHT["relative"](self, q, *short)


def absolute(self: T5, q: Tensor, q_context: position.Context, k_context: position.Context) -> Tensor | None:
    """A wrong term: in a decoder it depends on the absolute positions of the keys."""
    term = RIGHT["t5"](self, q, q_context, k_context)
    return term if term is None or not q_context.causal else term + (k_context.positions % 3)[:, None, None, :]


def only_at_home(self: Rope, x: Tensor, context: position.Context, side: position.Side) -> Tensor:
    """A wrong rotation: in a decoder, queries and keys are not rotated."""
    return x if context.causal else RIGHT["rope"](self, x, context, side)


def the_other_way(self: Rope, x: Tensor, context: position.Context, side: position.Side) -> Tensor:
    """A wrong rotation: keys are turned against queries."""
    return RIGHT["rope"](self, x, context if side == "query" else position.Context(-context.positions), side)


@pytest.mark.parametrize(
    ("name", "place", "hook", "wrong", "laws_broken"),
    [
        ("relative", Relative, "bias", clipped, {"relative"}),
        ("t5", T5, "bias", absolute, {"relative"}),
        ("rope", Rope, "rotate", only_at_home, {"relative", "reach"}),
        ("rope", Rope, "rotate", the_other_way, {"relative"}),
        ("tree", ShivQuirkTree, "stack", lambda self, at: STACK(self, at).flip(-1), {"round trip"}),
        ("tree", ShivQuirkTree, "stack", lambda self, at: STACK(self, at).flip(-2), {"round trip"}),
        ("orthogonal-tree", dot, "average", without_mask, {"causality", "independence"}),
    ],
)
def test_subtle_mistakes_are_found(
    monkeypatch: pytest.MonkeyPatch, name: str, place: object, hook: str, wrong: object, laws_broken: set[str]
) -> None:
    """These mistakes show only in one part of the model, only with the locality bias, or only far from the start."""
    monkeypatch.setattr(place, hook, wrong)
    assert laws_broken <= {f.law for f in laws.check(name) if not f.holds}


@pytest.mark.parametrize(
    ("wrong", "laws_broken"),
    [
        (lambda self, x, y: ((1.0 * (x - y)) ** 2).sum(-1), {"locality", "distance"}),  # without the square root
        (lambda self, x, y: 1.0 * (x**2 - y**2).abs().sum(-1).sqrt(), {"locality", "distance", "relative"}),
        (lambda self, x, y: 0.9 * (x - y).abs().sum(-1), {"locality"}),  # still between path / sqrt(2) and path
    ],
)
def test_a_wrong_straight_line_is_found(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., Tensor], laws_broken: set[str]
) -> None:
    monkeypatch.setattr(Grid, "straight", wrong)
    bad = [f for f in laws.check("orthogonal-grid") if not f.holds]
    assert {f.law for f in bad} == laws_broken
    assert {f.name for f in bad} == {"orthogonal-grid distance=euclidean decay=0.98"}


@pytest.mark.parametrize("name", [n for n in position.names() if {*position.load(n).structures} & {*FEW}])
def test_every_law_holds_on_all_examples(name: str) -> None:
    """The schemes of which the quick test measures only some examples of structures."""
    check_claims(name)

"""Every law that a scheme claims holds; a scheme that is broken on purpose is found out, law by law."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ape_cli import attention, laws, position
from ape_cli.laws import LAWS, LIMITS, _subjects
from ape_cli.position.alibi import Alibi
from ape_cli.position.learned import Learned
from ape_cli.position.orthogonal import Orthogonal
from ape_cli.position.rope import Rope
from ape_cli.position.tree import Tree


@pytest.mark.parametrize("name", position.names())
def test_every_law_that_is_claimed_holds(name: str) -> None:
    found = list(laws.check(name))
    assert found
    assert [f for f in found if not f.holds] == []
    claimed = {f.law for f in found}
    scheme = position.make(name, 32, 4, max_size=4)
    assert {"equivariance", "causality", "independence", "gradients"} <= claimed
    assert ("relative" in claimed) == scheme.relative
    assert ("composition" in claimed) == scheme.homomorphism
    assert all(f.float64 is not None and f.about for f in found)


@pytest.mark.parametrize("name", attention.names())
def test_every_law_of_an_attention_holds(name: str) -> None:
    found = list(laws.check(name))
    assert [f for f in found if not f.holds] == []
    assert {"relative", "causality", "independence", "gradients"} <= {f.law for f in found}
    assert ("rotation" in {f.law for f in found}) == attention.load(name).rotation


def broken(monkeypatch: pytest.MonkeyPatch, name: str, kind: type, hook: str, wrong: object) -> set[str]:
    """The laws that fail once a hook is broken."""
    monkeypatch.setattr(kind, hook, wrong)
    return {f.law for f in laws.check(name) if not f.holds}


def test_a_scheme_that_turns_both_sides_the_other_way_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Rope.rotate

    def rotate(self: Rope, x: Tensor, context: position.Context, side: position.Side) -> Tensor:
        turned = context if side == "query" else position.Context(context.positions, state=-context.state)
        return right(self, x, turned, side)

    assert broken(monkeypatch, "rope", Rope, "rotate", rotate) == {"relative"}


def test_positions_off_by_one_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Orthogonal.prepare
    found = broken(monkeypatch, "orthogonal-tree", Orthogonal, "prepare", lambda self, at: right(self, at + 1))
    assert {"composition", "inverse", "round trip"} <= found


def test_an_operator_that_stretches_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Orthogonal.rotate
    found = broken(
        monkeypatch, "orthogonal-seq", Orthogonal, "rotate", lambda self, x, c, side: 1.01 * right(self, x, c, side)
    )
    assert {"identity", "orthogonality", "composition"} <= found


def test_a_table_read_from_one_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def embed(self: Learned, x: Tensor, context: position.Context) -> Tensor:
        return x + self.table[0]

    assert broken(monkeypatch, "learned", Learned, "embed", embed) == {"uniqueness"}


def test_a_bias_that_sees_the_batch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Alibi.bias

    def bias(self: Alibi, q: Tensor, q_context: position.Context, k_context: position.Context) -> Tensor:
        return right(self, q, q_context, k_context) / k_context.positions.max().clamp(min=1)

    assert broken(monkeypatch, "alibi", Alibi, "bias", bias) == {"relative", "independence"}


def test_a_bias_that_looks_ahead_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Alibi.bias

    def bias(self: Alibi, q: Tensor, q_context: position.Context, k_context: position.Context) -> Tensor:
        return right(self, q, q_context, k_context) * q[..., -1:, :1].abs()

    assert "causality" in broken(monkeypatch, "alibi", Alibi, "bias", bias)


def test_a_dead_parameter_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Tree.prepare
    found = broken(monkeypatch, "tree", Tree, "prepare", lambda self, at: right(self, at).detach())
    assert found == {"gradients"}


def test_a_ring_that_does_not_close_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from ape_cli.position._powers import Powers, Ring

    found = broken(monkeypatch, "orthogonal", Ring, "angle", Powers.angle)
    assert found == set()  # to rounding it closes ...
    monkeypatch.setattr(Ring, "unit", lambda self: 0.99 * (self.multiples.double() * 1.0472).expand(self.heads, -1))
    assert {f.law for f in laws.check("orthogonal") if not f.holds} == {"period"}


def test_steps_that_do_not_undo_each_other_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Tree.up
    found = broken(monkeypatch, "tree", Tree, "up", lambda self: (1.001 * right(self)[0], right(self)[1]))
    assert found == {"round trip"}


def test_a_scheme_that_raises_is_a_finding_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Alibi, "bias", lambda *_: 1 / 0)
    found = list(laws.check("alibi"))
    assert {f.law for f in found if not f.holds} >= {"relative", "causality"}
    assert all(f.trouble == "ZeroDivisionError: division by zero" for f in found if not f.holds)


def test_paths_reach_as_far_as_they_should() -> None:
    """10,000 steps, 40 levels (39 of ternary trees, whose indices end there)."""
    from ape_cli import structure

    assert int(_subjects.paths(structure.Seq(), 8, 1.0, 5).max()) == 10_000
    for branching, depth in ((2, 40), (3, 39)):
        tree = structure.Tree(branching)
        assert int(tree.level(_subjects.paths(tree, 8, 1.0, 5)).max()) == depth
    assert LIMITS == {torch.float64: 1e-9, torch.float32: 1e-4}
    assert set(LAWS) >= {"identity", "composition", "inverse", "orthogonality", "relative", "uniqueness"}

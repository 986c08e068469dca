"""Every law that a scheme claims holds, and each law finds a scheme that breaks it.

`tests/nightly` breaks schemes in subtler ways, and runs all laws on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ape_cli import attention, position
from ape_cli.evaluation import laws
from ape_cli.evaluation.laws import LAWS, _subjects
from ape_cli.position import sinusoidal
from ape_cli.position._powers import Ring
from ape_cli.position._rotation import sinusoids
from ape_cli.position.alibi import Alibi
from ape_cli.position.learned import Learned
from ape_cli.position.orthogonal import Orthogonal
from ape_cli.position.rope import Rope
from ape_cli.position.t5 import T5
from ape_cli.position.tree import ShivQuirkTree
from ape_cli.structure import Seq, Tree

FEW = {"any": ("cyclic(6)", "seq*tree(2)"), "tree(k)": ("tree(2)",), "grid(n)": ("grid(2)",)}


@pytest.mark.parametrize("name", position.names())
def test_every_law_that_is_claimed_holds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ape check` on one example of each pattern of structures, and two of `any`. A nightly test measures the others.

    It takes 2 seconds for `orthogonal-tree`, whose models reach far and deep.
    """
    for pattern, some in FEW.items():
        monkeypatch.setitem(_subjects.EXAMPLES, pattern, some)
    check_claims(name)


def check_claims(name: str) -> None:
    """All laws that a scheme claims hold, and no others are measured."""
    found = list(laws.check(name))
    assert found
    assert [f for f in found if not f.holds] == []
    for structure, options in {(f.structure, tuple(f.options.items())) for f in found}:  # claims may depend on them
        claimed = {f.law for f in found if (f.structure, tuple(f.options.items())) == (structure, options)}
        scheme = position.make(name, 32, 4, structure=structure, max_size=4, **dict(options))
        assert {"causality", "independence", "gradients"} <= claimed
        assert ("equivariance" in claimed) == (not scheme.causal_only)
        assert ("relative" in claimed) == scheme.relative
        assert ("composition" in claimed) == bool(scheme.homomorphism)
        assert ("orthogonality" in claimed, "duality" in claimed) == tuple(
            scheme.homomorphism == kind for kind in ("orthogonal", "linear")
        )
    assert {f.law for f in found if f.float64 is None} == set(position.RULES)
    assert all(f.about for f in found)


@pytest.mark.parametrize("name", attention.names())
def test_every_law_of_an_attention_holds(name: str) -> None:
    found = list(laws.check(name))
    assert [f for f in found if not f.holds] == []
    assert {"relative", "causality", "independence", *attention.RULES} <= {f.law for f in found}
    assert ("rotation" in {f.law for f in found}) == ("rotation" not in attention.load(name).lacks)


def test_paths_reach_as_far_as_they_should() -> None:
    """Paths have up to 10,000 steps or 40 levels (39 for ternary trees, the limit of heap indices).

    Models see rows of several depths.
    """
    assert int(_subjects.paths(Seq(), 8, 5).max()) == 10_000
    for branching, depth, expected in ((2, 40, [2, 5, 12]), (3, 39, [1, 4, 11])):
        tree = Tree(branching)
        assert int(tree.level(_subjects.paths(tree, 8, 5)).max()) == depth
        assert tree.level(_subjects.rows(tree, 9)).amax(1).tolist() == expected


def stretched(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *given: 1.01 * right(*given)


def first_place(self: Learned, x: Tensor, context: position.Context) -> Tensor:
    return x + self.table[0]


def first_row(self: Learned, x: Tensor, context: position.Context) -> Tensor:
    return x + self.table[context.positions[0].clamp(max=self.shape.max_size)]


def of_the_query(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda self, q, here, there: right(self, q, here, there) * here.positions[:, None, :, None]


def by_place_in_the_row(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda self, q, here, there: right(self, q, here, there) + torch.arange(there.positions.shape[1])


def by_place_in_the_source(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    crossing = by_place_in_the_row(right)
    return lambda self, q, here, there: (right if here.causal == there.causal else crossing)(self, q, here, there)


def looking_ahead(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda self, q, here, there: right(self, q, here, there) * q[..., -1:, :1].abs()


def per_batch(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda self, q, here, there: right(self, q, here, there) / there.positions.max().clamp(min=1)


def per_row(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda self, q, here, there: right(self, q, here, there) / there.positions.amax(1)[:, None, None, None]


def of_the_encoder(right: Callable[..., Tensor]) -> Callable[..., Tensor | None]:
    return lambda self, here, there: None if here.causal else right(self, here, there)


def of_one_head(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *given: right(*given)[:, :1]


def of_radians(self: Ring, positions: Tensor) -> Tensor:
    """Angles of whole radians, so that no number of steps closes the ring."""
    return (positions[:, None, :, None] * self.multiples(positions.device)).double().expand(-1, self.heads, -1, -1)


def too_long(self: ShivQuirkTree, right: Callable[..., Any] = ShivQuirkTree.up) -> tuple[Tensor, Tensor]:
    return 1.1 * right(self)[0], right(self)[1]


def by_count(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda self, q, here, there: right(self, q, here, there) * q.shape[2]


WRONG: list[tuple[str, str, str, Any, str, Any]] = [  # law, scheme, structure, and what is replaced with what
    ("identity", "orthogonal-seq", "seq", Orthogonal, "rotate", stretched(Orthogonal.rotate)),
    ("composition", "orthogonal-seq", "seq", Orthogonal, "rotate", stretched(Orthogonal.rotate)),
    ("inverse", "orthogonal-tree", "tree(2)", Orthogonal, "rotate", stretched(Orthogonal.rotate)),
    ("orthogonality", "orthogonal-grid", "grid(2)", Orthogonal, "rotate", stretched(Orthogonal.rotate)),
    ("duality", "orthogonal-grid", "grid(2)", Orthogonal, "rotate", stretched(Orthogonal.rotate)),
    ("period", "orthogonal", "cyclic(6)", Ring, "angle", of_radians),
    ("round trip", "orthogonal-tree", "tree(2)", Orthogonal, "rotate", stretched(Orthogonal.rotate)),
    ("round trip", "tree", "tree(2)", ShivQuirkTree, "up", too_long),
    ("relative", "alibi", "seq", Alibi, "bias", of_the_query(Alibi.bias)),
    ("relative", "rope", "seq", Rope, "embed", lambda self, x, context: x + context.positions[..., None]),
    ("locality", "rope", "seq", Seq, "distance", lambda self, x, y: 2 * (x != y)),
    ("locality", "rope", "seq", Rope, "decay", of_the_encoder(Rope.decay)),
    ("distance", "rope", "seq", Seq, "distance", lambda self, x, y: (x - y).clamp(min=0)),
    ("shift", "sinusoidal", "seq", sinusoidal, "sinusoids", lambda at, channels: sinusoids(at**2, channels)),
    ("uniqueness", "learned", "seq", Learned, "embed", first_place),
    ("reach", "learned", "seq", Learned, "embed", first_place),
    ("reach", "rope", "seq", Rope, "rotate", lambda self, x, context, side: x),
    ("equivariance", "alibi", "seq", Alibi, "bias", by_place_in_the_row(Alibi.bias)),
    ("equivariance", "alibi", "seq", Alibi, "bias", by_place_in_the_source(Alibi.bias)),
    ("causality", "alibi", "seq", Alibi, "bias", looking_ahead(Alibi.bias)),
    ("causality", "alibi", "seq", Alibi, "bias", per_row(Alibi.bias)),
    ("stepwise", "alibi", "seq", Alibi, "bias", by_count(Alibi.bias)),
    ("independence", "alibi", "seq", Alibi, "bias", per_batch(Alibi.bias)),
    ("independence", "learned", "seq", Learned, "embed", first_row),
    ("gradients", "t5", "seq", T5, "bias", of_one_head(T5.bias)),
]


def check_found(law: str, right: float, wrong: float) -> None:
    """The law holds, and does not hold with the mistake. It is measured as a gap or as an error."""
    if law in laws.GAPS:
        assert wrong < laws.LEAST_GAP <= right
    else:
        assert right < 1e-6
        assert wrong > 1e-3


@pytest.mark.parametrize(("law", "name", "structure", "place", "hook", "wrong"), WRONG)
def test_each_law_finds_what_breaks_it(
    monkeypatch: pytest.MonkeyPatch, law: str, name: str, structure: str, place: Any, hook: str, wrong: Any
) -> None:
    def measured() -> float:
        scheme = _subjects.make(name, structure, torch.float64, decay=0.98 if law in ("locality", "distance") else 1.0)
        found = LAWS[law](scheme, torch.float64)
        assert found is not None
        return float(found.detach())

    right = measured()
    monkeypatch.setattr(place, hook, wrong)
    check_found(law, right, measured())


def without_mask(scores: Tensor, v: Tensor, link: attention.AttentionContext, dropout: float) -> Tensor:
    return scores.softmax(-1) @ v


def test_no_number_and_an_error_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong, trouble in (
        (lambda *_: torch.tensor(float("nan")).expand(1, 1, 1, 1), "the result is not a finite number"),
        (lambda *_: 1 / 0, "ZeroDivisionError: division by zero"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(Alibi, "bias", wrong)
            patch.setattr(position, "RULES", {})
            patch.setattr(laws, "LAWS", {"relative": LAWS["relative"]})
            found = next(f for f in laws.check("alibi") if f.law == "relative")
        assert not found.holds
        assert found.float64 is None
        assert trouble in str(found.trouble)


def test_linear_operators_of_a_tree_need_not_be_orthogonal() -> None:
    """Queries shrink with the depth and keys grow. Going back is the transpose on the other side."""

    class Scaled(position.Scheme):
        structures = ("tree(k)",)
        homomorphism = "linear"

        def rotate(self, x: Tensor, context: position.Context, side: position.Side) -> Tensor:
            depth = self.structure.level(context.positions.clamp(min=1))[:, None, :, None].to(x.dtype)
            return x * 0.9 ** (depth if side == "query" else -depth)

    scheme = Scaled(position.Shape(32, 4, Tree(2), 8, 1.0))
    for law in ("identity", "composition", "inverse", "duality", "round trip"):
        error = LAWS[law](scheme, torch.float64)
        assert error is not None
        assert float(error) < 1e-9, law
    assert float(LAWS["orthogonality"](scheme, torch.float64)) > 0.1

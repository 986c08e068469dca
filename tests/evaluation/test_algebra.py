"""Which encoding is which representation: kinds worked out by hand, all schemes, and relations that break."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ape_cli import position
from ape_cli.evaluation import algebra
from ape_cli.evaluation.algebra import CONTENT, RELATIONS
from ape_cli.evaluation.algebra.action import FORM, LIMIT, PRODUCT, action_of, on_content
from ape_cli.evaluation.algebra.spectrum import spectrum_of
from ape_cli.evaluation.laws._subjects import make
from ape_cli.position import AttentionPair, Context, Role, Scheme, Side
from ape_cli.position._powers import Ring
from ape_cli.position.alibi import Alibi
from ape_cli.position.rope import Rope
from ape_cli.structure import Tree
from tests.evaluation.test_laws import of_radians
from tests.position.draws import draw


def matrix(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def turn(angle: float) -> Tensor:
    return matrix([math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)])


def jordan(size: int) -> Tensor:
    return torch.eye(size).double() + torch.diag(torch.ones(size - 1).double(), 1)


def test_each_kind_of_matrix_is_found() -> None:
    """Its kind, and the size of its largest Jordan block, in its own basis and in a random one."""
    basis = draw(4, 4, seed=0)
    cases: list[tuple[Tensor, str, int]] = [
        (torch.eye(4).double(), "trivial", 1),
        (turn(0.3), "elliptic", 1),
        (torch.block_diag(turn(1e-4), turn(1.0)), "elliptic", 1),  # two eigenvalues that are close, but no Jordan block
        (torch.block_diag(turn(0.0), -torch.eye(2).double()), "elliptic", 1),  # half turns have real eigenvalues
        (torch.diag(matrix([2.0, 0.5, 1.0, 1.0])[0]), "hyperbolic", 1),
        (0.9 * turn(0.3), "elliptic and hyperbolic", 1),
        (matrix([1.0, 0.0], [-0.004, 1.0]), "unipotent", 2),
        (torch.block_diag(jordan(2), jordan(2)), "unipotent", 2),
        (torch.block_diag(jordan(3), jordan(1)), "unipotent", 3),
        (torch.kron(jordan(2), turn(0.7)), "elliptic and unipotent", 2),  # Jordan-RoPE
        (torch.kron(jordan(2), 0.8 * turn(0.7)), "elliptic and hyperbolic and unipotent", 2),
    ]
    for given, kind, block in cases:
        found = spectrum_of(given[None])
        assert (found.kind, found.block) == (kind, block), given
        if len(given) == 4:
            turned = spectrum_of((basis @ given @ torch.linalg.inv(basis))[None])
            assert (turned.kind, turned.block) == (kind, block), given


def test_permutations_are_found_by_their_entries() -> None:
    cycle = torch.eye(4).double()[[1, 2, 3, 0]]
    assert spectrum_of(cycle[None]).kind == "permutation"
    assert spectrum_of(torch.stack([cycle, torch.eye(4).double()])).kind == "permutation"
    assert spectrum_of(-cycle[None]).kind == "elliptic"
    pushed = torch.diag(torch.ones(3).double(), -1)
    assert spectrum_of(pushed[None]).kind == "partial permutation"
    assert spectrum_of(torch.stack([cycle, turn(0.5).kron(torch.eye(2))])).kind == "elliptic"  # a mixture


# One row of each kind and law; `tests/test_docs.py` measures all schemes.
# scheme, options, structure, group, kind, law, whether it holds
MAP: list[tuple[str, dict[str, Any], str, str, str, str, bool]] = [
    ("none", {}, "seq", "Z", "trivial", "composition", True),
    ("rope", {"learned": True}, "seq", "Z", "elliptic", "composition", True),
    ("orthogonal-tree", {}, "tree(3)", "F_3", "elliptic", "composition", True),
    ("orthogonal", {}, "tree(2)*cyclic(5)", "F_2 × Z/5", "elliptic", "composition", True),
    ("sinusoidal", {}, "grid(2)", "Z^2", "elliptic", "shift", True),
    ("matrix-power", {"multiplicative": True}, "seq", "Z", "elliptic", "composition", True),
    ("learned", {}, "seq", "Z", "none", "shift", False),
    ("tree", {}, "tree(2)", "free monoid of F_2", "partial permutation", "round trip", True),
    ("t5", {}, "seq", "Z", "none", "relative", True),
    ("transformer-xl", {}, "seq", "Z", "elliptic", "terms", True),
    ("alibi", {}, "seq", "N", "unipotent", "terms behind", True),
    ("fire", {}, "seq", "Z", "none", "relative", False),
    ("shear", {}, "seq", "Z", "unipotent", "composition", True),
    ("xpos", {}, "seq", "Z", "elliptic and hyperbolic", "composition", True),
    ("lie", {}, "grid(2)", "Z^2", "none", "composition", False),
    ("forget", {}, "seq", "paths of tokens", f"{CONTENT}, unipotent", "path product", True),
    ("path", {}, "seq", "paths of tokens", f"{CONTENT}, elliptic and hyperbolic", "path product", True),
    ("contextual", {}, "seq", "paths of tokens", "none", "affine", False),
    (
        "path",
        {"forget": True},
        "seq",
        "paths of tokens",
        f"{CONTENT}, elliptic and hyperbolic and unipotent",
        PRODUCT,
        True,
    ),
    ("selective-rope", {}, "seq", "paths of tokens", f"{CONTENT}, elliptic", "path product", True),
    ("pope", {}, "seq", "paths of tokens", "none", "affine", False),
    ("tree-distance", {}, "tree(3)", "F_3", "none", "relative", True),
    ("tree-learned", {}, "tree(2)", "F_2", "none", "shift", False),
    ("tree-learned", {"depth": 2}, "tree(2)", "F_2", "none", "shift", False),  # steps that cannot be undone
    ("wire", {}, "tree(2)", "F_2", "none", "alone", False),
]


@pytest.mark.parametrize(("name", "options", "structure", "group", "kind", "law", "holds"), MAP)
def test_the_map_of_all_schemes(
    name: str, options: dict[str, Any], structure: str, group: str, kind: str, law: str, holds: bool
) -> None:
    found = algebra.representation(name, structure, options)
    assert (found.group, found.kind, found.law, found.holds) == (group, kind, law, holds)


def test_errors_and_commutators_are_those_of_the_group() -> None:
    """Steps commute where the group does; free generators do not. A law that fails has a large error."""
    for name in ("orthogonal", "tree", "learned", "lie"):
        for one in algebra.representations(name):
            assert one.error <= 1e-11 if one.holds else one.error > 0.1
            if one.commutator is not None:
                assert (one.commutator > 0.1) == ("F_" in one.group or one.kind == "none"), one
    # an operator can be fitted to random vectors, but it says nothing of other positions, so it is not reported
    (table,) = algebra.representations("learned")
    assert (table.steps, table.block, table.eigenvalues) == (None, None, [])
    ring = next(one for one in algebra.representations("orthogonal") if one.group == "Z/6")
    angles = [math.atan2(y, x) * 6 / math.tau for values in ring.eigenvalues for x, y in values]
    assert max(abs(angle - round(angle)) for angle in angles) < 1e-9


def shape() -> position.Shape:
    return make("none", "seq", torch.float64).shape


class JordanRope(Scheme):
    """Turns by 0.3 in each step, in Jordan blocks of two turns; keys have the inverse transpose of queries."""

    homomorphism = "linear"

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        step = torch.block_diag(torch.kron(jordan(2), turn(0.3)), torch.eye(4).double())
        both = step if side == "query" else torch.linalg.inv(step).mT
        operators = torch.stack([torch.linalg.matrix_power(both, int(p)) for p in context.positions[0]])
        return (operators @ x[..., None])[..., 0]


class Shuffle(Scheme):
    """Moves the channels of a head on by one at each step."""

    homomorphism = "orthogonal"

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        order = (torch.arange(8) - context.positions[0][:, None]) % 8
        return x.gather(-1, order.expand(x.shape))


class Repeated(Scheme):
    """Learned vectors of the place within a period of five: a table that is a representation of a ring, and so of Z."""

    def embed(self, x: Tensor, context: Context) -> Tensor:
        table = draw(5, 32)
        return x + table[context.positions % 5]


def test_schemes_of_other_kinds_are_recognised() -> None:
    found = action_of(JordanRope(shape()))
    assert found.steps is not None
    assert found.error < 1e-9
    assert (spectrum_of(found.steps[0]).kind, spectrum_of(found.steps[0]).block) == ("elliptic and unipotent", 2)
    found = action_of(Shuffle(shape()))
    assert found.steps is not None
    assert found.error == 0
    assert spectrum_of(found.steps[0]).kind == "permutation"
    found = action_of(Repeated(shape()))
    assert found.steps is not None
    assert found.law == "shift"
    assert found.error < 1e-9
    roots = torch.linalg.eigvals(found.steps[0, 0])
    assert len(roots) == 5  # the vectors span five dimensions
    assert (roots**5 - 1).abs().max() < 1e-9
    assert (roots[:, None] - roots[None]).abs().add(torch.eye(5)).min() > 0.5  # all five roots of one


class Turned(Scheme):
    """Adds a fixed vector, turned at each step down a tree, by an angle and in planes of the branch."""

    structures = ("tree(k)",)

    def embed(self, x: Tensor, context: Context) -> Tensor:
        free = draw(2, 32, 32)
        left, right = torch.linalg.matrix_exp(free - free.mT)
        vectors = {1: torch.ones(32).double()}
        for heap in range(2, int(context.positions.max()) + 1):
            vectors[heap] = (right if heap % 2 else left) @ vectors[heap // 2]
        return x + torch.stack([vectors[heap] for heap in context.positions[0].tolist()])


def test_a_representation_on_nodes_is_found() -> None:
    found = action_of(Turned(replace(shape(), structure=Tree(2))))
    assert found.law == "shift"
    assert found.error < LIMIT
    assert found.steps is not None
    assert spectrum_of(found.steps.flatten(0, 1)).kind == "elliptic"
    assert (found.commutator or 0.0) > 0.1


class Terms(Scheme):
    """Terms that are a function of the offset d of the key."""

    relative = True

    def __init__(self, shape: position.Shape, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__(shape)
        self.function = function

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor:
        offset = k_context.positions[:, None] - q_context.positions[..., None]
        return self.function(offset.double())[:, None].expand(-1, 4, -1, -1)


def test_terms_of_scores_are_matrix_elements_of_what_fits() -> None:
    """Exponentials, turns and lines are such. A penalty on the distance is one at offsets of one sign."""
    cases: list[tuple[Callable[[Tensor], Tensor], str, str | None, int]] = [
        (lambda d: torch.full_like(d, 2.0), "terms", "trivial", 1),
        (lambda d: 3 * d, "terms", "unipotent", 2),
        (lambda d: (0.3 * d).cos() + (0.1 * d).sin(), "terms", "elliptic", 1),
        (lambda d: (0.001 * d).exp(), "terms", "hyperbolic", 1),
        (lambda d: -d.abs(), "terms behind", "unipotent", 2),
        (lambda d: 0.99 ** d.abs(), "terms behind", "hyperbolic", 1),
        (lambda d: -d.abs().sqrt(), "relative", None, 1),
        (lambda d: -d.abs().log1p(), "relative", None, 1),
        (lambda d: (d < -100).double(), "relative", None, 1),
    ]
    for function, law, kind, block in cases:
        found = action_of(Terms(shape(), function))
        assert found.law == law
        if kind is None:
            assert found.steps is None
            assert found.element is not None
            assert found.element > 1e-6
        else:
            assert found.steps is not None
            assert found.error <= LIMIT
            seen = spectrum_of(found.steps[0])
            assert (seen.kind, seen.block) == (kind, block), law
    found = action_of(Terms(shape(), lambda d: d))
    assert found.steps is not None
    assert found.steps.shape[-1] == 2  # lines and constants


class Products(Scheme):
    """Scores through a matrix and a term of each token between key and query."""

    causal_only = "there is nothing ahead"
    wrong = ""

    def layer(self, role: Role, index: int) -> nn.Module:
        return nn.Linear(32, 4 * 9)

    def logits(self, q: Tensor, k: Tensor, content: Tensor | None, link: AttentionPair) -> Tensor:
        assert content is not None
        b, n = content.shape[:2]
        values = content.unflatten(-1, (4, 9)).transpose(1, 2)  # [B, H, N, 9]
        scores = q.new_zeros(b, 4, n, n)
        for j in range(n):
            vector, term = k[:, :, j], q.new_zeros(b, 4)
            for i in range(j, n):
                if i > j:
                    vector = (vector * values[:, :, i, :8]).roll(1, -1)  # such matrices do not commute
                    term = term + values[:, :, i, 8]
                score = (q[:, :, i] * vector).sum(-1) / 8**0.5 + term
                if self.wrong == "key" and i > j:  # a factor of the key itself as well
                    score = score + (q[:, :, i] * vector * values[:, :, j, :8]).sum(-1)
                if self.wrong == "term" and i > j:
                    score = score + values[:, :, j, 8]
                if self.wrong == "gate":
                    score = score * score.sigmoid()
                scores[:, :, i, j] = score
        return scores


def test_a_path_product_is_one_factor_for_each_token() -> None:
    """A factor or a term of the key too many, or a gate of query and key, breaks it."""
    found = {}
    for wrong in ("", "key", "term", "gate"):
        scheme = Products(shape())
        scheme.wrong = wrong
        found[wrong] = on_content(scheme)
    right = found[""]
    assert right.law == PRODUCT
    assert right.error < 1e-12
    assert right.steps is not None
    assert (
        spectrum_of(right.steps[0]).kind == "elliptic and hyperbolic and unipotent"
    )  # factors of both signs, and terms
    for wrong in ("key", "term"):
        assert found[wrong].law == PRODUCT
        assert found[wrong].error > 1e-2
    assert found["gate"].law == FORM
    assert found["gate"].error > 1e-2
    assert found["gate"].steps is None


def test_a_law_that_fails_leaves_no_representation(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Rope.rotate

    def squared(self: Rope, x: Tensor, context: Context, side: Side) -> Tensor:
        return right(self, x, Context(context.positions**2), side)

    monkeypatch.setattr(Rope, "rotate", squared)
    one = algebra.representations("rope")[0]
    assert (one.kind, one.steps, one.holds) == ("none", "elliptic", False)
    assert one.error > 0.1
    wrong = next(r for r in RELATIONS if (r.special.label, r.general.label) == ("rope", "orthogonal-seq"))
    assert wrong.difference() > 0.1


def test_a_ring_that_does_not_close_is_no_representation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The composition of its operators holds, but W^6 is not the identity."""
    monkeypatch.setattr(Ring, "angle", of_radians)
    one = algebra.representation("orthogonal", "cyclic(6)", {})
    assert (one.kind, one.holds) == ("none", False)


def shears(self: Alibi, positions: Tensor, side: Side) -> Tensor:
    operators = torch.eye(2).double().repeat(1, 4, positions.shape[1], 1, 1)
    (row, column), sign = ((1, 0), -1) if side == "query" else ((0, 1), 1)
    operators[..., row, column] = sign * positions[:, None]
    return operators


def test_operators_that_have_nothing_to_do_with_scores_are_no_representation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Alibi, "homomorphism", "linear")
    monkeypatch.setattr(Alibi, "representation", shears)
    assert algebra.representation("alibi", "seq", {}).kind == "unipotent"  # the penalty on keys behind is one
    monkeypatch.setattr(Alibi, "bias", lambda self, q, here, there: Alibi.penalty(self, here, there).to(q.dtype) ** 2)
    one = algebra.representation("alibi", "seq", {})
    assert (one.kind, one.steps, one.holds) == ("none", "unipotent", False)
    assert one.error < LIMIT < (one.element or 0.0)

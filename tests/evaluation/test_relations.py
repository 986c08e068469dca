"""Special cases of encodings: each relation holds, and breaks if a parameter is changed; and the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from ape_cli.evaluation.algebra import RELATIONS
from ape_cli.evaluation.algebra.action import LIMIT
from ape_cli.evaluation.algebra.relation import ConfiguredScheme, Relation, planes
from ape_cli.evaluation.algebra.relations_of_trees import mirrored
from ape_cli.position import Scheme
from ape_cli.position._operators import exponential, skew, skew_of
from ape_cli.structure import Tree
from tests.conftest import ape

NAMES = [f"{relation.special.label} in {relation.general.label}" for relation in RELATIONS]


def test_planes_of_a_generator() -> None:
    """exp of what is returned is a rotation whose planes and angles are those of the given matrix."""
    given = skew(torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64))
    angles, free = planes(given)
    q = exponential(skew(free))
    assert torch.allclose(torch.linalg.det(q), torch.ones(3).double())
    assert torch.allclose(skew_of(angles, q), given, atol=1e-10)


@pytest.mark.parametrize("relation", RELATIONS, ids=NAMES)
def test_each_relation_holds(relation: Relation) -> None:
    assert relation.difference() <= LIMIT


# Relations in which nothing is set, and what they must not be confused with.
OTHERWISE: dict[tuple[str, str], Callable[[Relation], Relation]] = {
    ("rope interleaved=false", "rope"): lambda r: replace(r, basis=None),
    ("rope", "xpos scale_base=1e+15"): lambda r: replace(r, general=ConfiguredScheme("xpos")),
    ("shear", "alibi"): lambda r: replace(r, compared="scores"),
    ("alibi", "a bias on keys"): lambda r: replace(r, compared="behind"),
    ("sinusoidal", "matrix-power"): lambda r: replace(r, general=ConfiguredScheme("matrix-power", {"base": 9000.0})),
}


# Parameters that have no effect: what they multiply is 0, a gate is open whatever they add, or, for the threshold of
# FIRE, its logarithm is below the 1e-6 by which the divisor is increased.
MATRICES = {"w.0.weight", "w.1.weight", "beta.weight"}
IDLE = {
    ("none", "path"): MATRICES,
    ("forget", "path forget=true"): MATRICES,
    ("path", "path forget=true"): {"gates.project.weight"},
    ("rope learned=true interleaved=false", "selective-rope bias=true"): {"project.0.weight", "convolution.weight"},
    ("alibi", "fire"): {"multiplier"},
}


@pytest.mark.parametrize("relation", RELATIONS, ids=NAMES)
def test_each_relation_fails_if_a_parameter_is_changed(relation: Relation) -> None:
    """Every parameter of the general scheme counts, or, without any, its options or what is compared."""
    key = relation.special.label, relation.general.label
    if key in OTHERWISE:
        assert OTHERWISE[key](relation).difference() > 1e-3
        return
    general = relation.general.made()
    general.attach("decoder", 0)
    names = [name for name, _ in general.named_parameters()]
    assert names

    def changed(name: str) -> Callable[[Scheme, Scheme], None]:
        def change(_: Scheme, general: Scheme) -> None:
            general.attach("decoder", 0)
            parameter = dict(general.named_parameters())[name]
            generator = torch.Generator().manual_seed(6)
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))

        return change

    for name in names:
        if not any(name.endswith(idle) for idle in IDLE.get(key, ())):
            assert relation.difference(changed(name)) > 1e-3, name


def test_what_reads_left_and_right_or_the_place_of_twins() -> None:
    """Exchanges change the scores of an encoding that reads them. So does what is below two isomorphic siblings."""
    mirror = next(r for r in RELATIONS if r.special.label == "tree-distance on the mirrored tree")
    twins = next(r for r in RELATIONS if r.special.places.endswith("exchanged"))
    for name, options, relations in (
        ("orthogonal-tree", {}, (mirror, twins)),
        ("wire", {"features": "eigenvectors"}, (mirror, twins)),
        ("tree-distance", {}, (twins,)),
        ("tree-path", {}, (twins,)),
    ):
        scheme = ConfiguredScheme(name, options, "tree(2)")
        for relation in relations:
            assert replace(relation, special=scheme, general=scheme).difference() > 1e-3, name
    for name in ("tree", "tree-learned"):
        scheme = ConfiguredScheme(name, {}, "tree(2)")
        assert replace(mirror, special=scheme, general=scheme, compared="vectors").difference() > 1e-3, name


def test_nodes_of_the_mirrored_tree() -> None:
    """1, then 3 2, then 7 6 5 4. In trees of three branches, 1, then 4 3 2, then 13 ... 5."""
    for branching, expected in ((2, [1, 3, 2, 7, 6, 5, 4]), (3, [1, 4, 3, 2, 13, 12, 11])):
        nodes = torch.arange(1, 8)
        assert mirrored(Tree(branching), nodes).tolist() == expected


def test_the_command_prints_the_map() -> None:
    out, _ = ape("schemes", "rope", "none", "--algebra", "--json")
    lines = {line["scheme"]: line["algebra"] for line in json.loads(out)}
    assert set(lines) == {"rope", "none"}
    (first, *_) = lines["rope"]["representations"]
    assert (first["kind"], first["law"], first["holds"]) == ("elliptic", "composition", True)
    assert len(first["eigenvalues"]) == 8  # two sides and four heads, with eight channels each
    assert {len(values) for values in first["eigenvalues"]} == {8}
    assert {case["general"] for case in lines["none"]["special_case_of"]} >= {"rope learned=true"}
    assert {case["special"] for case in lines["rope"]["contains"]} >= {"none", "GRAPE-M"}
    out, err = ape("schemes", "learned", "sinusoidal", "--algebra")
    table = out.splitlines()
    assert any("learned" in line and "none" in line and "fails" in line for line in table)
    assert any("sinusoidal" in line and "elliptic" in line and "Z^2" in line for line in table)
    assert "shift: P(p + n)" in err
    assert "round trip" not in err

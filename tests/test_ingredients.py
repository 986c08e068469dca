"""The schemes of the sweep `ingredients` leave out what they say, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from ape_cli import attention, position
from ape_cli.position._operators import start_angles
from ape_cli.structure import parse_structure
from tests.conftest import ROOT

HEADS, WIDTH = 2, 8  # channels of a head
SEQ, TREE = parse_structure("seq"), parse_structure("tree(2)")
LEFT_RIGHT, RIGHT_LEFT, LEFT_LEFT = 5, 6, 4  # heap indices


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets the schemes be found, as with `PYTHONPATH=results/ingredients`."""
    folder = ROOT / "results" / "ingredients" / "ape_cli" / "position"
    monkeypatch.setattr(position, "__path__", [*position.__path__, str(folder)])
    yield
    for path in folder.glob("*.py"):
        sys.modules.pop(f"ape_cli.position.{path.stem}", None)


def make(scheme: str, structure: Any = SEQ, **options: Any) -> Any:
    generator = torch.Generator().manual_seed(7)
    return position.make(
        scheme, d_model=HEADS * WIDTH, heads=HEADS, structure=structure, generator=generator, decay=1.0, **options
    ).double()


def scores(scheme: Any, positions: list[int]) -> Tensor:
    """Returns the scores of the same random queries and keys at these positions."""
    x = torch.randn(2, 1, HEADS, len(positions), WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    context = scheme.context(torch.tensor([positions]))
    return attention.logits(scheme, x[0], x[1], context, context)


def test_the_generators_commute() -> None:
    ours = make("orthogonal-tree-commuting", TREE)
    left, right = ours.generators()
    assert torch.allclose(left @ right, right @ left, atol=1e-12)
    assert torch.allclose(left @ left.mT, torch.eye(WIDTH, dtype=left.dtype), atol=1e-12)
    assert not torch.allclose(left, right, atol=1e-3)
    own = make("orthogonal-tree", TREE).generators()
    assert not torch.allclose(own[0] @ own[1], own[1] @ own[0], atol=1e-3)


def test_only_the_order_of_branches_is_lost() -> None:
    """Left-right and right-left have one operator, and left-left another."""
    ours, own = (make(name, TREE) for name in ("orthogonal-tree-commuting", "orthogonal-tree"))
    swapped = [scores(ours, [1, LEFT_RIGHT, 9]), scores(ours, [1, RIGHT_LEFT, 9])]
    assert torch.allclose(*swapped, atol=1e-10)
    assert not torch.allclose(swapped[0], scores(ours, [1, LEFT_LEFT, 9]), atol=1e-3)
    assert not torch.allclose(scores(own, [1, LEFT_RIGHT, 9]), scores(own, [1, RIGHT_LEFT, 9]), atol=1e-3)


def test_one_generator_encodes_the_depth_alone() -> None:
    ours = make("orthogonal-tree-one-generator", TREE)
    left, right = ours.generators()
    assert torch.equal(left, right)
    assert torch.allclose(left, make("orthogonal-tree", TREE).generators()[0], atol=1e-12)
    assert torch.allclose(scores(ours, [1, LEFT_RIGHT, 9]), scores(ours, [1, LEFT_LEFT, 15]), atol=1e-10)
    assert not torch.allclose(scores(ours, [1, 2, 9]), scores(ours, [1, LEFT_LEFT, 9]), atol=1e-3)


def test_a_fixed_basis_is_only_not_learned() -> None:
    ours, own = make("orthogonal-seq-fixed-basis"), make("orthogonal-seq")
    assert torch.equal(scores(ours, [1, 2, 7]), scores(own, [1, 2, 7]))
    names = [{name for name, _ in scheme.named_parameters()} for scheme in (ours, own)]
    assert names[1] - names[0] == {"operators.basis"}


def test_shared_angles_are_the_same_in_all_heads() -> None:
    ours, own = make("orthogonal-seq-shared-angles"), make("orthogonal-seq")
    one, other = ours.operators.unit()
    assert torch.equal(one, other)
    assert torch.allclose(one, start_angles(1, 1, WIDTH // 2)[0, 0], atol=1e-6)
    assert not torch.equal(*own.operators.unit())
    assert torch.equal(ours.operators.basis, own.operators.basis)


@pytest.mark.parametrize("learned", [False, True])
def test_rope_spread_is_orthogonal_seq_without_a_basis(learned: bool) -> None:
    ours, own = make("rope-spread", learned=learned), make("orthogonal-seq")
    own.operators.basis.data.zero_()  # Q = exp(0) = I
    assert torch.allclose(scores(ours, [1, 2, 7]), scores(own, [1, 2, 7]), atol=1e-10)
    assert len(list(ours.parameters())) == learned
    assert not torch.allclose(scores(ours, [1, 2, 7]), scores(make("rope"), [1, 2, 7]), atol=1e-3)

"""Every scheme within `torch.compile`: one graph, the same values and gradients. Nightly tests make machine code."""

from __future__ import annotations

import pytest
import torch

from ape_cli import attention, position
from ape_cli.evaluation.laws._subjects import examples
from ape_cli.position._branches import Branches
from ape_cli.position._grouped import Unplanned
from tests.position.compiled import compare
from tests.position.test_contract import make

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's warnings about itself, while it compiles


@pytest.mark.parametrize("name", position.names())
def test_hooks_in_one_graph(name: str) -> None:
    """The context is made inside of the compiled function."""
    expression = examples(name)[0]
    compare(make(name, expression, decay=0.9), expression, inside=True, shapes=[(3, 6)], backend="eager", dynamic=False)


def test_other_positions_and_lengths() -> None:
    """No position is part of the graph, so the next ones get their own operators."""
    compare(make("rope", "seq", learned=True), "seq", inside=True, backend="eager")


@pytest.mark.parametrize("name", ["t5", "orthogonal-tree"])
def test_a_context_from_outside(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold operators and plans. A compiled function takes them from it, and adds nothing to it."""
    expression = examples(name)[0]
    scheme = make(name, expression)
    compare(scheme, expression, inside=False, shapes=[(3, 6)], backend="eager", dynamic=False)
    context = scheme.context(torch.tensor([[1, 2, 3]]))
    before, kept = dict(vars(context)), dict(context._kept)
    q = torch.randn(1, 4, 3, 8, dtype=torch.float64)
    monkeypatch.setattr(Branches, "prepare", lambda *_: pytest.fail("the operators are made again"))
    torch.compile(lambda q, at: attention.logits(scheme, q, q, at, at), backend="eager", fullgraph=True)(q, context)
    assert vars(context) == before
    assert context._kept == kept


def test_operations_keep_the_rules_of_torch() -> None:
    """Schema, gradients, and the shapes and strides that a compiler is told."""
    draws = torch.Generator().manual_seed(2)
    which = torch.tensor([[0, 2, 1, 1, 0], [3, 0, 0, 2, 0], [0, 0, 0, 0, 0]])
    x = torch.randn(10, 8, generator=draws, dtype=torch.float64, requires_grad=True)
    table = torch.randn(4, 2, 4, 4, generator=draws, dtype=torch.float64, requires_grad=True)
    torch.library.opcheck(torch.ops.ape.multiply.default, (x, table, which))
    assert torch.autograd.gradcheck(lambda x, table: Unplanned(which, table).of_rows(x), (x, table))
    assert torch.autograd.gradcheck(Unplanned(0 * which, table.detach()).of_rows, x)

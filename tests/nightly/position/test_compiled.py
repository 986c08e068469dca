"""Every scheme, structure and option within `torch.compile`: several lengths, contexts from outside, machine code."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ape_cli import position
from ape_cli.evaluation.laws._subjects import examples
from ape_cli.evaluation.laws.model import models, sample, scores
from tests.position.compiled import compare, without_logs
from tests.position.test_contract import READS, make

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's warnings about itself, while it compiles
OPTIONS = [(name, options) for name in position.names() for options in position.load(name).variants]


@pytest.mark.parametrize("name", position.names())
def test_machine_code(name: str) -> None:
    """inductor needs a C++ compiler. Terms that are computed in float32, such as a locality bias, round otherwise."""
    expression = examples(name)[0]
    scheme = make(name, expression, decay=0.9)
    compare(scheme, expression, inside=True, shapes=[(3, 6)], tolerance=1e-6, backend="inductor", dynamic=False)


@pytest.mark.parametrize(("name", "expression"), READS)
def test_a_context_from_inside(name: str, expression: str) -> None:
    """The second length makes the sizes variable."""
    scheme = make(name, expression, decay=0.9)
    compare(scheme, expression, inside=True, shapes=[(3, 6), (3, 4), (3, 5)], backend="aot_eager")


@pytest.mark.parametrize(("name", "expression"), READS)
def test_a_context_from_outside(name: str, expression: str) -> None:
    compare(make(name, expression, decay=0.9), expression, inside=False, shapes=[(3, 6), (1, 4)], backend="eager")


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_options(name: str, options: dict[str, Any]) -> None:
    """One row of positions for all rows."""
    expression = examples(name)[0]
    compare(make(name, expression, **options), expression, inside=True, shapes=[(1, 5)], backend="eager", dynamic=False)


@pytest.mark.parametrize("name", ["rope", "orthogonal-tree"])
def test_sizes_that_are_variable_from_the_start(name: str) -> None:
    expression = examples(name)[0]
    compare(make(name, expression), expression, inside=True, backend="eager", dynamic=True)


@pytest.mark.parametrize(("name", "expression"), READS)
@without_logs()
def test_both_models(name: str, expression: str) -> None:
    """With padding at the end of two sources. `models/test_compiled.py` has other lengths, and kinds of attention."""
    for model in models(make(name, expression), torch.float64):
        torch.compiler.reset()

        def plain(*given: Any, model: Any = model) -> torch.Tensor:
            return scores(model, *given)

        ids, at = sample(model.scheme)
        mask = torch.arange(9) < torch.tensor([[9], [7], [2]])
        results = []
        for run in (plain, torch.compile(plain, backend="eager", fullgraph=True, dynamic=False)):
            out = run(ids, at, mask, ids, at)
            results.append(
                [out, *torch.autograd.grad(out.square().sum(), [*model.parameters()], materialize_grads=True)]
            )
        for one, other in zip(*results, strict=True):
            assert torch.allclose(one, other, rtol=1e-9, atol=1e-9)

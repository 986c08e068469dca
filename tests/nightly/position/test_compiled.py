"""Schemes and both models within `torch.compile`, in one graph: as machine code, with all structures, step by step."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ape_cli import attention, position
from ape_cli.evaluation.laws._subjects import examples
from ape_cli.evaluation.laws.model import models, sample, scores
from tests.models.test_image_classifier import images, net
from tests.position.compiled import compare, without_logs
from tests.position.test_contract import READS, make

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's warnings about itself, while it compiles


@pytest.mark.parametrize("name", position.names())
def test_machine_code(name: str) -> None:
    """inductor needs a C++ compiler. Terms that are computed in float32, such as a locality bias, round otherwise."""
    expression = examples(name)[0]
    scheme = make(name, expression, decay=0.9)
    compare(scheme, expression, inside=True, shapes=[(3, 6)], tolerance=1e-6, backend="inductor", dynamic=False)


@pytest.mark.parametrize(("name", "expression"), READS)
def test_every_structure_and_length(name: str, expression: str) -> None:
    """With contexts from inside and outside, and shapes that are marked as dynamic from the start."""
    for inside in (True, False):
        for dynamic in (None, True):
            scheme = make(name, expression, decay=0.9)
            compare(scheme, expression, inside=inside, backend="eager", dynamic=dynamic)


@pytest.mark.parametrize(
    ("name", "expression", "kind"),
    [*((*pair, "dot") for pair in READS), *(("orthogonal-tree", "tree(2)", kind) for kind in attention.names())],
)
@without_logs()
def test_both_models(name: str, expression: str, kind: str) -> None:
    for model in models(make(name, expression), torch.float64, attention.make(kind)):
        torch.compiler.reset()

        def plain(*given: Any, model: Any = model) -> torch.Tensor:
            return scores(model, *given)

        results = []
        for run in (plain, torch.compile(plain, backend="eager", fullgraph=True)):
            for count in (9, 6):
                ids, at = sample(model.scheme, count)
                out = run(ids, at, torch.arange(count) < torch.tensor([[count], [count - 2], [2]]), ids, at)
                grads = torch.autograd.grad(out.square().sum(), list(model.parameters()), materialize_grads=True)
                results += [out, *grads]
        half = len(results) // 2
        for one, other in zip(results[:half], results[half:], strict=True):
            assert torch.allclose(one, other, rtol=1e-9, atol=1e-9)


@without_logs()
def test_the_image_classifier() -> None:
    plain, pixels = net("rope").eval(), images()
    assert torch.allclose(torch.compile(plain, backend="eager", fullgraph=True)(pixels), plain(pixels), atol=1e-6)

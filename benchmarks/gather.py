"""orthogonal-tree, compared with a simple version that gathers one operator for each token.

The simple version is defined here. It copies the operator of each token's path out of a table of all distinct paths,
[B, N, H, K, K], and applies it by a batched product. The benchmark checks that the results are the same.

Shapes: B batch, H heads, N tokens, K channels of a head.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ape_cli.models.device import tune
from ape_cli.position._branches import Branches
from ape_cli.structure import parse_structure
from benchmarks._measure import Row, pair_of
from benchmarks._steps import SHAPES, Step

SUMMARY = "time of one operator gathered per token, divided by that of orthogonal-tree"


class Gathered(Branches):
    """The operators of `tree(k)`, gathered for each token."""

    def prepare(self, positions: Tensor, plan: Any = None, shared_with: Any = None) -> Any:
        """What applies the operator of each token, [B, N, H, K, K]. int64 [B, N]"""
        paths, which = torch.unique(positions.clamp(min=1), return_inverse=True)
        w, tree = self.generators(), self.tree
        operators = []
        for path in paths.tolist():
            operator = torch.eye(self.channels).expand(self.heads, -1, -1)
            at = path
            while at > 1:
                operator = w[tree.branch(at)] @ operator
                at = tree.ancestor(at, 1)
            operators.append(operator)
        return _Gathered(torch.stack(operators)[which])


class _Gathered:
    """An operator for each token, [B, N, H, K, K]."""

    basis = None

    def __init__(self, operators: Tensor) -> None:
        self.operators = operators

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the operators. [B, H, N, K] -> the same"""
        return (self.operators @ x.transpose(1, 2)[..., None])[..., 0].transpose(1, 2)


def measure() -> Iterator[Row]:
    """The ratio of step times, gathered over ours, for each shape."""
    tune()
    for shape in SHAPES:
        ours, theirs = (
            Step("orthogonal-tree", shape, task="tree-rotate", expression="tree(2)", decay=1.0) for _ in range(2)
        )
        scheme = theirs.model.scheme
        assert isinstance(scheme.operators, Branches)
        gathered = Gathered(parse_structure("tree(2)"), scheme.shape.head_dim, scheme.shape.heads, None)
        gathered.free = scheme.operators.free
        scheme.operators = gathered
        check(ours, theirs)
        times = [(theirs.seconds(), ours.seconds()) for _ in range(4)][1:]
        pair = pair_of([a for a, _ in times], [b for _, b in times])
        count = len(ours.batches)
        absolute = {"gathered s": pair.a / count, "ours s": pair.b / count}
        what = f"gathered / ours; {shape.name}"
        yield Row(what, pair.ratio, bar=3.0, at_least=True, low=pair.low, high=pair.high, absolute=absolute)


def check(ours: Step, theirs: Step) -> None:
    """Assert that both schemes rotate queries in the same way."""
    batch = ours.batches[0]
    at = batch.source_positions
    q = torch.randn(at.shape[0], ours.model.scheme.shape.heads, at.shape[1], ours.model.scheme.shape.head_dim)
    first, second = (s.model.scheme.rotate(q, s.model.scheme.context(at), "query") for s in (ours, theirs))
    assert torch.allclose(first, second, atol=1e-3), "the two are not the same scheme"

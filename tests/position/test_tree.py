"""Shiv and Quirk's trees: stacks by hand, a worked example, and the length."""

from __future__ import annotations

from typing import Any

import torch

from ape_cli import position
from ape_cli.position.tree import ShivQuirkTree

# heap index -> the steps from the node up, most recent first (0 left, 1 right), by hand
STEPS = {0: [], 1: [], 2: [0], 3: [1], 4: [0, 0], 5: [1, 0], 6: [0, 1], 7: [1, 1], 13: [1, 0, 1]}


def make(d_model: int = 24, max_size: int = 3, **options: Any) -> ShivQuirkTree:
    scheme = position.make("tree", d_model=d_model, heads=1, max_size=max_size, **options)
    assert isinstance(scheme, ShivQuirkTree)
    return scheme


def one_hots(steps: list[int], k: int) -> list[list[int]]:
    return [[1 - s, s] for s in steps[:k]] + [[0, 0]] * (k - len(steps[:k]))


def test_stacks_worked_out_by_hand() -> None:
    found = make().stack(torch.tensor([list(STEPS)]))
    for n, steps in enumerate(STEPS.values()):
        assert found[0, n].tolist() == one_hots(steps, 3)


def test_the_worked_example() -> None:
    """Ternary trees of depth 3: from x (the root) by D_2 D_0 to y, by D_1 to z, and by U back to y."""
    scheme = make(d_model=18, max_size=3, structure="tree(3)")
    at = torch.zeros(9, dtype=torch.float64)
    for branch in (2, 0):
        a, b = scheme.down(branch)
        at = a @ at + b
    y = [1, 0, 0, 0, 0, 1, 0, 0, 0]  # child 0, then child 2, then nothing
    assert at.tolist() == y
    a, b = scheme.down(1)
    z = a @ at + b
    assert z.tolist() == [0, 1, 0, 1, 0, 0, 0, 0, 1]
    a, b = scheme.up()
    assert (a @ z + b).tolist() == y
    heaps = [4, 4 * 3 - 1, (4 * 3 - 1) * 3]  # child 2 of x is 4, child 0 of that is 11 = y, and child 1 of y is 33 = z
    assert scheme.stack(torch.tensor([heaps]))[0].flatten(1).tolist()[1:] == [y, z.tolist()]


def test_length_is_about_that_of_the_sinusoidal_vector() -> None:
    scheme = position.make("tree", d_model=512, heads=8, max_size=7)
    deep = scheme.embed(torch.zeros(1, 1, 512), scheme.context(torch.tensor([[2**7]])))
    assert 0.7 < float(deep.detach().norm() / (512 / 2) ** 0.5) < 1.05

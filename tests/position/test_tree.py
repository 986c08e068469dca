"""Shiv and Quirk's trees: stacks by hand, U and D as affine maps, weights in the right order."""

from __future__ import annotations

import pytest
import torch

from ape_cli import position
from ape_cli.errors import UsageError
from ape_cli.position.tree import Tree

# heap index -> the steps from the node up: most recent first (0 left, 1 right), worked out by hand
STEPS = {0: [], 1: [], 2: [0], 3: [1], 4: [0, 0], 5: [1, 0], 6: [0, 1], 7: [1, 1], 13: [1, 0, 1]}


def make(d_model: int = 24, max_size: int = 3) -> Tree:
    scheme = position.make("tree", d_model=d_model, heads=2, max_size=max_size)
    assert isinstance(scheme, Tree)
    return scheme


def one_hots(steps: list[int], k: int) -> list[list[int]]:
    return [[1 - s, s] for s in steps[:k]] + [[0, 0]] * (k - len(steps[:k]))


def test_stacks_worked_out_by_hand() -> None:
    found = make().stack(torch.tensor([list(STEPS)]))
    for n, steps in enumerate(STEPS.values()):
        assert found[0, n].tolist() == one_hots(steps, 3)


def test_push_and_pop_are_affine_and_undo_each_other() -> None:
    """D_i x = A x + b_i, U x = B x; U D_i = I below the last level."""
    n, k = 2, 4
    push, pop = torch.zeros(n * k, n * k), torch.zeros(n * k, n * k)
    for i in range(n * (k - 1)):
        push[i + n, i] = pop[i, i + n] = 1
    scheme = make(d_model=16, max_size=k)

    def vector(heap: int) -> torch.Tensor:
        return scheme.stack(torch.tensor([[heap]])).flatten().float()

    for heap in range(1, 8):  # depth 0 to 2
        for i in range(n):
            child = push @ vector(heap)
            child[i] += 1
            assert torch.equal(child, vector(2 * heap + i))
            assert torch.equal(pop @ child, vector(heap))


def test_deeper_than_sized_keeps_the_last_steps() -> None:
    found = make(max_size=2, d_model=8).stack(torch.tensor([[13]]))
    assert found[0, 0].tolist() == one_hots([1, 0, 1], 2)


def test_weights_fall_with_the_level_and_each_copy_has_its_own() -> None:
    """Entry s of copy j is scaled by p_j^s times sqrt((1 - p_j^2) n k / 2), n k the width of a copy."""
    scheme = make(d_model=28, max_size=3)  # 4 copies of 6 channels, 4 left over
    heap = torch.tensor([[15]])
    found = scheme.embed(torch.zeros(1, 1, 28), scheme.context(heap))[0, 0]
    p = torch.tanh(scheme.weights)
    assert scheme.copies == 4
    assert p.unique().numel() == 4
    for j in range(4):
        for s in range(3):
            left, right = found[6 * j + 2 * s], found[6 * j + 2 * s + 1]
            assert left == 0
            assert torch.isclose(right, p[j] ** s * ((1 - p[j] ** 2) * 3).sqrt())
    assert torch.equal(found[24:], torch.zeros(4))


def test_length_is_about_that_of_the_sinusoidal_vector() -> None:
    scheme = position.make("tree", d_model=512, heads=8, max_size=7)
    deep = scheme.embed(torch.zeros(1, 1, 512), scheme.context(torch.tensor([[2**7]])))
    assert 0.7 < float(deep.detach().norm() / (512 / 2) ** 0.5) < 1.05


def test_it_has_to_fit() -> None:
    with pytest.raises(UsageError, match="does not fit"):
        position.make("tree", d_model=8, heads=2, max_size=5)

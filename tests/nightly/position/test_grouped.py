"""Gradients of grouped products, compared with differences of their values."""

from __future__ import annotations

import pytest
import torch

from ape_cli.position import _grouped
from tests.position.test_grouped import WHICH, given, grouped


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("which", WHICH)
def test_gradients_by_differences(
    which: list[list[int]], copies: int, fixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_grouped, "TILE", 4)
    operators, x = given(which, copies)
    assert torch.autograd.gradcheck(lambda x, operators: grouped(which, fixed, operators, x), (x, operators))

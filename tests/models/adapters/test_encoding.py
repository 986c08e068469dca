"""The positions that `Encoding.at` gives, without a model of `transformers`."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from torch import Tensor

from ape_cli import position
from ape_cli.core.errors import UsageError
from ape_cli.models.adapters._encoding import Encoding

USUAL = torch.arange(3)[None]


@pytest.fixture
def encoding() -> Encoding:
    return Encoding(position.make("none", d_model=4, heads=1))


def test_each_thread_has_positions_of_its_own(encoding: Encoding) -> None:
    """The blocks overlap: both begin, both read, and the first to begin is the first to end."""
    together = Barrier(3)

    def read(at: Tensor | None) -> list[list[int]]:
        found = []
        if at is None:
            together.wait()
            found.append(encoding.positions(3, USUAL))
            together.wait()
        else:
            with encoding.at(at):
                together.wait()
                found.append(encoding.positions(3, USUAL))
                together.wait()
        found.append(encoding.positions(3, USUAL))
        return [each[0].tolist() for each in found]

    with ThreadPoolExecutor(3) as threads:
        one, other, none = threads.map(read, [torch.tensor([[1, 3, 7]]), torch.tensor([[2, 5, 9]]), None])
    assert (one[0], other[0], none[0]) == ([1, 3, 7], [2, 5, 9], [0, 1, 2])
    assert one[1] == other[1] == none[1] == [0, 1, 2]


def test_blocks_nest_and_copies_have_no_positions(encoding: Encoding) -> None:
    with encoding.at(torch.tensor([[1, 2, 3]])):
        with encoding.at(torch.tensor([[4, 5, 6]])):
            assert encoding.positions(2, USUAL).tolist() == [[4, 5]]
        assert encoding.positions(3, USUAL).tolist() == [[1, 2, 3]]
        assert copy.deepcopy(encoding).positions(3, USUAL).tolist() == [[0, 1, 2]]


def test_positions_of_another_kind_are_refused_at_once(encoding: Encoding) -> None:
    for wrong, got in (([[1, 2]], "list"), (torch.tensor([1, 2]), r"torch.int64 \[2\]"), (torch.ones(1, 2), "float32")):
        with pytest.raises(UsageError, match=rf"bad positions[\s\S]*got: .*{got}"), encoding.at(wrong):  # type: ignore[arg-type]
            pass

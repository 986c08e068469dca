"""The overlap of splits is the same if other processes write the shards."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli.core.executors.local import Local
from ape_cli.data.generation import generate
from tests.data.test_generation import plan
from tests.data.test_overlap import FEW, counted

ROWS = plan(FEW, shard_rows=40, train=120, validation=30, test=36)


@pytest.mark.usefixtures("forked_workers")
def test_workers(tmp_path: Path) -> None:
    one = generate(FEW, ROWS, tmp_path / "one").manifest
    assert generate(FEW, ROWS, tmp_path / "two", engine=Local(2)).manifest == one
    assert (one.overlap, one.overlap_sizes) == counted(tmp_path / "one")
    assert one.overlap is not None
    assert all(one.overlap.values())

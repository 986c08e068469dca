"""More random sets of runs than the quick test compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reports.test_random_runs import check, check_sizes


@pytest.mark.parametrize("seed", range(3, 103))
def test_every_number_and_mark_is_derived_again(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


@pytest.mark.parametrize("seed", range(3, 103))
def test_every_row_counts_once(tmp_path: Path, seed: int) -> None:
    check_sizes(tmp_path, seed)

"""The task of datasets that are generated."""

from __future__ import annotations

from typing import Any

import pytest

from ape_cli import tasks


@pytest.fixture
def task() -> Any:
    return tasks.make("tree-ops", depth_mean=3, depth_std=1)

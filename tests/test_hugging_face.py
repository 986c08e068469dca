"""Hugging Face's library reads a generated folder as it stands: three splits, every row, every value."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ape_cli.dataset import Dataset

SCRIPT = """
import json, sys, datasets
found = datasets.load_dataset(sys.argv[1], cache_dir=sys.argv[2])
print(json.dumps({split: rows.to_list() for split, rows in found.items()}))
"""


@pytest.mark.parametrize(
    "which", ["words", "operations", "grids"]
)  # uint64 of one coordinate, an operator, two of them
def test_load_dataset(tmp_path: Path, which: str, request: pytest.FixtureRequest) -> None:
    """In a process of its own and offline, so that nothing but the folder can be what it reads."""
    data: Dataset = request.getfixturevalue(which)
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", SCRIPT, str(data.folder), str(tmp_path / "cache")]
    done = subprocess.run(command, env=offline, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == ["train", "validation", "test"]
    for split, rows in found.items():
        files = sorted((data.folder / "data").glob(f"{split}-*.parquet"))
        assert rows == [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
        assert len(rows) == data.manifest.plan.rows[split]

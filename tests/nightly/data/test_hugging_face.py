"""Hugging Face's library reads a generated folder without changes: three splits with all rows and values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ape_cli import tasks
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import generation
from ape_cli.data.loader import Dataset
from ape_cli.storage import image_rows
from ape_cli.storage.sources import ImageSource, LabelledImages
from tests.interpreters import python

SCRIPT = """
import json, sys, datasets
found = datasets.load_dataset(sys.argv[1], cache_dir=sys.argv[2])
print(json.dumps({split: rows.to_list() for split, rows in found.items()}))
"""


IMAGES = """
import json, sys, datasets, numpy
found = datasets.load_dataset(sys.argv[1], cache_dir=sys.argv[2])
kinds = {name: type(kind).__name__ for name, kind in found["train"].features.items()}
named = found["train"].features["label"].int2str
rows = {split: [[numpy.asarray(row["image"]).tolist(), named(row["label"]), row["row"], row["size"]] for row in rows]
        for split, rows in found.items()}
print(json.dumps([kinds, rows]))
"""


def read(script: str, folder: str, own: Path) -> Any:
    """Runs a script in an offline process, so that it can only read the folder, and returns its JSON output."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(own / "home")}
    return json.loads(python("-c", script, folder, str(own / "cache"), **offline).stdout)


@pytest.mark.parametrize("which", ["operations", "grids"])  # operators, two coordinates
def test_load_dataset(tmp_path: Path, which: str, request: pytest.FixtureRequest) -> None:
    data: Dataset = request.getfixturevalue(which)
    found = read(SCRIPT, str(data.folder), tmp_path)
    assert list(found) == ["train", "validation", "test"]
    for split, rows in found.items():
        files = sorted((data.folder / "data").glob(f"{split}-*.parquet"))
        assert rows == [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
        assert len(rows) == data.manifest.plan.rows[split]


@pytest.mark.parametrize("channels", [1, 3])
def test_load_dataset_of_images(tmp_path: Path, channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's features `Image` and `ClassLabel` give decoded images and names of classes."""
    rng = np.random.default_rng(0)
    whole = LabelledImages(rng.integers(256, size=(40, 3, 5, channels), dtype=np.uint8), rng.integers(2, size=40))
    found = ImageSource("hand", ["cat", "a dog"], {"train": whole})
    monkeypatch.setattr("ape_cli.tasks.images.open_source", lambda where, label: found)
    task = tasks.make("images")
    manifest = generation.generate(
        task, generation.plan(task, seed=1, rows=dict.fromkeys(SPLITS), shard_rows=9), tmp_path / "d"
    ).manifest
    kinds, rows = read(IMAGES, str(tmp_path / "d"), tmp_path)
    assert kinds == {"row": "Value", "image": "Image", "label": "ClassLabel", "size": "Value"}
    assert {split: len(part) for split, part in rows.items()} == manifest.plan.rows == task.available(1)
    assert sum(map(len, rows.values())) == 40
    for split, part in rows.items():
        table = task.sample(rows=range(len(part)), split=split, seed=1)
        pixels = image_rows.pixels(table, task.image)
        names = [found.classes[label] for label in table["label"].to_pylist()]
        for i, (image, name, row, size) in enumerate(part):
            assert (row, size, name) == (i, 5, names[i])
            np.testing.assert_array_equal(np.reshape(image, (3, 5, channels)), pixels[i])

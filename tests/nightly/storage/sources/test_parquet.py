"""Images that Hugging Face's own library has written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ape_cli.storage.sources import open_source
from tests.storage.sources.test_parquet import LABELS, RGB


def test_what_hugging_face_s_library_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b", "c"])})
    images = [Image.fromarray(image) for image in RGB]
    written = datasets.Dataset.from_dict({"img": images, **LABELS}, features=features)
    written.to_parquet(tmp_path / "train.parquet")
    found = open_source(str(tmp_path))
    assert found.classes == ["a", "b", "c"]
    np.testing.assert_array_equal(found.splits["train"].pixels, RGB)

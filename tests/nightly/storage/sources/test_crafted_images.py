"""A source of images that does not fit into memory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ape_cli.core.errors import DataError
from ape_cli.storage import sources
from ape_cli.storage.sources import _parquet
from tests.storage.sources import formats


def test_images_that_do_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = formats.encoded(Image.new("L", (1000, 1000)))
    pq.write_table(pa.table({"image": [image] * 2, "label": [0, 0]}), tmp_path / "x.parquet")
    monkeypatch.setattr(_parquet, "half_memory", lambda: 2 * 10**6)
    assert len(sources.open_source(str(tmp_path / "x.parquet")).splits["train"].labels) == 2
    monkeypatch.setattr(_parquet, "half_memory", lambda: 2 * 10**6 - 1)
    with pytest.raises(DataError, match=r"the images are too large\n  got:     2 images, 2,000,000 bytes"):
        sources.open_source(str(tmp_path / "x.parquet"))

"""The page on the files of a run has the fields of a run on images."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq

from tests.conftest import ape
from tests.test_run_files_page import PAGE, documented


def test_files_of_a_run_on_images(here: Path) -> None:
    ape("gen", "images", "--source", "digits")
    ape("train", "--scheme", "none", "--preset", "tiny")
    (folder,) = (here / "results" / "runs").iterdir()
    schema = pq.read_schema(folder / "history.parquet")
    assert {field.name: str(field.type) for field in schema} == documented("`history.parquet`")
    (file,) = (folder / "eval").iterdir()
    found = json.loads(file.read_text())
    assert set(found) < set(re.findall(r"^\| `([a-z_]+)` \|", PAGE.split("## `eval/*.json`")[1], flags=re.M))
    assert found["by_class"][0].keys() - found["overall"].keys() == {"class"}

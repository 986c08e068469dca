"""The page on the files of a run has the fields of these files."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ape_cli.runs.config import KINDS, settable
from ape_cli.runs.record import (
    ClassMetrics,
    DatasetRecord,
    Evaluation,
    OpMetrics,
    RunRecord,
    SizeMetrics,
    TrainingResult,
)
from tests.conftest import ape
from tests.test_docs import BLOCKS, PAGES

PAGE = PAGES["docs/reference/run-files.md"]


def documented(heading: str, prefix: str = "") -> set[str]:
    """The fields below a heading whose names begin with the prefix, which is removed. They have no further dots."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(rf"^\| `{prefix}([a-z_0-9]+)` \| [^|]+ \|", section, flags=re.M))


def test_run_json_and_evaluations() -> None:
    for prefix, record in (("", RunRecord), ("dataset.", DatasetRecord), ("result.", TrainingResult)):
        assert documented("`run.json`", prefix) == set(record.model_fields)
    config = documented("`run.json`", "config.") | set(settable("image"))
    assert config == set(KINDS["image"].model_fields) | {"model"}
    of_groups = {name for group in (SizeMetrics, OpMetrics, ClassMetrics) for name in group.__annotations__}
    assert documented("`eval/*.json`") == set(Evaluation.__annotations__) | of_groups | {"class"}


def test_history_and_its_example(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ape("train", "--scheme", "rope", "--task", "copy", "--preset", "tiny")
    (folder,) = (here / "results" / "runs").iterdir()
    fields = documented("`history.parquet`")
    assert fields - set(pq.read_schema(folder / "history.parquet").names) == {
        "test_loss",
        "test_token_accuracy",
        "kept",
    }
    (example,) = (block for block in BLOCKS if block.startswith("import polars"))
    exec(example, {})
    assert "validation_token_accuracy" in capsys.readouterr().out

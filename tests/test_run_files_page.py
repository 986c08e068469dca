"""The page on the files of a run has the fields of real files, with their types."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open

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
TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "integer": (int,),
    "number": (float, int),
    "true or false": (bool,),
    "object": (dict,),
    "list": (list,),
    "null": (type(None),),
}


def documented(heading: str, prefix: str = "") -> dict[str, str]:
    """The types of the fields below a heading whose names begin with the prefix. The prefix is removed."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_.0-9]+)` \| ([^|]+) \|", section, flags=re.M)
    return {name.removeprefix(prefix): kind for name, kind in rows if name.startswith(prefix)}


def check(fields: dict[str, Any], types: dict[str, str], optional: tuple[str, ...] = ()) -> None:
    """The fields are those of the page, except optional ones, and each has one of its types there."""
    assert set(types) - set(optional) <= set(fields) <= set(types)
    for name, value in fields.items():
        allowed = tuple(kind for word in re.split(" or (?=null)", types[name]) for kind in TYPES[word])
        assert isinstance(value, allowed), (name, value)


def of_top(types: dict[str, str]) -> dict[str, str]:
    return {name: kind for name, kind in types.items() if "." not in name}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("here")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(where)
        ape("train", "--scheme", "rope", "--task", "tree-ops", "--preset", "tiny", "--log", "json-lines")
    (run,) = (where / "results" / "runs").iterdir()
    return run


def test_run_json(folder: Path) -> None:
    record = json.loads((folder / "run.json").read_text())
    types = documented("`run.json`")
    check(record, of_top(types))
    check(record["dataset"], documented("`run.json`", "dataset."))
    check(record["result"], documented("`run.json`", "result."))
    own = documented("`run.json`", "config.")
    check({name: value for name, value in record["config"].items() if name not in settable("sequence")}, own)
    assert set(own) | set(settable("image")) == set(KINDS["image"].model_fields) | {"model"}
    assert set(of_top(types)) == set(RunRecord.model_fields)
    assert set(documented("`run.json`", "dataset.")) == set(DatasetRecord.model_fields)
    assert set(documented("`run.json`", "result.")) == set(TrainingResult.model_fields)


def test_evaluation(folder: Path) -> None:
    (file,) = (folder / "eval").iterdir()
    found = json.loads(file.read_text())
    assert file.name == f"{found['fingerprint'][:12]}-{found['split']}-{found['decode']}.json"
    section = PAGE.split("\n## `eval/*.json`\n")[1]
    file_part, metrics_part = section.split("\nEach object in ")[:2]
    types = dict(re.findall(r"^\| `([a-z_]+)` \| ([^|]+) \|", file_part, flags=re.M))
    metrics = dict(re.findall(r"^\| `([a-z_]+)` \| ([^|]+) \|", metrics_part.split("\n## ")[0], flags=re.M))
    check(found, types, ("own_files", "test_only", "plan", "by_class"))
    check(found["overall"], metrics, ("size", "op", "class"))
    for name, group in (("size", "by_size"), ("op", "by_op")):
        assert found[group]
        check(found[group][0], metrics, tuple({"size", "op", "class"} - {name}))
    assert set(types) == set(Evaluation.__annotations__)
    of_groups = {name for kind in (SizeMetrics, OpMetrics, ClassMetrics) for name in kind.__annotations__}
    assert set(metrics) == of_groups | {"class"}


def test_history_and_its_example(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    types = documented("`history.parquet`")
    schema = pq.read_schema(folder / "history.parquet")
    assert {field.name: str(field.type) for field in schema}.items() <= types.items()
    assert set(types) - set(schema.names) == {"test_loss", "test_token_accuracy", "kept"}  # nightly: those of images
    (example,) = (block for block in BLOCKS if block.startswith("import polars"))
    monkeypatch.chdir(folder.parents[2])
    exec(example, {})
    assert "validation_token_accuracy" in capsys.readouterr().out


def test_weights_and_log(folder: Path) -> None:
    with safe_open(folder / "model.safetensors", "pt") as weights:  # type: ignore[no-untyped-call]
        about = json.loads(weights.metadata()["ape"])
    example = json.loads(re.search(r"^    (\{\"run\".*\})$", PAGE, flags=re.M)[1])  # type: ignore[index]
    assert about.keys() == example.keys()
    lines = [json.loads(line) for line in (folder / "logs" / "metrics.jsonl").read_text().splitlines()]
    check(next(line for line in lines if "recent_loss" in line), documented("`logs/metrics.jsonl`"))
    assert next(line for line in lines if "lr" in line).keys() == set(
        pl.read_parquet(folder / "history.parquet").columns
    )

"""Runs in one file: they are read as from a folder, byte for byte, and only by names that a run can have."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ape_cli.core.errors import DataError, PlaceError, RunError
from ape_cli.runs import packing
from ape_cli.runs.registry import open_registry
from ape_cli.storage import packed
from tests.conftest import ape
from tests.reports.test_aggregation import add


@pytest.fixture
def two(here: Path) -> list[Path]:
    """The folders of two runs. The first one has weights."""
    add(here / "results", "none", 0.25)
    add(here / "results", "rope", 0.5)
    first, second = sorted((here / "results" / "runs").iterdir())
    (first / "model.safetensors").write_bytes(b"weights")
    return [first, second]


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".safetensors")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_packed_runs_are_reported_like_those_in_a_folder(two: list[Path]) -> None:
    assert ape("runs", "--pack", "mine.parquet")[0] == "packed: 2 runs without weights; mine.parquet contains 2\n"
    for words in (["report", "--json"], ["runs", "--json"], ["report", "--by", "size", "--format", "csv"]):
        assert ape(*words, "--results", "mine.parquet")[0] == ape(*words)[0]
    again = open_registry("mine.parquet").find(two[0].name)
    assert not again.has_weights()
    assert again.problems() == []


def test_files_keep_their_bytes_and_equal_runs_make_equal_files(two: list[Path], here: Path) -> None:
    before = content(here / "results")
    ape("runs", "--pack", "a.parquet")
    ape("runs", "--scheme", "rope", "--pack", "b.parquet")
    assert ape("runs", "--scheme", "none", "--pack", "b.parquet")[0].endswith("b.parquet contains 2\n")
    assert (here / "a.parquet").read_bytes() == (here / "b.parquet").read_bytes()
    assert ape("runs", "--unpack", "a.parquet", "--results", "elsewhere")[0] == "unpacked: 2 runs to elsewhere\n"
    assert content(here / "elsewhere") == before


def test_a_run_that_is_there_is_not_touched(two: list[Path], here: Path) -> None:
    ape("runs", "--pack", "a.parquet")
    (two[0] / "run.json").write_text("mine")
    for path in two[1].rglob("*.json"):
        path.unlink()
    assert ape("runs", "--unpack", "a.parquet")[0] == "unpacked: 1 run to results; 1 were there already\n"
    assert (two[0] / "run.json").read_text() == "mine"
    assert open_registry("results").find(two[1].name).problems() == []


def test_a_folder_of_packed_runs_is_one_registry(two: list[Path], here: Path) -> None:
    for name in ("none", "rope"):
        ape("runs", "--scheme", name, "--pack", f"all/{name}.parquet")
    assert [run.name for run in open_registry("all")] == [path.name for path in two]
    ape("runs", "--pack", "results/mine.parquet")  # a folder of results with such a file stays writable
    assert ape("rm", two[0].name, "--yes")[0].startswith("removed")
    assert [run.name for run in open_registry("results")] == [two[1].name]


def test_packed_runs_are_not_written(two: list[Path]) -> None:
    ape("runs", "--pack", "a.parquet")
    assert "can only be read" in ape("rm", two[0].name, "--yes", "--results", "a.parquet", code=1)[1]
    run = open_registry("a.parquet").find(two[0].name)
    with pytest.raises(PlaceError, match="can only be read"):
        run.update(status="failed")
    assert open_registry("a.parquet").find(two[0].name).status == "finished"


def test_no_option_is_ignored(two: list[Path]) -> None:
    packed = json.loads(ape("runs", "--scheme", "rope", "--pack", "a.parquet", "--json")[0])
    assert packed == {"packed": 1, "contains": 1}
    unpacked = json.loads(ape("runs", "--unpack", "a.parquet", "--results", "x", "--json")[0])
    assert unpacked == {"unpacked": 1, "present": 0}
    for words in (["--scheme", "rope"], ["--filter", "seed=1"], ["--sort", "seed"], ["--pack", "b.parquet"]):
        assert f"--unpack with {words[0]}" in ape("runs", "--unpack", "a.parquet", *words, code=2)[1]
    assert "--pack with --wide" in ape("runs", "--pack", "b.parquet", "--wide", code=2)[1]
    assert not Path("b.parquet").exists()


def test_a_damaged_or_unfinished_run_is_not_packed(two: list[Path], here: Path) -> None:
    path = two[1] / "run.json"
    good = path.read_text()
    path.write_text(json.dumps(json.loads(good) | {"status": "failed"}))
    assert "left out: 1 run not finished" in ape("runs", "--pack", "a.parquet")[1]
    path.write_text(good)
    next((two[1] / "eval").iterdir()).write_text("{}")
    with pytest.raises(RunError, match="altered"):
        packing.pack(here / "b.parquet", open_registry("results"))
    assert not (here / "b.parquet").exists()


@pytest.mark.parametrize(
    "name", ["runs/../../x/run.json", "runs/x/model.safetensors", "/runs/x/run.json", "runs/x/eval/../run.json", "x"]
)
def test_no_other_files_are_unpacked(name: str, here: Path) -> None:
    packed.write(here / "bad.parquet", {name: b"{}"})
    with pytest.raises(DataError, match="does not contain packed runs"):
        packing.unpack(here / "bad.parquet", here / "results")
    assert not (here / "results").exists()


def test_what_is_not_packed_is_refused(here: Path) -> None:
    pq.write_table(pa.table({"path": [[1]], "content": ["x"]}), "lists.parquet")
    pq.write_table(pa.table({"a": [1]}), "other.parquet")
    (here / "text.parquet").write_text("text")
    for name in ("lists", "other", "text", "missing"):
        assert f"cannot read {name}.parquet" in ape("runs", "--results", f"{name}.parquet", code=1)[1]
    assert "ends in .parquet" in ape("runs", "--pack", "x.zip", code=2)[1]

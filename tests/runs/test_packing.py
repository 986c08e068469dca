"""Runs in one file: they are read as from a folder, byte for byte, and only by names that a run can have."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ape_cli.core.errors import DataError, PlaceError
from ape_cli.runs import packing
from ape_cli.runs.registry import open_registry
from ape_cli.storage import files
from tests.conftest import ape
from tests.registered import edit, put_evaluation, vouch
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
    mine = two[0] / "eval" / "mine.json"
    mine.write_text("not listed")
    for path in two[1].rglob("*.json"):
        path.unlink()
    assert ape("runs", "--unpack", "a.parquet")[0] == "unpacked: 1 run to results; 1 were there already\n"
    assert mine.read_text() == "not listed"
    assert (two[0] / "model.safetensors").read_bytes() == b"weights"
    assert open_registry("results").find(two[1].name).problems() == []


def test_a_folder_of_packed_runs_is_one_registry(two: list[Path], here: Path) -> None:
    for name in ("none", "rope"):
        ape("runs", "--scheme", name, "--pack", f"all/{name}.parquet")
    assert [run.name for run in open_registry("all")] == [path.name for path in two]
    ape("runs", "--pack", "results/mine.parquet")  # a folder of results with such a file stays writable
    assert ape("rm", two[0].name, "--yes")[0].startswith("removed")
    assert [run.name for run in open_registry("results")] == [two[1].name]


def test_a_run_may_be_in_several_files_of_a_folder_if_its_copies_are_equal(two: list[Path], here: Path) -> None:
    ape("runs", "--pack", "all/1.parquet")
    ape("runs", "--scheme", "rope", "--pack", "all/2.parquet")
    assert [run.name for run in open_registry("all")] == [path.name for path in two]
    greedy(two[1])
    ape("runs", "--scheme", "rope", "--pack", "all/2.parquet")
    error = ape("report", "--results", "all", code=1)[1]
    assert "two files have different copies of a run" in error
    assert f"{two[1].name} in all" in error
    ape("runs", "--results", "all/2.parquet", "--pack", "all/1.parquet")  # as the message proposes
    assert ape("report", "--results", "all", "--json", "--decode", "greedy")[0].count('"mean"') == 1


def test_packed_runs_are_not_written(two: list[Path]) -> None:
    ape("runs", "--pack", "a.parquet")
    assert "is read-only" in ape("rm", two[0].name, "--yes", "--results", "a.parquet", code=1)[1]
    run = open_registry("a.parquet").find(two[0].name)
    with pytest.raises(PlaceError, match="is read-only"):
        run.update(status="failed")
    assert open_registry("a.parquet").find(two[0].name).status == "finished"


def test_no_option_is_ignored(two: list[Path]) -> None:
    packed = json.loads(ape("runs", "--scheme", "rope", "--pack", "a.parquet", "--json")[0])
    assert packed == {"packed": 1, "contains": 1, "refused": []}
    unpacked = json.loads(ape("runs", "--unpack", "a.parquet", "--results", "x", "--json")[0])
    assert unpacked == {"unpacked": 1, "present": 0, "refused": []}
    assert "--scheme with --unpack" in ape("runs", "--unpack", "a.parquet", "--scheme", "rope", code=2)[1]
    assert "--wide with --pack" in ape("runs", "--pack", "b.parquet", "--wide", code=2)[1]


def test_a_damaged_or_unfinished_run_is_not_packed(two: list[Path], here: Path) -> None:
    path = two[1] / "run.json"
    good = path.read_text()
    path.write_text(json.dumps(json.loads(good) | {"status": "failed"}))
    assert "left out: 1 run not finished" in ape("runs", "--pack", "a.parquet")[1]
    path.write_text(good)
    next((two[1] / "eval").iterdir()).write_text("{}")
    out, err = ape("runs", "--pack", "b.parquet", code=1)
    assert out == "packed: 1 run without weights; b.parquet contains 1\n"
    assert f"refused: {two[1].name}: " in err
    assert "was altered" in err
    assert [run.name for run in open_registry("b.parquet")] == [two[0].name]


def pack_rows(path: str, *rows: tuple[str | None, bytes | None]) -> None:
    """Writes a file in the format of packed runs, with any rows."""
    names, contents = zip(*rows, strict=True)
    columns = {"path": pa.array(names, pa.string()), "content": pa.array(contents, pa.binary())}
    pq.write_table(pa.table(columns), path)


def rows_of(path: str) -> list[tuple[str, bytes]]:
    """The rows of a file of packed runs."""
    table = pq.read_table(path).to_pydict()
    return list(zip(table["path"], table["content"], strict=True))


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def greedy(folder: Path, value: float = 0.5) -> Path:
    """Adds a greedy evaluation to a run, and returns its path."""
    score = {"token_accuracy": value, "exact_match": value, "rows": 10, "tokens": 50}
    return put_evaluation(
        folder, {"dataset": "x", "fingerprint": "f" * 64, "split": "test", "decode": "greedy", "overall": score}
    )


def test_each_place_may_have_an_evaluation_that_the_other_lacks(two: list[Path], here: Path) -> None:
    """Their union lists both, and is the same in either order, and after it is unpacked."""
    shutil.copytree("results", "other")
    mine, theirs = two[0], here / "other" / "runs" / two[0].name
    evaluation = greedy(theirs)
    (theirs / "eval" / evaluation.name.replace("greedy", "teacher")).unlink()
    vouch(theirs)
    for name, places in {"a": ["results", "other"], "b": ["other", "results"]}.items():
        for place in places:
            ape("runs", "--results", place, "--pack", f"{name}.parquet")
    assert (here / "a.parquet").read_bytes() == (here / "b.parquet").read_bytes()
    run = open_registry("a.parquet").find(mine.name)
    assert run.problems() == []
    assert [found["decode"] for found in run.evaluations()[0]] == ["greedy", "teacher"]
    assert ape("runs", "--unpack", "a.parquet")[0].startswith("unpacked: 1 run to results; 1 were there")
    assert content(mine) == {name.split("/", 2)[2]: data for name, data in rows_of("a.parquet") if mine.name in name}


@pytest.mark.parametrize("change", ["record", "evaluation"])
def test_records_that_contradict_each_other_are_refused_by_name(change: str, two: list[Path], here: Path) -> None:
    ape("runs", "--pack", "a.parquet")
    before = (here / "a.parquet").read_bytes()
    if change == "record":
        edit(two[0] / "run.json", started="2020-01-01T00:00:00+00:00")
    else:
        path = next((two[0] / "eval").iterdir())
        edit(path, lambda found: found["overall"].update(token_accuracy=0.125))
    mine = everything(here / "results")
    for option, told in (
        ("--pack", "packed: 1 run without weights; a.parquet contains 2\n"),
        ("--unpack", "unpacked: 0 runs to results; 1 were there already\n"),
    ):
        out, err = ape("runs", option, "a.parquet", code=1)
        assert out == told
        assert f"refused: {two[0].name}: the records of two copies of a run contradict each other" in err
        assert (here / "a.parquet").read_bytes() == before
        assert everything(here / "results") == mine


def test_a_damaged_run_in_a_file_is_refused_by_name(two: list[Path], here: Path) -> None:
    """Nothing of it is taken, and the others are. Packing the whole run again does not hide the damage."""
    ape("runs", "--pack", "good.parquet")
    good, name = rows_of("good.parquet"), two[0].name
    of_first = [row for row in good if name in row[0]]
    index, evaluation = (next(row for row in of_first if key in row[0]) for key in ("run.json", "eval/"))
    moved = json.loads(index[1]) | {"run": "x"} | {"config": json.loads(index[1])["config"] | {"seed": 2}}
    damaged = {
        "altered": [(evaluation[0], evaluation[1].replace(b"0.25", b"0.75"))],
        "missing": [(evaluation[0], None)],
        "garbage index": [(index[0], b"{")],
        "another name": [(index[0], json.dumps(moved).encode())],
        "unfinished": [(index[0], index[1].replace(b'"finished"', b'"running"'))],
    }
    for kind, changes in damaged.items():
        changed = dict(good) | dict(changes)
        pack_rows("bad.parquet", *((path, data) for path, data in changed.items() if data is not None))
        out, err = ape("runs", "--unpack", "bad.parquet", "--results", kind, code=1)
        assert out == f"unpacked: 1 run to {kind}\n"
        assert f"refused: {name}: " in err, kind
        assert [path.name for path in (here / kind / "runs").iterdir()] == [two[1].name]
        assert f"refused: {name}: " in ape("runs", "--pack", "bad.parquet", code=1)[1], kind
    pack_rows("bad.parquet", *good, evaluation)
    assert f"refused: {name}: " in ape("runs", "--unpack", "bad.parquet", "--results", "twice", code=1)[1]


def test_a_run_that_is_not_finished_in_the_folder_stays(two: list[Path], here: Path) -> None:
    ape("runs", "--pack", "a.parquet")
    edit(two[0] / "run.json", status="running", finished=None, result=None, files={})
    mine = everything(two[0])
    out, err = ape("runs", "--unpack", "a.parquet", code=1)
    assert out == "unpacked: 0 runs to results; 1 were there already\n"
    assert f"refused: {two[0].name}: the run is not finished" in err
    assert everything(two[0]) == mine


def test_no_other_files_are_read(two: list[Path], here: Path) -> None:
    """One reader with one message serves `--unpack`, `--pack` and `--results`, and nothing is written."""
    ape("runs", "--pack", "good.parquet")
    names = ["runs/../../x/run.json", "runs/x/model.safetensors", "/runs/x/run.json", "runs/x/eval/../run.json", None]
    for name in [*names, "runs/x/run.json\n"]:
        pack_rows("bad.parquet", *rows_of("good.parquet"), (name, b"{}"))
        err = ape("runs", "--unpack", "bad.parquet", "--results", "new", code=1)[1]
        assert "it does not contain packed runs" in err, name
        assert not (here / "new").exists()
    before = (here / "bad.parquet").read_bytes()
    assert "it does not contain packed runs" in ape("runs", "--pack", "bad.parquet", code=1)[1]
    assert (here / "bad.parquet").read_bytes() == before
    pq.write_table(pa.table({"a": [1]}), "other.parquet")
    assert "cannot read other.parquet" in ape("runs", "--results", "other.parquet", code=1)[1]
    assert "ends in .parquet" in ape("runs", "--pack", "x.zip", code=2)[1]


def test_no_file_is_written_that_would_be_refused(two: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(len(path) + len(data) for path, data in rows_of(packed_file("a.parquet")))
    monkeypatch.setattr(packing, "_BYTES", size)
    assert "too large for one file" in ape("runs", "--pack", "b.parquet", code=1)[1]
    assert not Path("b.parquet").exists()


def packed_file(name: str) -> str:
    ape("runs", "--pack", name)
    return name


def test_only_one_process_at_a_time_changes_a_file(
    two: list[Path], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one waits. Temporary files of others in the folder, which has no lock, stay."""
    monkeypatch.setattr(packing, "_PATIENCE", 0.1)
    other = here / f".x.{'0' * 16}.tmp"
    other.touch()
    with files.held(here / ".a.parquet.lock", DataError("busy")):
        assert "another process is writing this file" in ape("runs", "--pack", "a.parquet", code=1)[1]
    ape("runs", "--pack", "a.parquet")
    assert other.exists()
    assert sorted(path.name for path in here.iterdir()) == [other.name, "a.parquet", "results"]

"""Several changes of a run that fit together, and things in its folder that are no files of a run."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file, save_file

from ape_cli.core.errors import RunError
from ape_cli.data.loader import Dataset
from ape_cli.runs.audit import audit
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from ape_cli.training.execution import ExistingRun
from ape_cli.training.loop import Stopped
from tests.conftest import ape
from tests.nightly.limits import ape as limited
from tests.registered import edit, rename, strip_digest
from tests.runs.test_registry import run, stopping_after


@pytest.fixture(scope="module")
def kept(words: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry with two finished runs and a stopped one, which tests copy."""
    where = tmp_path_factory.mktemp("kept")
    for seed in (1, 2):
        run(words, where, seed=seed)
    with pytest.raises(Stopped):
        run(words, where, seed=3, stop=stopping_after(3))
    return where


def folders(where: Path) -> list[Path]:
    """The folders of the runs with seeds 1, 2 and 3."""
    return [Path(str(found.folder)) for found in open_registry(where)]


def of_earlier_version(folder: Path) -> None:
    """Makes run.json one of a version that had no digests."""
    path = folder / "run.json"
    about = json.loads(path.read_text())
    for name in ("sha256", "files"):
        about.pop(name, None)
    path.write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n")


def change_tensors(path: Path, metadata: dict[str, Any]) -> None:
    """Sets all weights and moments in a safetensors file to other values, without a digest."""
    made = {
        name: value + 1 if value.is_floating_point() and not name.endswith(".step") else value
        for name, value in load_file(path).items()
    }
    save_file(made, path, {"ape": json.dumps(metadata)})


# A digest that was removed


def test_an_evaluation_whose_digest_was_removed(where: Path) -> None:
    """No version writes it beside a run.json with a digest, so it does not count as an older one."""
    folder = folders(where)[0]
    (path,) = (folder / "eval").iterdir()

    def perfect(found: dict[str, Any]) -> None:
        for part in (found["overall"], *found["by_size"], *found["by_op"]):
            part.update(token_accuracy=1.0, exact_match=1.0)

    edit(path, perfect)
    strip_digest(path)
    assert "was altered (no digest)" in ape("report", "--results", str(where), "--format", "markdown")[1]
    for more in ((), ("--add",)):
        out, _ = ape("verify", "--results", str(where), *more, code=1)
        assert "was altered (no digest)" in out
    assert "sha256" not in path.read_text()


def test_a_state_whose_digest_was_removed(where: Path, words: Dataset) -> None:
    folder = folders(where)[2]
    found = Run(folder).load_state()
    assert found is not None
    change_tensors(folder / "state" / "state.safetensors", found[1])
    with pytest.raises(RunError, match="was altered\n  got:     no digest"):
        run(words, where, seed=3, existing=ExistingRun.RESUME)
    of_earlier_version(folder)
    os.utime(folder / "run.json")
    done = run(words, where, seed=3, existing=ExistingRun.RESUME).run
    assert audit(Run(done.folder)).state == "unverified"  # and stays so, although run.json was written again


def test_weights_of_an_earlier_version_that_are_of_another_run(where: Path, words: Dataset) -> None:
    folder = folders(where)[0]
    of_earlier_version(folder)
    for evaluation in (folder / "eval").iterdir():
        evaluation.unlink()
    change_tensors(folder / "model.safetensors", {"run": "another"})
    asked = ("eval", folder.name, "--results", str(where), "--data", str(words.folder))
    assert "is of another run" in ape(*asked, code=1)[1]
    change_tensors(folder / "model.safetensors", {})
    assert f"{folder.name} is unverified: there are files without a digest" in ape(*asked)[1]


def test_a_run_json_without_a_field_that_has_a_default(where: Path) -> None:
    """The seed of a configuration has a default, and tables read it."""
    folder = rename(folders(where)[0], "reverse-rope-42")
    edit(folder / "run.json", lambda about: about["config"].pop("seed"))
    (*_, line) = json.loads(ape("runs", "--results", str(where), "--json")[0])
    assert line["seed"] == 42
    assert "left out" not in ape("report", "--results", str(where))[1]


def test_a_run_whose_task_cannot_have_its_order(where: Path) -> None:
    """One such run does not keep the others out of a report."""
    folder = rename(folders(where)[0], "reverse-nonsense-rope-1")
    edit(folder / "run.json", lambda about: about["config"].update(preset="paper"))
    edit(folder / "run.json", lambda about: about["dataset"].update(order="nonsense"))
    out, err = ape("report", "--results", str(where), "--format", "markdown")
    assert f"left out: {folder.name}: unknown order" in err
    assert folder.name in out


# Files that are much larger than their content


def test_a_history_with_large_values(where: Path) -> None:
    folder = folders(where)[0]
    of_earlier_version(folder)
    rows = pq.read_table(folder / "history.parquet").slice(0, 1)
    rows = pa.concat_tables([rows] * 500).append_column("note", pa.array(["x" * 2**22] * 500).dictionary_encode())
    pq.write_table(rows, folder / "history.parquet", compression="zstd")
    assert (folder / "history.parquet").stat().st_size < 20_000
    found = limited("verify", "--results", str(where))
    assert found.code == 1
    assert "history.parquet is no history (500 rows of " in found.out


@pytest.mark.parametrize("name", ["history.parquet", "model.safetensors"])
def test_a_file_that_is_a_large_hole(where: Path, name: str) -> None:
    """Its digest would take minutes."""
    os.truncate(folders(where)[0] / name, 80 * 10**9)
    found = limited("verify", "--results", str(where))
    assert found.code == 1
    assert f"{name}" in found.out
    assert "3 runs: 2 verified, 0 unverified, 1 damaged" in found.out


# Things that are no files of a run


@pytest.mark.parametrize("kind", ["loop", "file", "pipe"])
def test_evaluations_that_are_in_no_folder(where: Path, kind: str) -> None:
    folder = folders(where)[0]
    shutil.rmtree(folder / "eval")
    if kind == "loop":
        (folder / "eval").symlink_to("eval")
    elif kind == "pipe":
        os.mkfifo(folder / "eval")
    else:
        (folder / "eval").write_text("")
    for command in ("report", "verify"):
        out, err = ape(command, "--results", str(where), code=int(command == "verify"))
        assert f"cannot read {folder / 'eval'}" in out + err
    run_there = Run(folder)
    run_there.clear()
    assert not any(folder.iterdir())


def test_removing_a_run_follows_no_links(where: Path, tmp_path: Path) -> None:
    """`--overwrite` removes the links themselves."""
    precious = tmp_path / "precious"
    (precious / "below").mkdir(parents=True)
    for name in ("thesis.txt", "eval.json", "below/more.txt"):
        (precious / name).write_text("years of work")
    folder = folders(where)[0]
    shutil.rmtree(folder / "eval")
    for name in ("logs", "state", "eval"):
        (folder / name).symlink_to(precious)
    Run(folder).clear()
    assert not any(folder.iterdir())
    assert sorted(p.name for p in precious.rglob("*")) == ["below", "eval.json", "more.txt", "thesis.txt"]


def test_a_name_with_line_breaks_forges_no_line(where: Path) -> None:
    (where / "runs" / "zzz\n9 runs: 9 verified, 0 damaged\nerror: none").mkdir()
    out, err = ape("verify", "--results", str(where), code=1)
    assert "\n9 runs" not in out
    assert out.splitlines()[-1] == "4 runs: 3 verified, 0 unverified, 1 damaged"
    out, err = ape("report", "--results", str(where), "--format", "markdown")
    assert [line.partition(":")[0] for line in err.splitlines()] == ["left out"]
    assert out.splitlines()[-1].endswith(r": zzz\\n9 runs.")


# Copies, and folders that are somewhere else


def test_a_copy_of_a_run_is_no_other_seed(where: Path) -> None:
    """It has another hash in its name, in all of its files, and new digests."""
    folder = folders(where)[0]
    copy = shutil.copytree(folder, folder.with_name(f"{folder.name.rpartition('-')[0]}-zzz"))
    for path in (copy / "run.json", *(copy / "eval").iterdir()):
        edit(path, run=copy.name)
    for view in ((), ("--by", "size"), ("--by", "epoch")):
        out, err = ape("report", "--results", str(where), "--format", "json", *view)
        assert f"left out: {copy.name}: it has the configuration, the seed and the data of {folder.name}" in err
        assert {line["seeds"] for line in json.loads(out)} == {2}


def test_evaluations_are_not_written_through_a_link(where: Path, words: Dataset, tmp_path: Path) -> None:
    folder = folders(where)[0]
    shutil.rmtree(folder / "eval")
    (tmp_path / "elsewhere").mkdir()
    (folder / "eval").symlink_to(tmp_path / "elsewhere")
    _, err = ape("eval", folder.name, "--results", str(where), "--data", str(words.folder), code=1)
    assert "eval is no folder of this run" in err
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("name", ["state", "logs"])
def test_a_resumed_run_follows_no_links(words: Dataset, tmp_path: Path, name: str) -> None:
    with pytest.raises(Stopped):
        run(words, tmp_path, stop=stopping_after(3))
    (folder,) = folders(tmp_path)
    (folder / name).mkdir(exist_ok=True)
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    before = {path: path.read_bytes() for path in (tmp_path / "elsewhere").iterdir()}
    with pytest.raises(RunError, match=f"{name} is no folder of this run"):
        run(words, tmp_path, existing=ExistingRun.RESUME)
    assert {path: path.read_bytes() for path in (tmp_path / "elsewhere").iterdir()} == before

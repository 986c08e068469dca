"""Changed files of a run: each is refused, or left out and named. Nothing changes a number without a message."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli.core.errors import DataError, RunError
from ape_cli.data.loader import Dataset
from ape_cli.evaluation import evaluate
from ape_cli.reports import aggregation
from ape_cli.runs.audit import audit
from ape_cli.runs.record import TrainingResult
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from ape_cli.training.execution import ExistingRun
from ape_cli.training.loop import Stopped
from tests.conftest import ape
from tests.registered import edit
from tests.runs.test_registry import CPU, run, stopping_after

ALL: dict[str, Any] = {"metric": "token_accuracy", "decode": "teacher", "split": "test", "against": None}


@pytest.fixture(scope="module")
def kept(words: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry with two finished runs, which tests copy."""
    where = tmp_path_factory.mktemp("kept")
    for seed in (1, 2):
        run(words, where, seed=seed)
    return where


@pytest.fixture
def where(kept: Path, tmp_path: Path) -> Path:
    """A copy of the registry."""
    return shutil.copytree(kept, tmp_path / "results")


def first(where: Path) -> Run:
    return next(iter(open_registry(where)))


def contents(found: Run) -> tuple[Any, ...]:
    """Everything that is read from a run. Raises `RunError`."""
    about = found.read()
    evaluations, bad = found.evaluations(about)
    if bad:
        raise RunError("; ".join(bad))
    weights = {name: value.tolist() for name, value in found.load_model()[0].items()}
    return about, evaluations, found.history().rows(), weights


def files_of(found: Run) -> list[Path]:
    return sorted(path for path in Path(str(found.folder)).rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["run.json", "model.safetensors", "history.parquet", "test-teacher.json"])
def test_a_changed_byte_is_noticed(where: Path, name: str) -> None:
    """Each change is refused. Without the name of the digest, the content is the same and counts as unverified."""
    found = first(where)
    before = contents(found)
    (path,) = (path for path in files_of(found) if path.name.endswith(name))
    whole = path.read_bytes()
    chosen = random.Random(1)
    places = [*chosen.sample(range(len(whole)), 60), *range(len(whole) - 90, len(whole))]
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 1 << chosen.randrange(8)
        path.write_bytes(changed)
        again = Run(found.folder)
        try:
            after = contents(again)
        except RunError:
            continue
        assert again.unverified, f"byte {place} was changed without a message"
        assert after[1:] == before[1:] or name == "test-teacher.json"
    path.write_bytes(whole)
    for cut in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(RunError):
            contents(Run(found.folder))
    assert audit(found).state == "damaged"


@pytest.mark.parametrize("name", ["run.json", "model.safetensors", "history.parquet", "test-teacher.json"])
def test_a_failure_of_this_machine_says_nothing_about_a_file(
    where: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many open files: no message calls a good run altered or advises to train it again."""
    found, real = first(where), os.open

    def failing(path: Any, *rest: Any, **more: Any) -> int:
        if Path(path).name.endswith(name):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(path, *rest, **more)

    with monkeypatch.context() as broken:
        broken.setattr(os, "open", failing)
        with pytest.raises(RunError, match="Too many open files") as error:
            contents(found)
    assert not any(word in str(error.value) for word in ("altered", "overwrite", "train", "restore"))
    contents(found)


def test_a_file_that_is_gone_is_noticed(where: Path) -> None:
    """The weights may be missing, because they are large. Evaluations are not listed anywhere."""
    found = first(where)
    (Path(str(found.folder)) / "history.parquet").unlink()
    with pytest.raises(RunError, match=r"cannot read .*history.parquet"):
        found.history()
    assert audit(found).state == "damaged"


Change = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("run.json", lambda x: x["result"].update(best_accuracy=7.5), "result.best_accuracy"),
        ("run.json", lambda x: x["result"].update(best_accuracy="0.5"), "result.best_accuracy"),
        ("run.json", lambda x: x["result"].update(steps=4.0), "result.steps"),
        ("run.json", lambda x: x["result"].update(best_step=5), "best_step 5 is after the last step"),
        ("run.json", lambda x: x["result"].update(steps=0), "result.steps"),
        ("run.json", lambda x: x["result"].update(seconds=-1.0), "result.seconds"),
        ("run.json", lambda x: x.update(run="../../x"), "is of another run"),
        ("run.json", lambda x: x.update(config=[x["config"]]), "config.sequence"),
        ("run.json", lambda x: x.update(config=[[1.5]]), "config.sequence"),
        ("run.json", lambda x: x["dataset"]["rows"].update(test=-4), "dataset: rows are not a number"),
        ("run.json", lambda x: x["dataset"].update(fingerprint="../../x"), "dataset.fingerprint"),
        ("eval", lambda x: x["overall"].update(token_accuracy=1.5), "overall.token_accuracy"),
        ("eval", lambda x: x["overall"].update(token_accuracy=True), "overall.token_accuracy"),
        ("eval", lambda x: x["overall"].update(token_accuracy=0.9), "token_accuracy of by_size and of overall"),
        ("eval", lambda x: x["overall"].update(exact_match=1 / 40), "exact_match of by_size and of overall"),
        ("eval", lambda x: x["overall"].update(cross_entropy=0.1), "cross_entropy of by_size and of overall"),
        ("eval", lambda x: x["by_size"][0].update(token_accuracy=0.9), "token_accuracy of by_size and of overall"),
        ("eval", lambda x: x["by_size"][0].update(rows=900), "rows of by_size and of overall"),
        ("eval", lambda x: x["by_size"].pop(), "of by_size and of overall"),
        ("eval", lambda x: x.update(by_size=[]), "of by_size and of overall"),
        ("eval", lambda x: x["by_size"].append(x["by_size"][0]), "of by_size and of overall"),
        ("eval", lambda x: x.update(rows=41), "rows 41 and overall.rows 40"),
        ("eval", lambda x: x.update(run="another"), "contradicts its run: run: another"),
        ("eval", lambda x: x.update(split="train"), "contradicts its run: the name of the file"),
        ("eval", lambda x: x.update(decode="greedy"), "contradicts its run: the name of the file"),
        ("eval", lambda x: x.update(weights="0" * 64), "contradicts its run: weights"),
    ],
)
def test_what_cannot_be_is_refused_although_the_digest_is_right(
    where: Path, name: str, change: Change, message: str
) -> None:
    found = first(where)
    (path,) = (path for path in files_of(found) if name in (path.name, path.parent.name))
    edit(path, change)
    problems = [problem.replace(" (", ": ") for problem in audit(found).problems]
    assert any(message in problem for problem in problems), problems
    lines, bad = aggregation.lines(open_registry(where), **ALL)
    assert lines["seeds"].to_list() == [1]
    assert [line.partition(":")[0] for line in bad] == [found.name]


def test_rows_that_the_dataset_does_not_have(where: Path) -> None:
    """An evaluation of twice the rows, consistent in itself."""
    found = first(where)
    (path,) = (path for path in files_of(found) if path.parent.name == "eval")

    def double(evaluation: dict[str, Any]) -> None:
        evaluation["rows"] *= 2
        for part in (evaluation["overall"], *evaluation["by_size"]):
            part.update(rows=2 * part["rows"], tokens=2 * part["tokens"])

    edit(path, double)
    assert "rows: 80" in found.evaluations()[1][0]


def test_a_second_evaluation_of_the_same_data_is_left_out_and_named(where: Path) -> None:
    found = first(where)
    before, _ = aggregation.lines(open_registry(where), **ALL)
    (path,) = (path for path in files_of(found) if path.parent.name == "eval")
    shutil.copy(path, path.with_name("zzz.json"))
    shutil.copy(path, path.with_name(f"{'f' * 12}-test-teacher.json"))
    after, bad = aggregation.lines(open_registry(where), **ALL)
    assert after.equals(before)
    assert len(bad) == 2
    assert all("contradicts its run" in line for line in bad)


def test_files_of_another_run_are_refused(where: Path, words: Dataset) -> None:
    """A run has its own weights, history, evaluations and run.json, although those of another seed would fit."""
    one, two = (Path(str(found.folder)) for found in open_registry(where))
    for path in files_of(Run(two)):
        target = one / path.relative_to(two)
        whole = target.read_bytes()
        shutil.copy(path, target)
        with pytest.raises(RunError):
            contents(Run(one))
        target.write_bytes(whole)
    contents(Run(one))
    shutil.copytree(one, one.with_name("copy-rope-3-00000000"))
    assert "is of another run" in audit(Run(one.with_name("copy-rope-3-00000000"))).problems[0]


def test_weights_that_were_altered_are_not_evaluated(where: Path, words: Dataset) -> None:
    found = first(where)
    path = Path(str(found.folder)) / "model.safetensors"
    whole = bytearray(path.read_bytes())
    whole[-7] ^= 64
    path.write_bytes(whole)
    with pytest.raises(RunError, match="was altered"):
        evaluate.evaluate(found, words, split="test", decode="teacher", device=CPU)


def test_a_state_that_was_altered_is_not_resumed(words: Dataset, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        run(words, tmp_path, stop=stopping_after(3))
    path = Path(str(first(tmp_path).folder)) / "state" / "state.safetensors"
    whole = path.read_bytes()
    for place in random.Random(2).sample(range(len(whole)), 20):
        changed = bytearray(whole)
        changed[place] ^= 16
        path.write_bytes(changed)
        with pytest.raises(RunError, match=r"was altered|not a complete|not written by ape"):
            run(words, tmp_path, existing=ExistingRun.RESUME)
    with pytest.raises(Stopped):
        run(words, tmp_path / "other", seed=2, stop=stopping_after(3))
    shutil.copy(Path(str(first(tmp_path / "other").folder)) / "state" / "state.safetensors", path)
    with pytest.raises(RunError, match="is of another run"):
        run(words, tmp_path, existing=ExistingRun.RESUME)
    path.write_bytes(whole)
    assert run(words, tmp_path, existing=ExistingRun.RESUME).trained


def test_best_weights_that_were_altered_while_the_run_trains(
    words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not registered as the best ones."""
    finish = Run.finish

    def altered(self: Run, result: TrainingResult) -> None:
        path = Path(str(self.folder)) / "model.safetensors"
        whole = bytearray(path.read_bytes())
        whole[-7] ^= 64
        path.write_bytes(whole)
        finish(self, result)

    monkeypatch.setattr(Run, "finish", altered)
    with pytest.raises(RunError, match="was altered"):
        run(words, tmp_path, test=False)
    assert first(tmp_path).status == "stopped"


Cursor = dict[str, Any]


@pytest.fixture(scope="module")
def stopped(words: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped after three steps."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.raises(Stopped):
        run(words, folder, stop=stopping_after(3))
    return folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": -30}, "impossible step -30 of 4"),
        ({"step": 5}, "impossible step 5 of 4"),
        ({"batch": 10**9}, "impossible epoch 0, batch 1000000000 at step 3"),
        ({"epoch": -1}, "impossible epoch -1"),
        ({"epoch": 10**12}, "impossible epoch 1000000000000, batch 3 at step 3"),
        ({"epoch": 1}, "impossible epoch 1, batch 3 at step 3"),
        ({"best_step": 3}, "impossible best_step 3"),
        ({"best_accuracy": 2.0}, "impossible best_accuracy 2.0"),
        ({"best_accuracy": -1.0}, "impossible best_accuracy -1.0"),
        ({"seconds": -5.0}, "impossible seconds -5.0"),
        ({"tokens": 0}, "impossible tokens 0"),
        ({"correct": 10**9}, "impossible correct 1000000000"),
        ({"nats": -1.0}, "impossible nats"),
        ({"history": [{"step": 9}]}, "impossible best_step"),
        ({"history": [{"step": 2}, {"step": 2}]}, "steps of the history"),
        ({"history": [{"step": True}, {"step": 2}]}, "steps of the history"),
        ({"history": "text"}, "history: Input should be a valid array"),
        ({"step": 3.5}, "step: Input should be a valid integer"),
        ({"step": "3"}, "step: Input should be a valid integer"),
        ({"step": None}, "step: Input should be a valid integer"),
        ({"nats": "x"}, "nats: Input should be a valid number"),
        ({"more": 1}, "unknown field more"),
    ],
)
def test_a_cursor_that_cannot_be_is_refused(
    words: Dataset, stopped: Path, tmp_path: Path, change: Cursor, message: str
) -> None:
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    found = first(tmp_path)
    tensors, cursor = found.load_state() or ({}, {})
    found.save_state(tensors, cursor | change)
    with pytest.raises(RunError, match="does not fit") as caught:
        run(words, tmp_path, existing=ExistingRun.RESUME)
    assert message in str(caught.value)
    found.save_state(tensors, cursor)
    if change == {"step": -30}:  # the refusal has changed nothing
        assert run(words, tmp_path, existing=ExistingRun.RESUME).trained


def test_a_run_that_was_never_started_is_not_damaged(where: Path) -> None:
    """A lock that failed, or a kill before run.json, leaves a folder with a lock file."""
    (where / "runs" / "copy-rope-1-0123abcd").mkdir()
    (where / "runs" / "copy-rope-1-0123abcd" / ".lock").touch()
    assert "2 runs: 2 verified, 0 unverified, 0 damaged" in ape("verify", "--results", str(where))[0]
    assert "0123abcd" not in "".join(ape("runs", "--results", str(where)))


def test_damage_is_named_under_the_table(where: Path) -> None:
    """On the terminal with the reason, and in the file under the table."""
    found = first(where)
    edit(Path(str(found.folder)) / "run.json", lambda about: about["result"].update(best_accuracy=7.5))
    for style in ("markdown", "latex", "html"):
        out, err = ape("report", "--results", str(where), "--format", style)
        assert f"left out: {found.name}: " in err
        shown = out.replace("\\_", "_")
        assert f"Left out, because they are damaged or cannot be read: {found.name}." in shown
    assert "750" not in ape("runs", "--results", str(where))[0]


def strip(where: Path) -> None:
    """Makes all runs those of a version that had no digests."""
    for path in where.rglob("*.json"):
        value = json.loads(path.read_text())
        for name in ("sha256", "files", "weights"):
            value.pop(name, None)
        path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def test_runs_of_earlier_versions_are_unverified_until_digests_are_added(where: Path) -> None:
    words = ("--results", str(where))
    before = contents(first(where))
    strip(where)
    out, err = ape("report", *words, "--format", "markdown")
    assert "2 runs are unverified" in out
    assert "2 runs are unverified" in err
    assert {line["verified"] for line in json.loads(ape("runs", *words, "--json")[0])} == {False}
    out, err = ape("verify", *words)
    assert out == "2 runs: 0 verified, 2 unverified, 0 damaged\n"
    assert "`ape verify --add` adds digests" in err
    assert ape("verify", *words, "--add")[0] == "2 runs: 2 verified, 0 unverified, 0 damaged\n"
    out, err = ape("report", *words, "--format", "markdown")
    assert "unverified" not in out + err
    assert {line["verified"] for line in json.loads(ape("runs", *words, "--json")[0])} == {True}
    after = contents(first(where))
    assert after[0]["files"] == before[0]["files"]
    assert after[1] == [{k: v for k, v in each.items() if k != "weights"} for each in before[1]]
    assert after[2:] == before[2:]


def test_digests_are_not_added_to_what_is_damaged(where: Path) -> None:
    strip(where)
    path = Path(str(first(where).folder)) / "run.json"
    path.write_text(path.read_text().replace('"best_accuracy": 0', '"best_accuracy": 7'))
    out = ape("verify", "--results", str(where), "--add", code=1)[0]
    assert "result.best_accuracy" in out
    assert out.endswith("2 runs: 1 verified, 0 unverified, 1 damaged\n")
    assert "sha256" not in path.read_text()
    found = json.loads(ape("verify", "--results", str(where), "--json", code=1)[0])
    assert [each["state"] for each in found] == ["damaged", "verified"]


def test_an_unfinished_run_gets_digests_too(words: Dataset, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    with pytest.raises(Stopped):
        run(words, tmp_path, stop=stopping_after(3))
    found = first(tmp_path)
    tensors, cursor = found.load_state() or ({}, {})
    path = Path(str(found.folder)) / "state" / "state.safetensors"
    save_file(tensors, path, metadata={"ape": json.dumps(cursor)})
    strip(tmp_path)
    assert audit(Run(found.folder)).state == "unverified"
    ape("verify", "--results", str(tmp_path), "--add")
    assert audit(Run(found.folder)).state == "verified"
    after = Run(found.folder).load_state()
    assert after
    assert after[1] == cursor
    assert all(torch.equal(after[0][name], value) for name, value in tensors.items())


def test_verify_reads_every_row_of_a_dataset(words: Dataset, tmp_path: Path) -> None:
    out = ape("verify", "--data", str(words.folder))[0]
    assert out == f"{words.folder}: 200 rows, verified\n"
    copy = shutil.copytree(str(words.folder), tmp_path / "d")
    shard = next((copy / "data").glob("test-*.parquet"))
    shard.write_bytes(shard.read_bytes()[:-1])
    assert "altered or truncated" in ape("verify", "--data", str(copy), code=1)[1]
    assert "one kind of thing" in ape("verify", "--data", str(copy), "--add", code=2)[1]


def test_the_dataset_of_a_run_is_not_what_it_was(where: Path, words: Dataset) -> None:
    """The path of the dataset in run.json is only read. A dataset with another fingerprint is refused."""
    found = first(where)
    edit(Path(str(found.folder)) / "run.json", lambda about: about["dataset"].update(fingerprint="0" * 64))
    with pytest.raises(DataError, match="has changed since"):
        evaluate.own_dataset(found)

"""All stages on S3 give the same bytes and numbers as in a folder, whatever interrupts them."""

from __future__ import annotations

import json
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ape_cli import tasks
from ape_cli.core.errors import DataError, PlaceError, RunError
from ape_cli.core.executors.local import Local
from ape_cli.data import generation, manifest
from ape_cli.data.loader import open_dataset
from ape_cli.data.manifest import DatasetPlan
from ape_cli.runs.record import RunRecord
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from ape_cli.storage import files, object_store
from ape_cli.storage.object_store import ConflictError, RemotePath
from ape_cli.storage.paths import StoragePath, storage_path
from ape_cli.training import trial
from ape_cli.training.execution import ExistingRun
from ape_cli.training.trainer import Stopped
from tests.conftest import ape
from tests.data.test_generation import snapshot
from tests.interpreters import started, until
from tests.nightly.store import Server
from tests.runs import test_registry
from tests.runs.test_registry import stopping_after

pytestmark = pytest.mark.usefixtures("forked_workers")

WORDS = ["--n-validation", "30", "--n-test", "30", "--length-mean", "5", "--length-std", "1"]


def address(server: Server, path: str, kind: str = "s3") -> str:
    return f"{kind}://ape/{path}?endpoint_override={server.endpoint}{'&anonymous=true' * (kind == 'gs')}"


# Generation


TASK = tasks.make("tree-ops", depth_mean=3, depth_std=1)
PLAN = generation.plan(TASK, seed=7, rows={"train": 350, "validation": 40, "test": 30}, shard_rows=100)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("reference") / "d"
    generation.generate(TASK, PLAN, folder)
    return snapshot(folder)


def test_the_same_bytes_as_in_a_folder(server: Server, reference: dict[str, bytes]) -> None:
    """Also if workers write them."""
    generation.generate(TASK, PLAN, storage_path(address(server, "workers")), engine=Local(2, threads=1))
    assert server.objects("ape/workers") == reference
    out = storage_path(address(server, "same"))
    assert generation.generate(TASK, PLAN, out).written == 420
    assert server.objects("ape/same") == reference
    assert generation.generate(TASK, PLAN, out).written == 0
    assert server.objects("ape/same") == reference
    other = generation.plan(TASK, seed=8, rows=PLAN.rows, shard_rows=100)
    with pytest.raises(DataError, match="seed 7 there, 8 now"):
        generation.generate(TASK, other, out)
    generation.generate(TASK, other, out, overwrite=True)
    assert manifest.read_manifest(out).plan == other
    found = server.objects("ape/same")
    assert found.keys() == reference.keys()
    assert found["manifest.json"] != reference["manifest.json"]


def test_a_missing_shard_is_made_again_and_a_damaged_one_is_named(server: Server, reference: dict[str, bytes]) -> None:
    out = storage_path(address(server, "damage"))
    generation.generate(TASK, PLAN, out)
    second = "data/train-00001-of-00004.parquet"
    server.remove(f"ape/damage/{second}")
    with pytest.raises(DataError, match="a shard is missing"):
        open_dataset(out)
    assert generation.generate(TASK, PLAN, out).written == 100
    assert server.objects("ape/damage") == reference
    server.put(f"ape/damage/{second}", reference[second][:-9] + b"x" + reference[second][-8:])
    for asked in (lambda: generation.generate(TASK, PLAN, out), lambda: open_dataset(out).split("train")):
        with pytest.raises(DataError, match=r"altered or truncated: s3://ape/damage/data/train-00001"):
            asked()


def interrupted(task: tasks.BaseTask, plan: DatasetPlan, out: StoragePath, after: int) -> None:
    """Interrupts a generation once more than `after` rows are drawn."""
    drawn = 0

    def tick(rows: int) -> None:
        nonlocal drawn
        drawn += rows
        if drawn > after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generation.generate(task, plan, out, tick=tick)


def test_an_interruption_leaves_no_manifest_and_is_gone_on_from(server: Server, reference: dict[str, bytes]) -> None:
    out = storage_path(address(server, "broken"))
    interrupted(TASK, PLAN, out, after=250)
    left = server.objects("ape/broken")
    assert "manifest.json" not in left
    assert {name for name in left if name.endswith(".parquet")} == {
        f"data/train-0000{i}-of-00004.parquet" for i in (0, 1)
    }
    with pytest.raises(DataError, match="generation was interrupted"):
        open_dataset(out)
    assert generation.generate(TASK, PLAN, out).written == 420 - 200
    assert server.objects("ape/broken") == reference


# Runs


def run(data: str, results: StoragePath, **options: Any) -> trial.Trial:
    return test_registry.run(open_dataset(data), results, **options)


@pytest.fixture(scope="module")
def words(server: Server) -> str:
    where = address(server, "data/reverse")
    ape("gen", "reverse", "--n", "120", *WORDS, "--out", where)
    return where


def test_the_commands_of_every_day(server: Server, words: str, tmp_path: Path, monkeypatch: Any) -> None:
    """With data and results on S3, the commands print the same as for a folder."""
    monkeypatch.chdir(tmp_path)
    ape("gen", "reverse", "--n", "120", *WORDS)
    asked = ["train", "--scheme", "rope", "--preset", "tiny", "--set", "steps=4", "--json"]
    answers = []
    for data, results in (("reverse", "results"), (words, address(server, "results"))):
        trained = json.loads(ape(*asked, "--data", data, "--results", results)[0])
        again, notes = ape(*asked, "--data", data, "--results", results)
        assert "is trained already" in notes
        assert not json.loads(again)["trained"]
        evaluated = json.loads(ape("eval", "--results", results, "--split", "validation", "--json")[0])
        greedy = ape("eval", "--results", results, "--decode", "greedy", "--data", data, trained["run"])[0]
        runs = json.loads(ape("runs", "--results", results, "--json")[0])
        report = ape("report", "--results", results, "--format", "csv")[0]
        shown = ape("show", data, "--row", "3")[0]
        for timed in (trained, *runs):
            for name in ("seconds", "tokens_per_second", "started", "finished"):
                timed.pop(name, None)
        answers.append([trained, evaluated, greedy, runs, report, shown])
    assert answers[0] == answers[1]
    run_there = f"ape/results/runs/{answers[0][0]['run']}"
    files_there = server.objects(run_there)
    files_here = snapshot(tmp_path / "results" / "runs" / answers[0][0]["run"])
    assert files_there.keys() == files_here.keys()
    assert files_there["model.safetensors"] == files_here["model.safetensors"]
    about = json.loads(files_there["run.json"])
    assert (about["dataset"]["name"], about["dataset"]["path"]) == ("reverse", words)
    to = ["--out", address(server, "tables/all.md"), "--plots", address(server, "tables/plots")]
    ape("report", "--results", address(server, "results"), *to)
    assert server.objects("ape/tables")["plots/scores.svg"].startswith(b"<?xml")
    written = server.objects("ape/tables")["all.md"]
    assert b"| rope | " in written
    assert b"Preset tiny with steps=4." in written


def test_a_stopped_run_goes_on_from_its_state_there(server: Server, words: str, tmp_path: Path) -> None:
    results = storage_path(address(server, "stopped"))
    with pytest.raises(Stopped):
        run(words, results, stop=stopping_after(2))
    (found,) = open_registry(results)
    assert found.status == "stopped"
    attempts = {name.split("/")[1] for name in server.objects(f"ape/stopped/runs/{found.name}")}
    assert len(attempts) == 1
    with pytest.raises(RunError, match="continue it with `resume`"):
        run(words, results)
    with pytest.raises(Stopped):
        run(words, results, existing=ExistingRun.RESUME, stop=stopping_after(0))
    assert len({name.split("/")[1] for name in server.objects(f"ape/stopped/runs/{found.name}")}) == 2
    done = run(words, results, existing=ExistingRun.RESUME)
    straight = run(words, tmp_path)
    assert done.evaluation == straight.evaluation
    there = server.objects(f"ape/stopped/runs/{found.name}")
    here = snapshot(tmp_path / "runs" / found.name)
    assert there.keys() == here.keys()
    assert there["model.safetensors"] == here["model.safetensors"]
    one, other = (t.run.history().drop("seconds") for t in (done, straight))
    assert one.select(other.columns).equals(other)


@pytest.mark.parametrize("held", [1, 2])
def test_two_commands_that_finish_the_same_run(server: Server, words: str, tmp_path: Path, held: int) -> None:
    """The store answers a request for run.json late: the one that announces an end, or the one that finishes the run.

    Meanwhile the other process finishes the run. Both commands succeed, and one says that the other one was first.
    """
    results = address(server, f"held-{held}")
    train = ["train", "--scheme", "rope", "--preset", "tiny", "--set", "steps=4", "--device", "cpu", "--data", words]
    with server.holding("PUT", r"/runs/[^/]+/run\.json$", held) as go_on:
        both = [started("-m", "ape_cli", *train, "--results", results, where=tmp_path) for _ in range(2)]
        until(lambda: any(process.poll() is not None for process in both))
        assert sum(process.poll() is None for process in both) == 1  # the other one still waits for the answer
        go_on.set()
        ends = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    assert sum("was finished elsewhere in the meantime" in err for _, err in ends) == 1
    (found,) = open_registry(results)
    assert found.status == "finished"
    assert found.problems() == []
    assert len(found.evaluations()[0]) == 1


def test_two_evaluations_at_once_are_both_listed(server: Server, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(words, storage_path(address(server, "evaluations"))).run
    known, (evaluation,) = done.read(), done.evaluations()[0]
    read, others = Run.read, ["train", "validation"]

    def late(self: Run) -> RunRecord:
        there = read(self)
        if others:
            Run(done.folder).save_evaluation(evaluation | {"split": others.pop()}, known)
        return there

    monkeypatch.setattr(Run, "read", late)
    done.save_evaluation(evaluation, known)
    monkeypatch.undo()
    assert len(Run(done.folder).evaluations()[0]) == 3


@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_conditional_writes(server: Server, kind: str) -> None:
    """By the documentation of both stores: a write of an outdated version changes nothing."""
    path = storage_path(address(server, f"conditional/{kind}", kind))
    assert isinstance(path, RemotePath)
    assert path.version() == "create"
    files.write_text(path, "one", path.version())
    first = path.version()
    with pytest.raises(ConflictError):
        files.write_text(path, "two", "create")
    files.write_text(path, "two", first)
    with pytest.raises(ConflictError):
        files.write_text(path, "three", first)
    assert path.read_bytes() == b"two"
    path.unlink()
    assert not path.exists()


def test_google_s_store_as_far_as_a_stand_in_tells(server: Server, reference: dict[str, bytes]) -> None:
    out = storage_path(address(server, "google/same", "gs"))
    assert generation.generate(TASK, PLAN, out).written == 420
    (out / "data" / "train-00002-of-00004.parquet").unlink()
    assert generation.generate(TASK, PLAN, out).written == 100
    assert server.objects("ape/google/same") == reference


# Messages for users


def test_a_server_that_never_answers(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command gives up, with one message."""
    monkeypatch.setattr(object_store, "_SILENCE", timedelta(seconds=2))
    monkeypatch.setattr(object_store, "_RETRIES", {"max_retries": 0})
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the system accepts connections, and nobody reads them
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        _, said = ape("runs", "--results", f"s3://ape/results?endpoint_override={endpoint}", code=1)
    assert said.startswith("error: a request to S3 failed at s3://ape\n")
    assert said.count("fix:") == 1


def test_one_clear_message(server: Server, here: Path) -> None:
    for words_of_command in (["gen", "copy", "--n", "5", "--out"], ["runs", "--results"], ["show"]):
        _, missing = ape(*words_of_command, f"s3://nobody-s/x?endpoint_override={server.endpoint}", code=1)
        assert "error: a request to S3 failed at s3://nobody-s\n" in missing
        with server.asking_for_keys():
            _, denied = ape(*words_of_command, address(server, "denied"), code=1)
        assert "error: a request to S3 failed at s3://ape\n" in denied
        assert denied.count("error:") == missing.count("error:") == 1
        assert "AWS_ACCESS_KEY_ID" in denied


def test_a_server_that_goes_away_does_not_look_like_damage(server: Server, words: str, monkeypatch: Any) -> None:
    """A user is not told to generate or to train again because the network is down."""
    results = storage_path(address(server, "away"))
    done = run(words, results).run

    def unreachable(self: RemotePath, *limit: int) -> bytes:
        raise PlaceError("cannot be reached")

    monkeypatch.setattr(RemotePath, "read_bytes", unreachable)
    for asked in (
        done.read,
        lambda: manifest.read_manifest(storage_path(words)),
        lambda: open_registry(results).runs(),
    ):
        with pytest.raises(PlaceError):
            asked()

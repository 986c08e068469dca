"""Sweeps: each run is trained once, whatever happens meanwhile, and is the same run as that of `ape train`."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli.cli.sweep_table import Watch
from ape_cli.core.errors import BusyError, DataError
from ape_cli.data.loader import open_dataset
from ape_cli.runs.registry import open_registry
from ape_cli.storage import files, locks
from ape_cli.sweep import planning, specification, worker
from ape_cli.training import dataset_choice, trial
from ape_cli.training.execution import Execution, ExistingRun
from tests.conftest import ape

pytestmark = pytest.mark.usefixtures("forked_workers")

GRID = ["--schemes", "rope,none", "--tasks", "copy,tree-copy", "--seeds", "1-2", "--preset", "tiny"]
SHORT = ["--set", "steps=6", "--set", "validate_every_steps=3", "--device", "cpu"]
ONE = ["--workers", "1", "--threads", "1"]  # one process starts sooner than two


def facts(results: Path) -> dict[str, Any]:
    """Everything in a run except times, which a second sweep must repeat."""
    found = {}
    for run in open_registry(results):
        about = run.read()
        assert run.status == "finished"
        outcome = {k: v for k, v in about["result"].items() if k not in ("seconds", "tokens_per_second")}
        history = run.history().drop("seconds").to_dicts()
        found[run.name] = (about["config"], outcome, history, run.evaluations())
    return found


@pytest.mark.slow
def test_a_sweep_is_what_train_makes_one_by_one(here: Path) -> None:
    out, err = ape("sweep", *GRID, *SHORT)
    assert out.splitlines()[-1] == "8 trials: 8 finished; 8 trained now"
    assert "generated datasets/copy-tiny" in err
    ours = facts(here / "results")
    for scheme in ("rope", "none"):
        for words in (["--task", "copy"], ["--task", "tree-copy", "--order", "breadth"]):
            for seed in ("1", "2"):
                which = ["--scheme", scheme, "--seed", seed, "--preset", "tiny", "--results", "alone"]
                ape("train", *words, *which, *SHORT)
    assert facts(here / "alone") == ours
    assert len(ours) == 8

    before = {p: p.stat().st_mtime_ns for p in (here / "results").rglob("*") if p.is_file()}
    assert ape("sweep", *GRID, *SHORT)[0].splitlines()[-1] == "8 trials: 8 finished; 0 trained now"
    assert {p: p.stat().st_mtime_ns for p in (here / "results").rglob("*") if p.is_file()} == before

    # if the data is gone, the registry knows it by its plan, and nothing has to be generated
    for path in sorted((here / "datasets").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert ape("sweep", *GRID, *SHORT)[0].splitlines()[-1] == "8 trials: 8 finished; 0 trained now"
    assert not any((here / "datasets").iterdir())


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ape_cli", "sweep", *words]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


FOUR = ["--schemes", "rope", "--tasks", "tree-copy", "--seeds", "1-4", "--preset", "tiny", "--device", "cpu"]
FOUR += ["--set", "steps=60", "--set", "validate_every_steps=10", "--threads", "1"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of the four trials if nothing stops them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("uninterrupted"))
        ape("sweep", *FOUR, "--workers", "1")
        return facts(Path("results"))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_killed_or_stopped_and_started_again_nothing_is_trained_twice(
    here: Path, uninterrupted: dict[str, Any], number: int, code: int
) -> None:
    process = start(*FOUR, "--workers", "2")
    while sum(run.read()["status"] == "finished" for run in begun(here)) < 1:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == code
    done = {run.name: run.read() for run in begun(here) if run.read()["status"] == "finished"}
    assert 1 <= len(done) < 4
    deadline = time.monotonic() + 30
    while any(locks.is_locked(run.folder / ".lock") for run in begun(here)):  # workers end with their parent
        assert time.monotonic() < deadline
        time.sleep(0.05)
    out, _ = ape("sweep", *FOUR, "--workers", "1")
    assert f"4 finished; {4 - len(done)} trained now" in out
    assert {name: open_registry("results").find(name).read() for name in done} == done
    assert facts(here / "results") == uninterrupted


def begun(here: Path) -> list[Any]:
    return [run for run in open_registry(here / "results") if (run.folder / "run.json").exists()]


@pytest.mark.slow
def test_a_trial_that_fails_is_reported_and_the_others_go_on(here: Path) -> None:
    Path("sweep.toml").write_text(
        'preset = "tiny"\ntasks = ["copy"]\nschemes = ["rope", "none"]\n'
        "[[grid]]\nset = { steps = 40, lr_peak = 1e30 }\n[[grid]]\nset = { steps = 4 }\n"
    )
    out, err = ape("sweep", "sweep.toml", "--device", "cpu", *ONE, code=1)
    assert "4 trials: 2 failed, 2 finished; 2 trained now" in out
    assert err.count("the loss is no longer a number") >= 2
    assert err.count("\nfailed: copy-") == 2
    logs = sorted(Path("results/logs").iterdir())
    assert len(logs) == 2
    assert "training copy-none" in logs[0].read_text()
    assert "the loss is no longer a number" in logs[0].read_text()
    ends = json.loads(ape("sweep", "sweep.toml", "--device", "cpu", *ONE, "--json", code=1)[0])["trials"]
    assert [(e["state"], e["trained"], "error" in e) for e in ends] == [
        *[("failed", False, True)] * 2,
        *[("finished", False, False)] * 2,
    ]


@pytest.mark.slow
def test_dry_run_says_what_would_be_done_and_does_nothing(here: Path) -> None:
    plan = json.loads(ape("sweep", *GRID, *SHORT, "--dry-run", "--json")[0])
    assert not list(here.iterdir())
    assert (plan["to_do"], plan["seconds"]) == (8, None)
    assert {t["state"] for t in plan["trials"]} == {"new"}
    assert all(t["dataset_missing"] for t in plan["trials"])

    ape("sweep", "--schemes", "rope,none", "--tasks", "copy", "--seeds", "1-2", "--preset", "tiny", *SHORT, *ONE)
    took = {"rope": (10.0, 30.0), "none": (50.0, 70.0)}
    for run in open_registry("results"):
        about = run.read()
        config = about["config"]
        about["result"]["seconds"] = took[config["scheme"]][config["seed"] - 1]
        files.write_json(run.folder / "run.json", about)
    words = ["--tasks", "copy,tree-copy", "--preset", "tiny", *SHORT, "--workers", "2", "--dry-run", "--json"]
    plan = json.loads(ape("sweep", "--schemes", "rope,none,alibi", "--seeds", "2-3", *words)[0])
    guesses = {t["run"].rsplit("-", 1)[0]: (t["state"], pytest.approx(t["seconds"])) for t in plan["trials"]}
    assert guesses["copy-rope-2"][0] == "finished"
    assert guesses["copy-rope-3"] == ("new", 30.0)  # the upper median of the same configuration, 10 and 30
    assert guesses["copy-none-3"] == ("new", 70.0)
    assert guesses["copy-alibi-3"] == ("new", 50.0)  # the same task: 10, 30, 50, 70
    assert guesses["tree-copy-breadth-rope-3"] == ("new", 50.0)  # the same model; trees of depth 2 have 6 nodes too
    # to do: rope and none on copy once, alibi on copy twice, three schemes on tree-copy twice; two at a time
    assert plan["seconds"] == pytest.approx((30 + 70 + 2 * 50 + 6 * 50) / 2)
    table = ape("sweep", *GRID, *SHORT, "--dry-run")[0]
    assert "8 trials, 4 to do" in table
    assert "estimated from registered runs" in table


@pytest.mark.slow
def test_an_estimate_scales_with_the_work(here: Path) -> None:
    """A run of 6 steps with 16 words of 6 symbols took 3 seconds, 3 / (6 * 16 * 6) for each step and symbol."""
    ape("sweep", "--schemes", "rope", "--tasks", "copy", "--preset", "tiny", *SHORT, *ONE)
    (run,) = open_registry("results")
    about = run.read()
    about["result"]["seconds"] = 3.0
    files.write_json(run.folder / "run.json", about)
    ape("gen", "copy", "--sizes", "3,6,9,30", "--n", "25", "--n-test", "1", "--out", "longer")  # 12 symbols on average

    def seconds(*words: str, scheme: str = "rope", data: tuple[str, str] = ("--tasks", "copy")) -> float | None:
        given = ["--schemes", scheme, *data, "--preset", "tiny", "--device", "cpu", "--dry-run", "--json"]
        (listed,) = json.loads(ape("sweep", *given, "--seeds", "9", *words)[0])["trials"]
        return listed["seconds"]

    six, longer = ("--set", "steps=6"), ("--data", "longer")
    assert seconds(*six) == pytest.approx(3.0)
    assert seconds("--set", "steps=40000") == pytest.approx(20_000.0)  # 3 * 40,000 / 6, which is 5.6 hours
    assert seconds() == pytest.approx(10.0)  # the 20 steps of the preset
    assert seconds(*six, "--set", "batch_size=64") == pytest.approx(12.0)
    assert seconds("--set", "epochs=6") == pytest.approx(39.0)  # 200 rows: 6 times 13 steps of 16
    assert seconds(*six, data=longer) == pytest.approx(6.0)
    assert seconds("--set", "epochs=6", data=longer) == pytest.approx(42.0)  # 100 rows: 6 times 7 steps
    assert seconds(*six, scheme="none") == pytest.approx(3.0)  # the same model on the same task
    assert seconds(*six, data=("--tasks", "repeat")) == pytest.approx(3.0)  # the same model
    for other in ("d_model=64", "heads=1", "encoder_layers=2"):
        assert seconds(*six, "--set", other) is None
    words = ["--schemes", "rope", "--tasks", "copy", "--preset", "tiny", "--device", "cpu", "--dry-run", *ONE]
    out = ape("sweep", *words, "--set", "d_model=64")[0]
    assert "1 at once: time unknown, as no registered run has the same model" in out
    assert "about 5:33:20, estimated from registered runs" in ape("sweep", *words, "--set", "steps=40000")[0]


def test_shards_share_a_sweep_out(here: Path) -> None:
    shards = [
        [
            t["run"]
            for t in json.loads(ape("sweep", *GRID, *SHORT, "--shard", f"{i}/3", "--dry-run", "--json")[0])["trials"]
        ]
        for i in (1, 2, 3)
    ]
    whole = [t["run"] for t in json.loads(ape("sweep", *GRID, *SHORT, "--dry-run", "--json")[0])["trials"]]
    assert [len(part) for part in shards] == [3, 3, 2]
    assert sorted(itertools.chain(*shards)) == sorted(whole)


def test_what_a_scheme_cannot_read_is_left_out_and_said(here: Path) -> None:
    _, err = ape("sweep", "--schemes", "tree,rope", "--tasks", "copy", "--preset", "tiny", *SHORT, "--dry-run")
    assert "left out: tree on copy-tiny" in err
    _, err = ape("sweep", "--schemes", "tree", "--tasks", "copy", "--preset", "tiny", "--dry-run", code=2)
    assert "the sweep has no trials" in err


@pytest.mark.slow
def test_datasets_that_are_there(here: Path) -> None:
    ape("gen", "reverse", "--n", "40", "--n-validation", "9", "--n-test", "9", "--length-mean", "5", "--out", "mine")
    ape("gen", "copy", "--n", "40", "--n-validation", "9", "--n-test", "9", "--length-mean", "5")
    out, _ = ape("sweep", "--schemes", "rope", "--data", "mine", "--data", "copy", "--preset", "tiny", *SHORT, *ONE)
    assert "2 trials: 2 finished" in out
    assert set(open_registry("results").runs()["dataset"]) == {"mine", "copy"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--schemes", "rope"], "names no tasks"),
        (["none.toml"], "cannot read the sweep's file"),
        (["--schemes", "rope", "--tasks", "copy", "--seeds", "a"], "bad --seeds"),
        (["--schemes", "rope", "--tasks", "copy", "--seeds", "9-1"], "bad --seeds"),
        (["--schemes", "rope", "--tasks", "copy", "--shard", "3/2"], "bad --shard"),
        (["--schemes", "rope", "--tasks", "copy", "--engine", "slrum"], "unknown engine"),
        (["--schemes", "rope", "--tasks", "copy", "--gpus-per-trial", "1"], "engine local has no such option"),
        (["--schemes", "rope", "--tasks", "copy", "--address", "x:1"], "engine local has no such option"),
        (["--schemes", "rope", "--tasks", "copy", "--set", "decy=1"], "unknown setting"),
        (["--schemes", "rope", "--tasks", "copy", "--workers", "0"], "bad --workers"),
        (["--schemes", "rope", "--tasks", "copy", "--trials-per-task", "0"], "engine local has no such option"),
        (["--schemes", "rope", "--tasks", "copy", "--shard", ""], "bad --shard"),
        (["--schemes", "rope", "--tasks", "copy", "--orders", "depth"], "no task of the sweep has an order"),
        (["--schemes", "rope", "--tasks", "copy", "--seeds", "3-1,7"], "bad --seeds"),
        (["--schemes", "rope", "--tasks", "copy", "--seeds", "9" * 5000], "bad --seeds"),
        (["--schemes", "rope", "--tasks", "copy", "--engine", "ray", "--address", "garbage"], "bad --address"),
        (
            ["--schemes", "rope", "--tasks", "copy", "--engine", "ray", "--cpus-per-trial", "inf"],
            "bad --cpus-per-trial",
        ),
    ],
)
def test_bad_usage(here: Path, words: list[str], message: str) -> None:
    _, err = ape("sweep", *words, "--device", "cpu", "--dry-run", code=2)
    assert message in err
    assert not list(here.iterdir())


class FakeLink:
    number = 0

    def __init__(self) -> None:
        self.told: list[Any] = []

    def tell(self, value: Any) -> None:
        self.told.append(value)

    def stopping(self) -> bool:
        return False


def test_a_run_that_another_process_holds(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep waits, because the other process may be a dying worker.

    In the end it leaves the run to the other one.
    """
    monkeypatch.setattr(worker, "_LOOK", 0.01)
    monkeypatch.setattr(worker, "_PATIENCE", 0.5)
    data = dataset_choice.preset_dataset("copy", None, "tiny", Path("datasets"))
    point = specification.points(
        [specification.check({"schemes": ["none"], "tasks": ["copy"], "set": {"steps": 2}})], "tiny"
    )
    found = open_registry("results")
    (item,), _ = planning.plan(point, found, Path("datasets"), Path)
    job, link = worker.job(item, found, "cpu", False), FakeLink()
    assert item.run is not None
    with locks.locked(item.run.folder / ".lock", BusyError("busy")):
        assert job.call(link, *job.args) == {"state": "elsewhere"}
    assert {"waiting": True} in link.told
    assert job.call(link, *job.args)["state"] == "finished"
    assert open_dataset("datasets/copy-tiny").fingerprint == data.fingerprint


def test_the_watch_tells_how_long_it_will_take(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ape_cli.cli import sweep_table
    from ape_cli.core.executors import Event, Failure

    clock = [100.0]
    monkeypatch.setattr(sweep_table.time, "monotonic", lambda: clock[0])
    points = specification.points(
        [specification.check({"schemes": ["none", "rope", "alibi"], "tasks": ["copy"]})], "tiny"
    )
    items, _ = planning.plan(points, open_registry("results"), Path("datasets"), Path)
    watch = Watch(items, 2)
    a, b, c = (item.name for item in items)
    assert watch.time_left() is None
    watch.heed(Event(a, "started"))
    watch.heed(Event(b, "started"))
    watch.heed(Event(a, "told", {"waiting": True}))
    assert watch.time_left() is None
    watch.heed(Event(a, "told", {"step": 10, "steps": 100, "accuracy": 0.5, "validation": None}))
    clock[0] = 110.0
    watch.heed(Event(a, "told", {"step": 30, "steps": 100, "accuracy": 0.5, "validation": 0.25}))
    assert watch.lines[a].left(110.0) == 10 / 20 * 70
    assert watch.time_left() == (35 + 35 + 35) / 2  # the others take as long as the known one, two at once
    watch.heed(Event(b, "failed", Failure(None, "trace\nit broke")))
    watch.heed(Event(a, "done", {"state": "finished", "trained": True, "seconds": 50.0, "test": 0.75}))
    assert watch.time_left() == 50  # one is left, and it cannot be divided
    from rich.console import Console

    text = io.StringIO()
    Console(width=160, file=text).print(watch)
    assert "test 75.00%" in text.getvalue()
    assert "1 finished, 1 waiting, 1 failed; about 0:50 left" in text.getvalue()
    assert [line.item.name for line in watch.of("waiting")] == [c]


def test_the_table_of_a_sweep_fits_80_columns_and_is_right_after_ctrl_c(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the seed, the state, and the best score that is known with the name of its split."""
    from rich.console import Console

    from ape_cli.core.executors import Event

    chosen = {"schemes": ["orthogonal-tree"], "tasks": ["tree-rotate"], "seeds": [41, 42, 43], "set": {"heads": [4]}}
    points = specification.points([specification.check(chosen)], "tiny")
    items, _ = planning.plan(points, open_registry("results"), Path("datasets"), Path)
    watch = Watch(items, 2)
    a, b, _ = (item.name for item in items)

    def drawn() -> list[str]:
        text = io.StringIO()
        Console(width=80, file=text).print(watch)
        assert max(map(len, text.getvalue().splitlines())) <= 77  # with the ^C of the terminal, 79
        return [re.sub(r"  +", "  ", line.rstrip()) for line in text.getvalue().splitlines() if line.strip()]

    watch.heed(Event(a, "started"))
    watch.heed(Event(b, "started"))
    watch.heed(Event(b, "told", {"step": 800, "steps": 12_000, "accuracy": 0.5, "validation": None}))
    assert any("43" not in line and "800/12,000  training 50.00%" in line for line in drawn())
    watch.heed(Event(b, "told", {"step": 900, "steps": 12_000, "accuracy": 0.5, "validation": 0.25}))
    assert "900/12,000  validation 25.00%" in "\n".join(drawn())
    watch.heed(Event(a, "done", {"state": "finished", "trained": True, "seconds": 50.0, "test": 0.75}))
    with pytest.raises(KeyboardInterrupt):
        watch.stop(signal.SIGINT, None)
    assert capsys.readouterr().err.endswith(
        "\nstopping after the present steps …\n"
    )  # at once, because trials take a while
    assert drawn()[0] == "1 finished, 1 running, 1 waiting; stopping after the present steps …"
    watch.interrupt()
    shown = drawn()
    assert shown[0] == "1 finished, 1 stopped, 1 waiting"
    assert shown[1] == "trial  seed  state  accuracy  time"
    found = re.findall(r"(\d+)  (\w+)  (\w+) (\S+)  took", "\n".join(shown[2:]))
    assert found == [("41", "finished", "test", "75.00%"), ("42", "stopped", "validation", "25.00%")]


def test_the_watch_calls_the_accuracy_of_images_by_its_name(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ape_cli.core.executors import Event

    points = specification.points([specification.check({"schemes": ["none"], "tasks": ["images", "copy"]})], "tiny")
    items, _ = planning.plan(points, open_registry("results"), Path("datasets"), Path)
    watch = Watch(items, 2)
    for item in items:
        watch.heed(Event(item.name, "started"))
        watch.heed(Event(item.name, "done", {"state": "finished", "trained": True, "seconds": 5.0, "test": 0.75}))
    said = capsys.readouterr().err
    assert ", test accuracy 75.00%" in said
    assert ", test token accuracy 75.00%" in said


def test_options_go_before_a_file_setting_by_setting(here: Path) -> None:
    Path("sweep.toml").write_text('schemes = ["rope"]\ntasks = ["copy"]\npreset = "tiny"\nset = {steps=7, heads=4}\n')
    words = ["sweep", "sweep.toml", "--device", "cpu", "--dry-run", "--json"]
    trials = json.loads(ape(*words, "--set", "heads=1,2", "--set", "dropout=0.5", "--seeds", "5")[0])["trials"]
    assert [t["variant"] for t in trials] == ["dropout=0.5, heads=1, steps=7", "dropout=0.5, steps=7"]
    assert all("-5-" in t["run"] for t in trials)


@pytest.mark.slow
def test_a_report_of_a_sweep_has_its_runs_alone_and_says_what_is_missing(here: Path) -> None:
    ape("sweep", "--schemes", "rope,none,alibi", "--tasks", "copy", "--preset", "tiny", *SHORT, *ONE)
    Path("mine.toml").write_text(
        'schemes = ["rope", "none"]\ntasks = ["copy"]\nseeds = [42, 43]\npreset = "tiny"\n'
        "set = {steps=6, validate_every_steps=3}\n"
    )
    table = ape("report", "--sweep", "mine.toml", "--format", "markdown")[0]
    assert [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")][1:] == [
        "| none (steps=6, validate_every_steps=3)",
        "| rope (steps=6, validate_every_steps=3)",
    ]
    assert "Of the 4 runs of mine.toml, 2 are finished." in table
    filtered = ape("report", "--sweep", "mine.toml", "--scheme", "rope", "--format", "markdown")[0]
    assert "| none" not in filtered
    assert "Of the 2 runs of mine.toml with --scheme rope, 1 are finished." in filtered
    both = ape("report", "--sweep", "mine.toml", "--preset", "tiny", "--preset", "small", "--format", "json")[1]
    assert "Of the 8 runs of mine.toml with --preset tiny --preset small, 2 are finished." in both
    ape("gen", "copy", "--n", "9", "--n-test", "9", "--length-mean", "9", "--out", "longer")
    ape("eval", "--data", "longer")
    assert ape("report", "--sweep", "mine.toml", "--format", "markdown")[0] == table  # on their own data
    assert "copy on longer" in ape("report", "--format", "markdown")[0]
    ape("sweep", "mine.toml", "--device", "cpu", *ONE)
    assert "are finished" not in ape("report", "--sweep", "mine.toml", "--format", "markdown")[0]


def test_another_dataset_in_the_place_of_a_preset_s(here: Path) -> None:
    ape("gen", "copy", "--n", "40", "--out", "datasets/reverse-tiny", "--length-mean", "5")
    words = ["sweep", "--schemes", "none", "--tasks", "copy,reverse", "--preset", "tiny", *SHORT]
    for more in ([], ["--dry-run"]):
        _, err = ape(*words, *more, code=1)
        assert "reverse-tiny holds another dataset than that of preset tiny" in err
    assert not (here / "results").exists()


@pytest.mark.slow
def test_what_is_damaged_fails_alone(here: Path) -> None:
    words = ["sweep", "--schemes", "none,rope", "--tasks", "copy", "--preset", "tiny", *SHORT, *ONE]
    ape(*words)
    runs = {run.read()["config"]["scheme"]: run for run in open_registry("results")}
    (runs["none"].folder / "run.json").write_text("{")
    with pytest.raises(DataError, match="a shard is missing"):
        planning.plan(
            specification.points([specification.check({"schemes": ["none"], "data": ["broken"]})], "tiny"),
            *(open_registry("results"), Path("datasets"), lambda name: broken()),
        )
    shard = next(Path("datasets/copy-tiny/data").glob("test-*.parquet"))
    shard.unlink()  # generated again, because it is needed
    out, err = ape(*words, code=1)
    assert "2 trials: 1 failed, 1 finished; 0 trained now" in out
    assert "run.json is damaged" in err or "cannot read" in err
    assert shard.exists()


def broken() -> Path:
    """A user's own dataset without one of its shards."""
    ape("gen", "copy", "--n", "40", "--length-mean", "5", "--out", "broken")
    next(Path("broken/data").glob("test-*.parquet")).unlink()
    return Path("broken")


@pytest.mark.slow
def test_data_without_test_rows_is_finished_without_an_evaluation(here: Path) -> None:
    ape("gen", "copy", "--n", "40", "--n-test", "0", "--length-mean", "5", "--out", "mine")
    words = ["sweep", "--schemes", "none", "--data", "mine", "--preset", "tiny", *SHORT, *ONE]
    ape(*words)
    assert json.loads(ape(*words, "--dry-run", "--json")[0])["to_do"] == 0


@pytest.mark.slow
def test_a_run_of_another_process_is_waited_for_and_else_not_called_done(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["sweep", "--schemes", "none", "--tasks", "copy", "--preset", "tiny", *SHORT, *ONE]
    ape(*words)
    (run,) = open_registry("results")
    about = run.read()
    files.write_json(run.folder / "run.json", about | {"status": "running"})
    with locks.locked(run.folder / ".lock", BusyError("busy")):
        plan = json.loads(ape(*words, "--dry-run", "--json")[0])
        assert [t["state"] for t in plan["trials"]] == ["running"]
        assert plan["to_do"] == 1
    monkeypatch.setattr(worker, "_LOOK", 0.01)
    found, link = open_registry("results"), Asked()
    point = specification.points(
        [specification.check({"schemes": ["none"], "tasks": ["copy"], "set": {"steps": 2}})], "tiny"
    )
    (item,), _ = planning.plan(point, found, Path("datasets"), Path)
    job = worker.job(item, found, "cpu", False)
    assert item.run is not None
    with locks.locked(item.run.folder / ".lock", BusyError("busy")), pytest.raises(KeyboardInterrupt):
        job.call(link, *job.args)  # told to stop, it does not continue to wait


class Asked(FakeLink):
    def stopping(self) -> bool:
        return True


@pytest.mark.slow
def test_a_run_that_changes_between_the_look_and_the_lock(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another process has finished the run in that moment, it is finished and is not trained again."""
    words = ["sweep", "--schemes", "none", "--tasks", "copy", "--preset", "tiny", *SHORT, *ONE]
    ape(*words)
    (run,) = open_registry("results")
    before, looks = run.read(), iter(["stopped", "finished"])
    monkeypatch.setattr(trial, "_status", lambda run: next(looks))
    data, found = open_dataset("datasets/copy-tiny"), open_registry("results")
    settled = (run.config(), data, found, Execution(torch.device("cpu")))
    with pytest.raises(BusyError, match="has trained this run meanwhile"):
        trial.run_trial(*settled, existing=ExistingRun.RESUME_OR_START)
    assert not trial.run_trial(*settled, existing=ExistingRun.RESUME_OR_START).trained
    assert run.read() == before

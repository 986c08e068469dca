"""Sweeps: each run is trained once, whatever happens meanwhile, and is the same run as that of `ape train`."""

from __future__ import annotations

import itertools
import json
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ape_cli.cli import sweep_output
from ape_cli.core import executors
from ape_cli.core.errors import BusyError
from ape_cli.core.executors import Event, JobContext
from ape_cli.core.executors.local import Local
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.experiment.choice import preset_dataset
from ape_cli.runs.registry import open_registry
from ape_cli.storage import files
from ape_cli.sweep import combinations, planning, stages, worker
from tests.conftest import ape, grid_of
from tests.registered import edit

pytestmark = pytest.mark.usefixtures("forked_workers")

GRID = ["--schemes", "rope,none", "--tasks", "copy,tree-copy", "--seeds", "1-2", "--preset", "tiny"]
SHORT = ["--set", "steps=6", "--set", "validate_every_steps=3", "--device", "cpu"]
ONE = ["--workers", "1", "--threads", "1"]  # one process starts sooner than two


def planned(*words: str) -> list[str]:
    """The names of the trials of a sweep, which is not run."""
    plan = json.loads(ape("sweep", *GRID, *SHORT, *words, "--dry-run", "--json")[0])
    return [trial["run"] for trial in plan["trials"]]


def items_of(**fields: Any) -> list[planning.PlannedTrial]:
    groups = combinations.groups([grid_of(fields)], "tiny")
    return stages.plan(groups, open_registry("results"), Path("datasets")).first


def facts(results: Path) -> dict[str, Any]:
    """Everything in a run except times, which a second sweep must repeat."""
    found = {}
    for run in open_registry(results):
        about = run.read()
        assert run.status == "finished"
        outcome = {k: v for k, v in about.outcome.model_dump().items() if k not in ("seconds", "tokens_per_second")}
        history = run.history().drop("seconds").to_dicts()
        found[run.name] = (about.config, outcome, history, run.evaluations())
    return found


def test_a_sweep_is_what_train_makes_one_by_one(here: Path) -> None:
    """A real sweep, which takes 5 seconds: eight trials in processes of their own, and four runs to compare."""
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


def test_a_repeated_sweep_says_how_many_trials_resume(here: Path) -> None:
    words = ("sweep", "--schemes", "none", "--tasks", "copy", "--preset", "tiny", "--seeds", "1-2", *SHORT, *ONE)
    assert "2 trials: 0 finished, 2 to do\n" in ape(*words)[1]
    assert (
        "3 trials: 0 finished, 3 to do, of which 2 resume\n" in ape(*words, "--seeds", "1-3", "--decode", "greedy")[1]
    )


def test_dry_run_says_what_would_be_done_and_does_nothing(here: Path) -> None:
    plan = json.loads(ape("sweep", *GRID, *SHORT, "--dry-run", "--json")[0])
    assert not list(here.iterdir())
    assert plan["to_do"] == 8
    assert {t["state"] for t in plan["trials"]} == {"new"}
    assert all(t["dataset_missing"] for t in plan["trials"])

    ape("sweep", "--schemes", "rope,none", "--tasks", "copy", "--seeds", "1-2", "--preset", "tiny", *SHORT, *ONE)
    took = {"rope": (10.0, 30.0), "none": (50.0, 70.0)}
    for run in open_registry("results"):
        config = run.read().config
        seconds = took[config.scheme][config.seed - 1]
        edit(Path(str(run.folder)) / "run.json", lambda about, s=seconds: about["result"].update(seconds=s))
    words = ["--tasks", "copy,tree-copy", "--preset", "tiny", *SHORT, "--workers", "2", "--dry-run", "--json"]
    plan = json.loads(ape("sweep", "--schemes", "rope,none,alibi", "--seeds", "2-3", *words)[0])
    guesses = {t["run"].rsplit("-", 1)[0]: (t["state"], pytest.approx(t["seconds"])) for t in plan["trials"]}
    assert guesses["copy-rope-2"][0] == "finished"
    assert guesses["copy-rope-3"] == ("new", 30.0)  # the upper median of the same configuration, 10 and 30
    assert guesses["copy-none-3"] == ("new", 70.0)
    assert guesses["copy-alibi-3"] == ("new", 50.0)  # the same model: 10, 30, 50, 70
    assert guesses["tree-copy-breadth-rope-3"] == ("new", 30.0)  # trees of depth 2 have 6 nodes too
    # to do: rope and none on copy once, alibi on copy twice, three schemes on tree-copy twice; two at a time
    assert plan["seconds"] == pytest.approx((30 + 70 + 2 * 50 + 2 * (30 + 70 + 50)) / 2)
    table = ape("sweep", *GRID, *SHORT, "--dry-run")[0]
    assert "8 trials, 4 to do" in table
    assert "estimated from earlier runs" in table


def test_shards_share_a_sweep_out(here: Path) -> None:
    shards = [planned("--shard", f"{i}/3") for i in (1, 2, 3)]
    assert [len(part) for part in shards] == [3, 3, 2]
    assert sorted(itertools.chain(*shards)) == sorted(planned())


def test_what_a_scheme_cannot_read_is_left_out_and_said(here: Path) -> None:
    _, err = ape("sweep", "--schemes", "tree,rope", "--tasks", "copy", "--preset", "tiny", *SHORT, "--dry-run")
    assert "left out: tree on copy-tiny" in err
    _, err = ape("sweep", "--schemes", "tree", "--tasks", "copy", "--preset", "tiny", "--dry-run", code=2)
    assert "the sweep has no trials" in err


def test_both_models_are_tried_where_the_scheme_acts(here: Path) -> None:
    words = ["--schemes", "forget,rope", "--models", "encoder-decoder,decoder", "--tasks", "copy", "--preset", "tiny"]
    out, err = ape("sweep", *words, "--dry-run", "--json")
    found = sorted((t["run"].split("-")[1], t["variant"]) for t in json.loads(out)["trials"])
    assert found == [("forget", "model=decoder"), ("rope", ""), ("rope", "model=decoder")]
    assert "left out: forget on copy-tiny: scheme forget acts only in causal attention" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--schemes", "rope", "--tasks", "copy", "--seeds", "a"], "bad `--seeds`"),
        (["--schemes", "rope", "--tasks", "copy", "--shard", "3/2"], "bad --shard"),
        (["--schemes", "rope", "--tasks", "copy", "--engine", "slrum"], "unknown engine"),
        (["--schemes", "rope", "--tasks", "copy", "--gpus-per-trial", "1"], "unknown option of engine local"),
    ],
)
def test_bad_usage(here: Path, words: list[str], message: str) -> None:
    _, err = ape("sweep", *words, "--device", "cpu", "--dry-run", code=2)
    assert message in err
    assert not list(here.iterdir())


def test_options_of_the_engine_reach_it(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(executors, "make", lambda name, **options: made.append((name, options)) or Local())
    words = ["--workers", "2", "--threads", "3", "--retries", "4", "--address", "ray://x", "--cpus-per-trial", "0.5"]
    words += ["--gpus-per-trial", "0.25", "--trials-per-task", "6"]
    ape("sweep", "--schemes", "rope", "--tasks", "copy", "--preset", "tiny", "--engine", "ray", *words, "--dry-run")
    expected = {"workers": 2, "threads": 3, "retries": 4, "address": "ray://x", "cpus_per_trial": 0.5}
    assert made == [("ray", expected | {"gpus_per_trial": 0.25, "trials_per_task": 6})]


def test_a_run_that_another_process_holds(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep waits, because the other process may be a dying worker. Told to stop, it does not wait."""
    monkeypatch.setattr(worker, "_RETRY_EVERY", 0.01)
    data = preset_dataset("copy", None, "tiny", Path("datasets"))
    (item,) = items_of(schemes=["none"], tasks=["copy"], set={"steps": 2})
    reports: list[Any] = []
    job = worker.job(item, open_registry("results"), "cpu", False)
    assert item.run is not None
    waiting = JobContext(0, reports.append, lambda: len(reports) == 3)
    with files.locked(item.run.folder / ".lock", BusyError("busy")), pytest.raises(KeyboardInterrupt):
        job.call(waiting, *job.args)
    assert reports == [{"waiting": True}] * 3
    assert job.call(JobContext(0, print, lambda: False), *job.args)["trained"]
    assert open_dataset("datasets/copy-tiny").fingerprint == data.fingerprint


def test_a_sweep_without_a_terminal_says_what_each_running_trial_does_after_ten_seconds_and_then_once_a_minute(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [100.0]
    monkeypatch.setattr(sweep_output.time, "monotonic", lambda: clock[0])
    items = items_of(schemes=["none"], tasks=["copy"], seeds=[1, 2, 3])
    a, b, _ = (item.name for item in items)
    with sweep_output.watching(items) as watch:
        watch.handle_event(Event(a, "started"))
        watch.handle_event(Event(b, "started"))
        report = {"step": 10, "steps": 12_000, "loss": 2.5, "accuracy": 0.5, "validation": None}
        clock[0] = 109.0
        watch.handle_event(Event(a, "progress", report))
        capsys.readouterr()
        clock[0] = 114.0  # 100 steps took 5 s, and 11,890 are left
        watch.handle_event(Event(a, "progress", report | {"step": 110, "loss": 1.25}))
        watch.handle_event(Event(b, "progress", {"waiting": True}))
        clock[0] = 173.0
        watch.handle_event(Event(a, "progress", report | {"step": 1300}))
        clock[0] = 174.0
        watch.handle_event(Event(a, "progress", report | {"step": 12_000, "loss": 0.5}))
    assert capsys.readouterr().err.splitlines() == [
        f"[0/3] {a}: step 110/12,000, loss 1.2500, about 9:54 left",
        f"[0/3] {b}: running for 0:14",
        f"[0/3] {a}: step 12,000/12,000, loss 0.5000, evaluating",
        f"[0/3] {b}: waits for another process",
    ]


def test_what_a_trial_reports(words: Dataset, tmp_path: Path) -> None:
    """A line about a trial needs its step, its loss and both accuracies."""
    (item,) = items_of(schemes=["none"], data=[str(words.folder)], set={"steps": 20})
    reports: list[Any] = []
    job = worker.job(item, open_registry(tmp_path), "cpu", False)
    assert job.call(JobContext(0, reports.append, lambda: False), *job.args)["trained"]
    assert reports[0].keys() == {"step", "steps", "loss", "accuracy", "validation"}
    assert reports[0]["loss"] > 0


def test_the_bars_of_a_sweep_and_its_end_by_ctrl_c(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal, each running trial has a bar with its best known score. Trials that run are called stopped."""
    monkeypatch.setattr(sweep_output.sys.stderr, "isatty", lambda: True)
    items = items_of(schemes=["none"], tasks=["copy"], seeds=[1, 2, 3])
    a, b, _ = (item.name for item in items)
    with suppress(KeyboardInterrupt), sweep_output.watching(items) as watch:
        assert watch.bars is not None
        watch.handle_event(Event(a, "started"))
        watch.handle_event(Event(b, "started"))
        report = {"step": 800, "steps": 12_000, "loss": 2.5, "accuracy": 0.5, "validation": None}
        watch.handle_event(Event(b, "progress", report))
        assert [bar.fields["accuracy"] for bar in watch.bars.tasks] == ["", "", "training 50.00%"]
        watch.handle_event(Event(b, "progress", report | {"validation": 0.25}))
        watch.handle_event(Event(a, "done", {"trained": True, "seconds": 50.0, "test": 0.75}))
        total, bar = watch.bars.tasks
        assert (total.completed, total.total) == (1, 3)
        assert (bar.description, bar.completed, bar.fields["accuracy"]) == (b, 800, "validation 25.00%")
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                watch.stop(signal.SIGINT, None)
        raise KeyboardInterrupt
    told = " ".join(capsys.readouterr().err.split())
    assert told.index("stopping after the current steps …") < told.index("ending at once …")
    assert "1 finished, 1 stopped, 1 waiting" in told


def test_options_go_before_a_file_setting_by_setting(here: Path) -> None:
    Path("sweep.toml").write_text('schemes = ["rope"]\ntasks = ["copy"]\npreset = "tiny"\nset = {steps=7, heads=4}\n')
    words = ["sweep", "sweep.toml", "--device", "cpu", "--dry-run", "--json"]
    trials = json.loads(ape(*words, "--set", "heads=1,2", "--set", "dropout=0.5", "--seeds", "5")[0])["trials"]
    assert [t["variant"] for t in trials] == ["dropout=0.5, heads=1, steps=7", "dropout=0.5, steps=7"]
    assert all("-5-" in t["run"] for t in trials)


def test_another_dataset_in_the_place_of_a_preset_s(here: Path) -> None:
    ape("gen", "copy", "--n", "40", "--out", "datasets/reverse-tiny", "--length-mean", "5")
    words = ["sweep", "--schemes", "none", "--tasks", "copy,reverse", "--preset", "tiny", *SHORT]
    for more in ([], ["--dry-run"]):
        _, err = ape(*words, *more, code=1)
        assert "reverse-tiny does not hold the dataset of preset tiny" in err
    assert not (here / "results").exists()


def test_equal_values_are_one_trial(here: Path) -> None:
    """Also before the dataset exists, on which the name of a run depends."""
    words = ["--schemes", "rope", "--tasks", "copy", "--preset", "tiny", "--set", "dropout=0,0.0,-0.0"]
    plan = json.loads(ape("sweep", *words, "--set", "base=100,1e2", "--device", "cpu", "--dry-run", "--json")[0])
    assert [trial["variant"] for trial in plan["trials"]] == ["base=100"]

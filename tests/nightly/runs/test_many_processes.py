"""64 processes at once on one registry and one folder of datasets."""

from __future__ import annotations

import json
from pathlib import Path

from ape_cli.data.loader import open_dataset
from ape_cli.runs.registry import open_registry
from tests.interpreters import python

PROCESSES = 64
CODE = """
import gc, json, os, random, sys, time, traceback
from pathlib import Path

import torch
from ape_cli import experiment, tasks
from ape_cli.core.errors import BusyError, left_out
from ape_cli.data import generation
from ape_cli.data.loader import open_dataset
from ape_cli.evaluation import evaluate
from ape_cli.reports import document
from ape_cli.reports.views import Options, load
from ape_cli.runs.registry import open_registry
from ape_cli.storage import files
from ape_cli.training import trial
from ape_cli.training.execution import Execution, ExistingRun

torch.set_num_threads(1)
here, processes = Path(sys.argv[1]), int(sys.argv[2])


def patiently(do):
    # another process may work on the same thing; then this one tries again, less and less often
    longest = 0.05
    while True:
        try:
            return do()
        except BusyError:
            time.sleep(random.uniform(longest / 2, longest))
            longest = min(2 * longest, 3)


def work(number):
    task = tasks.make("reverse", length_mean=5, length_std=1)
    wanted = generation.plan(task, seed=1, rows={"train": 60, "validation": 10, "test": 10}, shard_rows=10)
    patiently(lambda: generation.generate(task, wanted, here / "data"))
    data, registry = open_dataset(here / "data"), open_registry(here / "results")
    settings = {"steps": 3, "validate_every_steps": 1, "d_model": 8, "d_ff": 8}
    asked = experiment.ExperimentSpec(preset="tiny", scheme="rope", seed=number % 4, set=settings)
    execution = Execution(torch.device("cpu"))
    planned = experiment.of(asked.config("sequence"), data)
    run = patiently(lambda: trial.run_trial(planned, registry, execution, existing=ExistingRun.REFUSE)).run
    evaluate.evaluate(run, data, split="validation", decode="teacher", device=execution.device)
    with left_out() as bad:
        made = document.read(registry, load("scores"), Options(style="markdown"))
    files.write_text(here / "report.md", made.text("score"))
    evaluations, damaged = run.evaluations()
    assert not damaged, damaged
    return [line for line in bad if "has no run.json" not in line]


gc.freeze()  # a collection would copy the memory that the processes share
children = {}
for number in range(processes):
    child = os.fork()
    if not child:
        try:
            bad = work(number)
            print(*bad, sep="\\n", end="" if not bad else "\\n", flush=True)
            os._exit(bool(bad))
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    children[child] = number
failed = [children[pid] for pid in children if os.waitpid(pid, 0)[1]]
sys.exit(f"failed: {failed}" if failed else 0)
"""


def test_64_processes_generate_train_evaluate_and_report(tmp_path: Path) -> None:
    """All of them work on one dataset, four runs and one report. Each reads only whole files, and none is left over."""
    python("-c", CODE, str(tmp_path), str(PROCESSES))
    found = open_dataset(tmp_path / "data")
    assert [found.split(name).table().num_rows for name in ("train", "validation", "test")] == [60, 10, 10]
    runs = list(open_registry(tmp_path / "results"))
    assert [run.problems() for run in runs] == [[]] * 4
    assert [len(run.evaluations()[0]) for run in runs] == [2] * 4
    report = (tmp_path / "report.md").read_text()
    assert "| rope |" in report
    assert "Preset tiny with 4 changes." in report
    left = [path.name for path in tmp_path.rglob("*") if path.name.startswith(".")]
    assert not left
    assert json.loads((tmp_path / "data" / "manifest.json").read_text())["fingerprint"] == found.manifest.fingerprint

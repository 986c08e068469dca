"""`ape report` and `ape runs` over 10,000 registered runs, compared with a program that only parses their files.

The runs are copies of four real ones (one step of a tiny model, evaluated on data of the default sizes), with varied
configurations and 10 seeds. The files have the form that training gives them; the scores mean nothing.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from ape_cli import experiment, tasks
from ape_cli.data import generation
from ape_cli.data.loader import open_dataset
from ape_cli.experiment import ExperimentSpec
from ape_cli.runs import config
from ape_cli.runs.registry import open_registry
from ape_cli.training import trial
from ape_cli.training.execution import Execution
from benchmarks._measure import Row, Usage, ape, process

SUMMARY = "time of `ape report` and `ape runs` over 10,000 runs"
RUNS, SEEDS, ROUNDS = 10_000, 10, 5
KINDS = [
    ("reverse", "rope"),
    ("tree-rotate", "orthogonal-tree"),
    ("grid-rotate", "sinusoidal"),
    ("tree-ops", "orthogonal-tree"),
]
PARSE = """
import json, sys
from pathlib import Path
for run in (Path(sys.argv[1]) / "runs").iterdir():
    for path in [run / "run.json", *(run / "eval").glob("*.json")]:
        json.loads(path.read_text(encoding="utf-8"))
"""


def measure() -> Iterator[Row]:
    """The seconds of each command."""
    with tempfile.TemporaryDirectory() as folder:
        many = Path(folder) / "many"
        fill(Path(folder), many)
        commands = {
            "parse": [sys.executable, "-c", PARSE, str(many)],
            "report": ape("report", "--format", "markdown", "--results", str(many)),
            "runs": ape("runs", "--json", "--results", str(many)),
        }
        taken: dict[str, list[Usage]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                taken[name].append(process(command))
    wall = {name: statistics.median(u.wall for u in usages) for name, usages in taken.items()}
    cpu = {name: statistics.median(u.cpu for u in usages) for name, usages in taken.items()}
    for name, bar in (("report", 2.0), ("runs", None)):
        absolute = {"cpu s": cpu[name], "json.loads of the same files s": wall["parse"]}
        absolute |= {"peak MiB": statistics.median(u.peak for u in taken[name]) / 2**20}
        yield Row(f"ape {name}, {RUNS:,} runs: seconds", wall[name], bar, absolute=absolute)


def fill(work: Path, many: Path) -> None:
    """Write `RUNS` runs into the registry `many`. They are copies of real ones, which are trained in `work`."""
    templates = [_trained(task, scheme, work) for task, scheme in KINDS]
    for number in range(RUNS // len(templates)):
        changed = {"lr_peak": 1e-3 + 1e-6 * (number // SEEDS)}
        for about, evaluations in templates:
            settings = config.read_config(about["config"] | changed | {"seed": number % SEEDS})
            name = (
                f"{about['run'].rsplit('-', 2)[0]}-{settings.seed}-{settings.digest(about['dataset']['fingerprint'])}"
            )
            run = many / "runs" / name
            (run / "eval").mkdir(parents=True)
            about |= {"files": {}, "run": name, "config": settings.model_dump(), "variant": about["variant"] | changed}
            for file, evaluation in evaluations.items():
                about["files"][f"eval/{file}"] = _write(run / "eval" / file, evaluation | {"run": name})
            _write(run / "run.json", about)


def _trained(task: str, scheme: str, work: Path) -> tuple[dict, dict[str, dict]]:
    """Train one step. -> the run.json of the run, and its evaluations by file name"""
    folder = work / task
    made, rows = tasks.make(task), {"train": 100, "validation": 20, "test": 1000}
    generation.generate(made, generation.plan(made, seed=1, rows=rows, shard_rows=1000), folder)
    chosen = ExperimentSpec(preset="tiny", scheme=scheme, set={"steps": 1}).config("sequence")
    outcome = trial.run_trial(
        experiment.of(chosen, open_dataset(folder)), open_registry(work / "few"), Execution(torch.device("cpu"))
    )
    kept = (outcome.run.folder / "eval").iterdir()
    return outcome.run.read().model_dump(mode="json"), {p.name: json.loads(p.read_text(encoding="utf-8")) for p in kept}


def _write(path: Path, value: dict) -> str:
    """Write JSON as `ape` does, without waiting for the disk. -> its SHA-256"""
    content = (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()

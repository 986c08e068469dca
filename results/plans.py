"""The sweeps of record: what they are, where their runs are, and how many are finished."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from ape_cli.core.errors import DataError
from ape_cli.reports.descriptions import ReportedRuns
from ape_cli.runs.registry import Registry, open_registry
from ape_cli.sweep import combinations, specification, stages
from ape_cli.sweep.durations import PastRuns

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
RUNS = RESULTS / "record"  # the finished runs of each sweep, in one file each
AGAIN = {"generalise": "results/generalise/runs.parquet"}  # a sweep that trains runs of others again, apart from them
# folders of schemes and tasks that only new processes find, by the sweep that needs them
OWN = {
    "bounds": "causes",
    "causes": "causes",
    "controls": "ingredients",
    "extraction": "ingredients",
    "ingredients": "ingredients",
    "init": "init",
}
ABOUT = {  # the sweeps in the order of the page
    "table2-neurips": "the published paper, trees (GPU)",
    "table1-neurips": "the published paper, words (GPU)",
    "table2-paper": "the preprint's table 2 (GPU)",
    "table1-paper": "the preprint's table 1 (GPU)",
    "neurips-medium": "rows that the preprint lacks, a quarter as wide",
    "table1-medium": "the preprint's table 1, a quarter as wide",
    "table2-medium": "the preprint's table 2, a quarter as wide",
    "table1": "the preprint's table 1 at preset `small`, with `none` as a control",
    "table2": "the preprint's table 2 at preset `small`, with `breadth-to-depth`",
    "rotations": "three forms of `tree-rotate`",
    "authors-trees": "the published paper's trees, a quarter as wide",
    "bounds": "bounds of the authors' scripts for `learned`, `relative` and `tree`",
    "first-release": "settings of the authors' first release, one by one",
    "causes": "suspected causes of the preprint's numbers",
    "ablation-locality": "the locality bias on and off",
    "ingredients": "what each ingredient of the orthogonal schemes is worth",
    "controls": "free group or distance? simpler schemes that read the same trees",
    "controls-medium": "the best two of them on the preprint's trees",
    "init": "does starting from RoPE help?",
    "features": "absolute positions, rings, forms of tree vectors, and attention other than the dot product",
    "extraction": "parts of `tree-ops`: why is extraction not learned?",
    "tasks": "tasks of other papers and composite structures",
    "chomsky": "fifteen tasks of Deletang et al., lengths 1 to 20, evaluated at up to 100",
    "indirect": "indirect indexing: how many of eight seeds solve it",
    "length": "words of 1 to 40 symbols, evaluated at up to 200, tuned",
    "maps": "encoding or map? sums of 1 to 20 digits, evaluated at up to 100, tuned",
    "depth": "trees of depth 1 to 5, evaluated at up to 9, tuned",
    "generalise": "tables 1 and 2 at larger sizes",
    "trees": "functions of Python's standard library: copied, mirrored, with masked labels",
    "digits": "the preprint's table 3, on scikit-learn's digits",
    "pixels": "a control for `digits`: each pixel a token, pixels shuffled",
    "table3": "the preprint's table 3, on CIFAR-10 (GPU)",
}


def source(sweep: str) -> str:
    """Where the runs of a sweep are."""
    return AGAIN.get(sweep, "results/record")


@cache
def _opened(where: str) -> tuple[Registry, PastRuns]:
    """The runs of `source`, which are read once for all of their sweeps."""
    registry = ReportedRuns(open_registry(ROOT / where))
    return registry, PastRuns(registry)


def registered(sweep: str) -> Registry:
    """All runs that are stored where those of a sweep are (`source`)."""
    return _opened(source(sweep))[0]


@cache
def planned(sweep: str) -> stages.Stages:
    """The trials of a sweep. Raises `DataError` if its dataset is not available."""
    grids = specification.read(RESULTS / f"{sweep}.toml")
    groups = combinations.groups(grids, "small", lambda name: ROOT / name)
    registry, past = _opened(source(sweep))
    return stages.plan(groups, registry, ROOT / "datasets", past)


@cache
def standing(sweep: str) -> tuple[int, int]:
    """The number of finished runs of a sweep, and of all its runs; 0 and 0 if its dataset is not available."""
    if sweep in OWN:
        plan = run(["sweep", f"results/{sweep}.toml", "--results", source(sweep), "--dry-run", "--json"])
        trials = json.loads(plan)["trials"]
        return sum(trial["state"] == "finished" for trial in trials), len(trials)
    try:
        items = planned(sweep).trials
    except DataError:
        return 0, 0
    return sum(item.state == "finished" for item in items), len(items)


def so_far(done: int, planned_runs: int, more: str = "") -> str:
    """The last sentence of an answer: how many runs are finished, with `more` about them. Empty if all are."""
    return "" if done == planned_runs else f" So far, {done} of {planned_runs} runs are finished{more}."


def begun() -> dict[str, tuple[int, int]]:
    """The sweeps that have finished runs, each with the numbers of `standing`."""
    return {sweep: count for sweep in ABOUT if (count := standing(sweep))[0]}


def environment() -> dict[str, str]:
    """The environment of a process that finds the schemes and tasks of `OWN`, and prints 80 columns."""
    folders = os.pathsep.join(str(RESULTS / name) for name in sorted(set(OWN.values())))
    return os.environ | {"PYTHONPATH": folders, "COLUMNS": "80"}


def run(words: list[str]) -> str:
    """The output of an `ape` command. Ends the program if the command fails."""
    command = [sys.executable, "-m", "ape_cli", *words]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout
